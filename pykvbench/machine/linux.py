"""Facts of a Linux machine, from /proc and /sys; `root` stands for / and is another folder in tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pykvbench.machine.sources import content

ROOT = Path("/")


def system(root: Path = ROOT) -> dict[str, Any]:
    """The distribution's version; the kernel's numbers without what its builder appended."""
    facts = parse_os_release(content(root / "etc/os-release") or "")
    kernel = re.match(r"\d+\.\d+(\.\d+)?", content(root / "proc/sys/kernel/osrelease") or "")
    return {**facts, **({"kernel": kernel[0]} if kernel else {})}


def parse_os_release(text: str) -> dict[str, Any]:
    """os_version, such as Ubuntu 24.04, from os-release."""
    values = dict(re.findall(r'^(NAME|VERSION_ID)="?([^"\n]*)"?$', text, re.MULTILINE))
    version = f"{values.get('NAME', '')} {values.get('VERSION_ID', '')}".strip()
    return {"os_version": version} if version else {}


def hardware(root: Path = ROOT) -> dict[str, Any]:
    """CPU name, memory and swap in use in bytes, and whether this is a virtual machine."""
    return {
        **parse_cpuinfo(content(root / "proc/cpuinfo") or ""),
        **parse_meminfo(content(root / "proc/meminfo") or ""),
    }


def parse_meminfo(text: str) -> dict[str, Any]:
    """memory_bytes and swap_used_bytes from /proc/meminfo."""
    sizes = {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    facts = {"memory_bytes": sizes["MemTotal"]} if "MemTotal" in sizes else {}
    if "SwapTotal" in sizes and "SwapFree" in sizes:
        facts["swap_used_bytes"] = sizes["SwapTotal"] - sizes["SwapFree"]
    return facts


def parse_cpuinfo(text: str) -> dict[str, Any]:
    """cpu, cores (physical) and virtualised from /proc/cpuinfo; on arm it names no model and tells no cores."""
    facts: dict[str, Any] = {}
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    if model:
        facts["cpu"] = model[1].strip()
    cores = set(re.findall(r"^physical id\s*:\s*(\d+)\n(?:.*\n)*?core id\s*:\s*(\d+)$", text, re.MULTILINE))
    if cores:
        facts["cores"] = len(cores)
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    if flags:
        facts["virtualised"] = "hypervisor" in flags[1].split()
    return facts


def clocks(root: Path = ROOT) -> dict[str, Any]:
    """Frequency governors in use, comma-separated, and whether the CPU may boost."""
    folder = root / "sys/devices/system/cpu"
    facts: dict[str, Any] = {}
    governors = {content(path) for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {None, ""}
    if governors:
        facts["governor"] = ",".join(sorted(str(governor) for governor in governors))
    no_turbo, boost = content(folder / "intel_pstate/no_turbo"), content(folder / "cpufreq/boost")
    if no_turbo in ("0", "1"):
        facts["turbo"] = no_turbo == "0"
    elif boost in ("0", "1"):
        facts["turbo"] = boost == "1"
    return facts


def power(root: Path = ROOT) -> dict[str, Any]:
    """Power source from the mains and batteries (not those of a mouse), and the firmware's low power profile."""
    facts: dict[str, Any] = {}
    mains, discharging = [], False
    for supply in (root / "sys/class/power_supply").glob("*"):
        if content(supply / "scope") == "Device":
            continue
        kind = content(supply / "type")
        if kind == "Mains":
            mains.append(content(supply / "online") == "1")
        discharging = discharging or (kind == "Battery" and content(supply / "status") == "Discharging")
    if discharging or mains:
        facts["power_source"] = "AC" if any(mains) or not discharging else "battery"
    profile = content(root / "sys/firmware/acpi/platform_profile")
    if profile:
        facts["low_power_mode"] = profile == "low-power"
    return facts
