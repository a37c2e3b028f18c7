"""What must be equal for two runs' times to be compared, and what differs on purpose and is only shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pykvbench.machine.variables import EFFECTS
from pykvbench.record import Run

_MACHINE = (
    "cpu",
    "gpu_cores",
    "gpus",
    "cores",
    "threads",
    "architecture",
    "os",
    "os_version",
    "governor",
    "turbo",
    "power_source",
    "low_power_mode",
    "cpu_speed_limit",
    "thermal_pressure",
)
_PLAN = ("samples", "warmup_s", "inject", "cpus", "tokens", "budget", "slice")


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same on both sides, as it stands in the run files."""

    key: str
    first: Any
    second: Any

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {"key": self.key, "first": self.first, "second": self.second}


def unfair(first: Run, second: Run, pair: tuple[int, int]) -> tuple[Difference, ...]:
    """What makes times of a cell of one run and its counterpart in another incomparable; empty if nothing does."""
    found = unlike(first, second, pair)
    measured, others = (np.unique(run.visits.of_cell(i).length) for run, i in zip((first, second), pair))
    if not np.intersect1d(measured, others).size:
        plans = (first.plan.get("lengths"), second.plan.get("lengths"))
        found = (*found, Difference("lengths without overlap", *plans))
    return found


def unlike(first: Run, second: Run, pair: tuple[int, int]) -> tuple[Difference, ...]:
    """What of shape, plan, machine and settings differs between two cells whatever their lengths."""
    one, other = first.cells[pair[0]], second.cells[pair[1]]
    sides = [
        {
            **cell.geometry.to_json(),
            "kernel": cell.kernel,
            "cache": cell.cache,
            **{name: None if (value := run.plan.get(name)) == [] else value for name in _PLAN},
            **{f"machine {name}": _machine(run).get(name) for name in _MACHINE},
            **{f"variable {name}": value for name, value in _variables(run).items()},
            "device threads": described(run, index).get("threads"),
        }
        for run, cell, index in ((first, one, pair[0]), (second, other, pair[1]))
    ]
    return differences(*sides)


def shown(first: Run, second: Run, pair: tuple[int, int]) -> tuple[Difference, ...]:
    """What differs between two cells and may be the reason: versions, device, settings, predicted route, dispatch."""
    sides = []
    for run, index in ((first, pair[0]), (second, pair[1])):
        cell, facts, visits = run.cells[index], described(run, index), run.visits.of_cell(index)
        share = float(np.median(visits.dispatch / visits.total)) if len(visits) else float("nan")
        sides.append(
            {
                "backend": cell.backend,
                "kernel": cell.kernel,
                "cache": cell.cache,
                "dtype": cell.geometry.dtype,
                "python": python(run, index),
                "framework": " ".join(str(facts[name]) for name in ("framework", "version") if name in facts) or None,
                **{name: facts.get(name) for name in ("device", "device_name", "threads", "cuda", "cudnn")},
                "predicted route": route(run, index),
                "dispatch share": f"{share:.0%}" if np.isfinite(share) else None,
            }
        )
    return differences(*sides)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Keys whose values differ; a fact that one side does not tell is no difference, except for variables."""
    keys = [*first, *(key for key in second if key not in first)]
    pairs = [Difference(key, first.get(key), second.get(key)) for key in keys]
    return tuple(
        pair
        for pair in pairs
        if pair.first != pair.second
        and (None not in (pair.first, pair.second) or pair.key.startswith(("variable ", "inject", "cpus")))
    )


def described(run: Run, index: int) -> Mapping[str, Any]:
    """What the cell's first worker said of its device."""
    for event in run.events:
        if event.get("cell") == index and isinstance(event.get("describe"), dict):
            return dict(event["describe"])
    return {}


def version(run: Run, index: int) -> str | None:
    """The framework and version that measured a cell, such as torch 2.13.0."""
    facts = described(run, index)
    if "framework" in facts and "version" in facts:
        return f"{facts['framework']} {facts['version']}"
    return run.cells[index].build or None


def python(run: Run, index: int) -> str | None:
    """The Python that measured a cell."""
    known = run.header.get("interpreters")
    place = run.cells[index].interpreter
    if isinstance(known, list) and place < len(known) and isinstance(known[place], dict):
        return str(known[place].get("python"))
    value = _machine(run).get("python")
    return str(value) if value else None


def route(run: Run, index: int) -> str | None:
    """The predicted kernels of the shortest and longest length in a few words."""
    for event in run.events:
        if event["event"] == "predicted" and event.get("cell") == index and isinstance(event.get("routes"), dict):
            names = [_route(value) for value in event["routes"].values() if isinstance(value, dict)]
            return ", then ".join(dict.fromkeys(names)) or None
    return None


def _route(value: Mapping[str, Any]) -> str:
    parts = ", ".join(str(part) for part in value.get("parts") or ())
    return f"{value.get('name')} ({parts})" if parts else str(value.get("name"))


def _machine(run: Run) -> Mapping[str, Any]:
    facts = run.header.get("machine")
    return facts if isinstance(facts, dict) else {}


def _variables(run: Run) -> Mapping[str, Any]:
    known = _machine(run).get("variables")
    return {name: value for name, value in known.items() if name in EFFECTS} if isinstance(known, dict) else {}
