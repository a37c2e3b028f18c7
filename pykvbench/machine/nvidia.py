"""Facts of NVIDIA GPUs, from nvidia-smi: names, drivers, clocks, why clocks are held back, who else computes."""

from __future__ import annotations

import csv
from typing import Any

from pykvbench.machine.sources import output

# Query fields and the names they get; serial numbers, UUIDs and bus addresses are left out on purpose.
_FIELDS = {
    "name": "name",
    "driver_version": "driver",
    "memory.total": "memory_mib",
    "clocks.sm": "sm_mhz",
    "clocks.max.sm": "max_sm_mhz",
    "clocks.mem": "memory_mhz",
    "persistence_mode": "persistence",
    "clocks_throttle_reasons.active": "throttle_reasons",
}
# Bits of nvmlClocksEventReasons that hold a busy GPU back; idle (1), application clocks (2) and display (0x100) do not.
_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
}


def gpus() -> dict[str, Any]:
    """The GPUs, and how many other programs compute on them; nothing without nvidia-smi."""
    text = output("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
    found = parse_gpus(text or "")
    if not found:
        return {}
    programs = output("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
    return {"gpus": found, "gpu_processes": parse_processes(programs or "")}


def parse_gpus(text: str) -> list[dict[str, Any]]:
    """One dict a GPU from the CSV of the query; a field the driver does not know is left out."""
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) != len(_FIELDS):
            continue
        known = {
            name: value.strip()
            for name, value in zip(_FIELDS.values(), row, strict=True)
            if value.strip() and not value.strip().startswith("[")
        }
        gpu: dict[str, Any] = {
            name: int(value) if name.endswith(("_mhz", "_mib")) and value.isdecimal() else value
            for name, value in known.items()
        }
        if "throttle_reasons" in gpu:
            gpu["throttle_reasons"] = parse_throttle_reasons(gpu["throttle_reasons"])
        found.append(gpu)
    return found


def parse_throttle_reasons(mask: str) -> list[str]:
    """What holds the clocks back, from the hexadecimal mask."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return []
    return [reason for bit, reason in _THROTTLES.items() if bits & bit]


def parse_processes(text: str) -> int:
    """How many programs compute: lines that are a process number."""
    return sum(line.strip().isdecimal() for line in text.splitlines())
