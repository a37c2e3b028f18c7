"""What a report says about where a run was made: versions, hardware, power, as lines of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pykvbench.record import Run
from pykvbench.report import numbers
from pykvbench.report.foreign import code

_PACKAGES = ("torch", "mlx", "mlx-metal", "mlx-cpu", "mlx-cuda-12", "mlx-cuda-13", "numpy")
_HARDWARE = (
    ("cpu", "chip"),
    ("model", "model"),
    ("cores", "CPU cores"),
    ("performance_cores", "performance cores"),
    ("threads", "CPU threads"),
    ("virtualised", "virtual machine"),
)
_SYSTEM = (("os", "system"), ("os_version", "version"), ("os_build", "build"), ("kernel", "kernel"))
_POWER = (
    ("power_source", "source"),
    ("low_power_mode", "low power mode"),
    ("high_power_mode", "high power mode"),
    ("thermal_pressure", "thermal pressure"),
    ("cpu_speed_limit", "CPU speed limit in %"),
    ("governor", "governor"),
    ("load", "load"),
)
_DEVICE = (
    ("device", "device"),
    ("device_name", "name"),
    ("gpu_cores", "GPU cores"),
    ("capability", "capability"),
    ("cuda", "CUDA"),
    ("cudnn", "cuDNN"),
    ("threads", "threads"),
)
_MLX_DEVICE = ("architecture", "device_name", "memory_size", "max_recommended_working_set_size")


def versions(run: Run, cell: int) -> tuple[str, ...]:
    """A bullet for each group of facts that the run recorded; what it did not record is said to be missing."""
    return tuple(f"- {line}" for line in _lines(run, cell))


def framework_version(run: Run, cell: int) -> str:
    """The framework of a cell and its version in a few words, for a claim: `torch 2.13.0`."""
    describe = described(run, cell)
    name = describe.get("framework")
    version = describe.get("version")
    return f"{name} {version}" if name in ("torch", "mlx") and isinstance(version, str) else ""


def described(run: Run, cell: int) -> Mapping[str, Any]:
    """What the cell's first worker said of its framework and device."""
    for event in run.events:
        if event.get("cell") == cell and isinstance(event.get("describe"), dict):
            return dict(event["describe"])
    return {}


def _lines(run: Run, cell: int) -> Iterator[str]:
    header, describe = run.header, described(run, cell)
    facts = _part(header, "machine")
    framework = [f"{name} {code(describe[name])}" for name in ("version", "git", "wheel") if _known(describe.get(name))]
    name = describe.get("framework")
    yield f"{name if name in ('torch', 'mlx') else 'framework'}: {', '.join(framework) or 'not recorded'}"
    yield f"device: {_listed(describe, _DEVICE) or 'not recorded'}"
    if info := _part(describe, "device_info"):
        yield f"MLX device: {_listed(info, tuple((name, name.replace('_', ' ')) for name in _MLX_DEVICE))}"
    memory = facts.get("memory_bytes")
    size = f", memory {numbers.byte_count(memory)}" if isinstance(memory, int) and memory > 0 else ""
    cores = facts.get("gpu_cores")
    gpu = f", GPU cores {code(cores)}" if _known(cores) else ""
    yield f"hardware: {_listed(facts, _HARDWARE) or 'not recorded'}{gpu}{size}"
    names = [code(one.get("name")) for one in facts.get("gpus") or () if isinstance(one, dict)]
    if names:
        yield f"GPUs: {', '.join(names[:8])}"
    yield f"system: {_listed(facts, _SYSTEM) or 'not recorded'}"
    yield f"power: {_listed(facts, _POWER) or 'not recorded'}"
    packages = _part(facts, "packages")
    found = [f"{one} {code(_part(packages, one).get('version'))}" for one in _PACKAGES if _part(packages, one)]
    yield f"Python {code(facts.get('python', 'not recorded'))}; packages: {', '.join(found) or 'not recorded'}"
    variables = _part(facts, "variables")
    listed = [f"{code(key)} = {code(variables[key])}" for key in sorted(variables)[:20]]
    yield f"variables of the frameworks: {', '.join(listed) or 'none set'}"
    yield f"pykvbench {code(header.get('pykvbench', 'not recorded'))}, clock {_clock(_part(header, 'clock'))}"


def _clock(clock: Mapping[str, Any]) -> str:
    if not clock:
        return "not recorded"
    return f"{code(clock.get('name'))} in steps of {code(clock.get('resolution_ns'))} ns"


def _listed(values: Mapping[str, Any], names: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{title} {code(_said(values[name]))}" for name, title in names if _known(values.get(name)))


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ".".join(str(part) for part in value[:4]) if isinstance(value, list) else str(value)


def _known(value: object) -> bool:
    return value is not None and value != "" and not isinstance(value, dict)


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = value.get(name)
    return part if isinstance(part, Mapping) else {}
