"""Facts of a Mac, from its own tools: one function a tool, each with its parser, which is pure."""

from __future__ import annotations

import re
from typing import Any

from pykvbench.machine.sources import output

# Levels of com.apple.system.thermalpressurelevel, as OSThermalNotification.h orders them on macOS.
THERMAL_LEVELS = ("nominal", "moderate", "heavy", "trapping", "sleeping")

_SYSCTL = {
    "machdep.cpu.brand_string": "cpu",
    "hw.model": "model",
    "hw.physicalcpu": "cores",
    "hw.perflevel0.physicalcpu": "performance_cores",
    "hw.memsize": "memory_bytes",
    "kern.hv_vmm_present": "virtualised",
    "vm.swapusage": "swap_used_bytes",
}
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}


def system() -> dict[str, Any]:
    """Version and build of macOS."""
    return parse_sw_vers(output("sw_vers") or "")


def parse_sw_vers(text: str) -> dict[str, Any]:
    """os_version and os_build from what sw_vers prints."""
    names = {"ProductVersion": "os_version", "BuildVersion": "os_build"}
    return {names[name]: value for name, value in _pairs(text, ":") if name in names and value}


def hardware() -> dict[str, Any]:
    """Chip, model identifier, cores, memory and swap in use in bytes, and whether this is a virtual machine."""
    return parse_sysctl(output("sysctl", *_SYSCTL) or "")


def parse_sysctl(text: str) -> dict[str, Any]:
    """The facts among sysctl's `name: value` lines; names that are missing are left out."""
    facts: dict[str, Any] = {}
    for name, value in _pairs(text, ":"):
        fact = _SYSCTL.get(name)
        if fact in ("cpu", "model") and value:
            facts[fact] = value
        elif fact == "swap_used_bytes" and (used := re.search(r"used = ([\d.]+)([KMGT])", value)):
            facts[fact] = int(float(used[1]) * 2 ** _UNITS[used[2]])
        elif fact and value.isdecimal():
            facts[fact] = int(value) == 1 if fact == "virtualised" else int(value)
    return facts


def gpu_cores() -> dict[str, Any]:
    """GPU cores from the I/O registry, or from the slower system_profiler where it does not say."""
    found = parse_ioreg(output("ioreg", "-rc", "AGXAccelerator", "-d1") or "")
    return found or parse_system_profiler(output("system_profiler", "SPDisplaysDataType", timeout_s=10.0) or "")


def parse_ioreg(text: str) -> dict[str, Any]:
    """gpu_cores from an AGXAccelerator entry."""
    match = re.search(r'"gpu-core-count" = (\d+)', text)
    return {"gpu_cores": int(match[1])} if match else {}


def parse_system_profiler(text: str) -> dict[str, Any]:
    """gpu_cores from the display section."""
    match = re.search(r"^\s*Total Number of Cores: (\d+)\s*$", text, re.MULTILINE)
    return {"gpu_cores": int(match[1])} if match else {}


def power() -> dict[str, Any]:
    """Power source and low power mode."""
    return {**parse_pmset_batt(output("pmset", "-g", "batt") or ""), **parse_pmset(output("pmset", "-g") or "")}


def parse_pmset_batt(text: str) -> dict[str, Any]:
    """power_source, "AC" or "battery", from `pmset -g batt`; a UPS counts as battery."""
    match = re.search(r"Now drawing from '([^']+)'", text)
    return {"power_source": "AC" if match[1] == "AC Power" else "battery"} if match else {}


def parse_pmset(text: str) -> dict[str, Any]:
    """low_power_mode and high_power_mode from `pmset -g`; older systems say powermode 1 and 2 instead."""
    values = dict(re.findall(r"^\s*(lowpowermode|highpowermode|powermode)\s+(\d+)", text, re.MULTILINE))
    facts = {}
    if "lowpowermode" in values or "powermode" in values:
        facts["low_power_mode"] = values.get("lowpowermode") == "1" or values.get("powermode") == "1"
    if "highpowermode" in values or "powermode" in values:
        facts["high_power_mode"] = values.get("highpowermode") == "1" or values.get("powermode") == "2"
    return facts


def thermal() -> dict[str, Any]:
    """Thermal pressure level, and the CPU speed limit where one is set."""
    level = parse_notifyutil(output("notifyutil", "-g", "com.apple.system.thermalpressurelevel") or "")
    return {**level, **parse_pmset_therm(output("pmset", "-g", "therm") or "")}


def parse_notifyutil(text: str) -> dict[str, Any]:
    """thermal_pressure by name; a level beyond the known ones keeps its number."""
    match = re.search(r"thermalpressurelevel\s+(\d+)\s*$", text)
    if match is None:
        return {}
    level = int(match[1])
    return {"thermal_pressure": THERMAL_LEVELS[level] if level < len(THERMAL_LEVELS) else f"level {level}"}


def parse_pmset_therm(text: str) -> dict[str, Any]:
    """cpu_speed_limit in percent from `pmset -g therm`, which Apple silicon prints only once it was below 100."""
    match = re.search(r"CPU_Speed_Limit\s*=\s*(\d+)", text)
    return {"cpu_speed_limit": int(match[1])} if match else {}


def _pairs(text: str, separator: str) -> list[tuple[str, str]]:
    lines = (line.partition(separator) for line in text.splitlines())
    return [(name.strip(), value.strip()) for name, _, value in lines]
