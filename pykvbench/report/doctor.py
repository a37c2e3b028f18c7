"""The page that `doctor` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykvbench.report.numbers import duration


def render(examination: dict[str, Any]) -> str:
    """Backends with the sync floor or the reason they are missing, clock, machine, and what would disturb a run."""
    return "\n".join(_lines(examination))


def _lines(examination: dict[str, Any]) -> Iterator[str]:
    yield "Backends"
    for backend in examination["backends"]:
        if backend["available"]:
            floor = f"sync {duration(backend['sync_ns'])}, smallest step {duration(backend['smallest_step_ns'])}"
            yield f"  {backend['backend']:<10} available: {backend['reason']}; {floor}"
        else:
            yield f"  {backend['backend']:<10} not available: {backend['reason']} {backend['remedy']}".rstrip()
    clock = examination["clock"]
    yield ""
    yield "Clock"
    yield (
        f"  {clock['name']}: resolution {clock['resolution_ns']} ns, one reading costs {clock['overhead_ns']} ns, "
        + ("never ran backwards" if clock["monotonic"] else "RAN BACKWARDS: do not measure on this machine")
    )
    yield ""
    yield "Machine"
    for name, value in examination["machine"].items():
        if not isinstance(value, (dict, list)) and value is not None:
            yield f"  {name.replace('_', ' ')}: {value}"
    yield ""
    yield "What would disturb a run"
    yield from (f"  {line}" for line in examination["disturbances"] or ["nothing found"])
