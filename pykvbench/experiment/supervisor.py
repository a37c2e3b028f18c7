"""What the parent of every measuring command does: open the run file, launch processes, and close the file rightly."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pykvbench import _timer
from pykvbench.cell import Cell
from pykvbench.drivers.availability import require
from pykvbench.drivers.numpy_driver import reference
from pykvbench.errors import BackendUnavailable
from pykvbench.experiment.clocks import Clocks
from pykvbench.experiment.header import header
from pykvbench.experiment.interpreter import Interpreter
from pykvbench.experiment.room import require_room
from pykvbench.geometry import Geometry
from pykvbench.record import RunWriter


class Planned(Protocol):
    """What a command's plan says to whoever runs it."""

    @property
    def cells(self) -> tuple[Cell, ...]: ...

    @property
    def capacity(self) -> int: ...

    @property
    def seed(self) -> int: ...

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Progress:
    """Where the run stands, for a progress bar; `unit` is what is counted."""

    done: int
    total: int
    cell: str
    round: int


Report = Callable[[Progress], None]


@dataclass
class Supervisor:
    """What the parent keeps between processes; `done`, `lost` and `total` count what the command measures."""

    writer: RunWriter
    began_ns: int
    total: int
    report: Report
    facts: Mapping[str, Any]  # what machine() says
    folder: Path  # for files that end with the run
    process: int = 0
    done: int = 0
    lost: int = 0
    clocks: Clocks = field(default_factory=Clocks)
    _references: dict[tuple[Geometry, tuple[int, ...]], Path] = field(default_factory=dict)

    def event(self, name: str, **values: Any) -> None:
        """Append an event, stamped with the run's time."""
        self.writer.write("event", {"event": name, "at": self.at(), **values})

    def at(self) -> int:
        """Nanoseconds since the run began."""
        return _timer.now_ns() - self.began_ns

    def count(self, label: str, round: int) -> None:
        """One more is measured."""
        for name, detail in self.clocks.changes():
            self.event(name, detail=detail)
        self.done += 1
        self.report(Progress(self.done, self.total, label, round))

    def refuse_if_nothing(self, event: Mapping[str, Any]) -> None:
        """Raise BackendUnavailable for a worker's `unavailable` event while nothing has been measured."""
        if not self.done:
            raise BackendUnavailable(str(event["detail"]).partition(": ")[2])

    def reference(self, geometry: Geometry, lengths: Sequence[int], seed: int) -> Path:
        """The float64 reference of these lengths, computed once while a worker imports its framework."""
        key = (geometry, tuple(lengths))
        if key not in self._references:
            path = self.folder / f"reference-{len(self._references)}.npy"
            np.save(path, reference(geometry, list(lengths), seed))
            self._references[key] = path
        return self._references[key]


def start(
    command: str,
    unit: str,
    total: int,
    plan: Planned,
    path: Path,
    argv: Sequence[str],
    facts: Mapping[str, Any],
    notes: Sequence[str],
    report: Report,
    measure: Callable[[Supervisor], None],
    interpreters: Sequence[Interpreter] = (),
) -> str:
    """Measure `total` `unit` into a new run file and return its status: complete, interrupted, incomplete or cut short.

    Raises UsageError before anything is measured when a backend is missing or the file cannot be made; then no file
    is left behind. A backend that turns out to be missing later costs its own cells only.
    """
    for backend in dict.fromkeys(cell.backend for cell in plan.cells if not interpreters):
        require(backend)
    require_room(plan.cells, plan.capacity, facts)
    writer = RunWriter.create(path)
    began_ns = _timer.now_ns()
    pythons = [python.to_json() for python in interpreters]
    writer.write_header(header(command, plan.cells, plan.to_json(), plan.seed, argv, facts, notes, began_ns, pythons))
    try:
        return supervise(writer, began_ns, unit, total, facts, report, measure)
    except BackendUnavailable:
        path.unlink()
        raise


def supervise(
    writer: RunWriter,
    began_ns: int,
    unit: str,
    total: int,
    facts: Mapping[str, Any],
    report: Report,
    measure: Callable[[Supervisor], None],
) -> str:
    """Run `measure` over a run file whose header stands, end and close the file, and return the status."""
    status = "complete"
    try:
        with tempfile.TemporaryDirectory() as folder:
            supervisor = Supervisor(writer, began_ns, total, report, facts, Path(folder))
            try:
                measure(supervisor)
                if supervisor.lost:
                    status = "incomplete"
            except KeyboardInterrupt:
                supervisor.event("interrupted", detail="by the user")
                status = "interrupted"
            writer.write("end", {"status": status, unit: supervisor.done, "at": supervisor.at()})
    except OSError as error:  # no room, in the run file or in the temporary folder
        return f"cut short ({error.strerror or error})"
    finally:
        writer.close()
    return status
