"""Reading the environment of a prediction from what a run recorded about its machine and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykvbench.dispatch.route import Environment
from pykvbench.record import Run


def environment(machine: Mapping[str, Any], describe: Mapping[str, Any] | None = None) -> Environment:
    """The environment from machine() and, once a worker has opened its device, from the driver's `describe`.

    What the worker says wins over the installed packages; whatever neither says stays unknown.
    """
    described = describe or {}
    versions = {name: _text(_part(_part(machine, "packages"), name).get("version")) for name in ("torch", "mlx")}
    if described.get("framework") in versions:
        versions[described["framework"]] = _text(described.get("version")) or versions[described["framework"]]
    return Environment(
        torch=versions["torch"],
        mlx=versions["mlx"],
        macos=_text(machine.get("os_version")) if machine.get("os") == "macOS" else None,
        architecture=_text(described.get("architecture")) or _text(_part(described, "device_info").get("architecture")),
        variables={str(name): str(value) for name, value in _part(machine, "variables").items()},
    )


def environment_of_cell(run: Run, cell: int) -> Environment:
    """The environment of one cell of a run: its first worker's words over the header's machine."""
    describe = next(
        (_part(event, "describe") for event in run.events if event.get("cell") == cell and "describe" in event), None
    )
    return environment(_part(run.header, "machine"), describe)


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = value.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
