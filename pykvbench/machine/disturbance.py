"""What about a machine would disturb a run, as plain advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def disturbances(machine: Mapping[str, Any]) -> tuple[str, ...]:
    """One sentence with the remedy for each thing in machine()'s facts that would disturb timing; empty when none."""
    found = []
    if machine.get("power_source") == "battery":
        found.append("The machine runs on battery, which lowers clocks; connect it to mains power.")
    if machine.get("low_power_mode"):
        found.append("Low power mode is on, which lowers clocks; switch it off.")
    governor = machine.get("governor")
    if governor and governor != "performance":
        found.append(f"The CPU frequency governor is {governor}; set it to performance.")
    load, threads = machine.get("load"), machine.get("threads")
    if load is not None and threads and load > threads:
        found.append(f"The load average is {load:.1f} on {threads} CPU threads; close other programs.")
    pressure = machine.get("thermal_pressure")
    if pressure and pressure != "nominal":
        found.append(f"Thermal pressure is {pressure}; let the machine cool down.")
    limit = machine.get("cpu_speed_limit")
    if limit is not None and limit < 100:
        found.append(f"The CPU is held to {limit} % of its speed by heat; let the machine cool down.")
    for gpu in machine.get("gpus") or ():
        if gpu.get("throttle_reasons"):
            reasons = ", ".join(gpu["throttle_reasons"])
            name = gpu.get("name", "The GPU")
            found.append(f"{name} is held back now: {reasons}; let it cool down or raise its limit.")
    others = machine.get("gpu_processes") or 0
    if others:
        found.append(f"{others} other program{'s' if others > 1 else ''} on the GPU; end what is not needed.")
    return tuple(found)
