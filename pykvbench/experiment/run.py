"""The parent: launches one fresh process a sweep, watches it, and appends what it measures to the run file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench import _timer
from pykvbench.dispatch.environment import environment
from pykvbench.dispatch.known_wrong import known_wrong
from pykvbench.dispatch.landmarks import landmarks
from pykvbench.dispatch.predict import predict
from pykvbench.drivers.availability import require
from pykvbench.drivers.numpy_driver import reference
from pykvbench.errors import BackendUnavailable, RunFileError
from pykvbench.experiment import ceiling
from pykvbench.experiment.header import header, warn
from pykvbench.experiment.interpreter import Interpreter, check_same
from pykvbench.experiment.plan import Plan
from pykvbench.experiment.process import WorkerProcess
from pykvbench.experiment.room import require_room
from pykvbench.geometry import Geometry
from pykvbench.record import Run, RunWriter

GIVE_UP_AFTER = 5  # processes in a row that died without completing a visit end the sweep


@dataclass(frozen=True)
class Progress:
    """Where the run stands, for a progress bar."""

    done: int
    visits: int
    cell: str
    sweep: int


Report = Callable[[Progress], None]


@dataclass
class _State:
    """What the parent keeps between processes."""

    plan: Plan
    writer: RunWriter
    began_ns: int
    report: Report
    done: set[tuple[int, int, int]] = field(default_factory=set)  # (cell, sweep, length)
    process: int = 0
    lost: int = 0
    machine: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()
    predicted: set[int] = field(default_factory=set)
    ceilings: set[tuple[str, int, str]] = field(default_factory=set)  # backend, interpreter and dtype that have one
    references: dict[Geometry, Path] = field(default_factory=dict)

    def event(self, name: str, **values: Any) -> None:
        self.writer.write("event", {"event": name, "at": _timer.now_ns() - self.began_ns, **values})


def start(plan: Plan, path: Path, argv: Sequence[str], facts: Mapping[str, Any], report: Report) -> str:
    """Measure the whole plan into a new run file and return its status: complete, interrupted, incomplete or cut short.

    `facts` is what machine() says.

    Raises UsageError before anything is measured when a backend is missing or the file cannot be made; then no file
    is left behind. A backend that turns out to be missing later costs its own cells only.
    """
    for backend in dict.fromkeys(cell.backend for cell in plan.cells if not plan.interpreters):
        require(backend)
    require_room(plan.cells, plan.capacity, facts)
    writer = RunWriter.create(path)
    began_ns = _timer.now_ns()
    pythons = [python.to_json() for python in plan.interpreters]
    notes = warnings(plan, facts)
    writer.write_header(header("attn", plan.cells, plan.to_json(), plan.seed, argv, facts, notes, began_ns, pythons))
    try:
        return _measure(_State(plan, writer, began_ns, report, machine=facts))
    except BackendUnavailable:
        path.unlink()
        raise
    finally:
        writer.close()


def resume(run: Run, path: Path, report: Report, interpreters: tuple[Interpreter, ...] = ()) -> str:
    """Measure what a run file's plan still lacks and return the status.

    Raises UsageError unless `interpreters` are those that the run was measured under: no path is in a run file.
    """
    if run.is_decode:
        raise RunFileError(f"{path} is a run of `decode`, and only `attn` runs can be continued; start a new run.")
    check_same(run.header.get("interpreters"), interpreters)
    plan = Plan.from_header(run.header, run.cells, interpreters)
    visits = run.visits
    done = set(zip(visits.cell.tolist(), visits.sweep.tolist(), visits.length.tolist()))
    processes = [int(event["process"]) for event in run.events if isinstance(event.get("process"), int)]
    last_at = max([0, *visits.at.tolist(), *(int(event.get("at", 0)) for event in run.events)])
    writer = RunWriter.append(path)
    began_ns = _timer.now_ns() - last_at  # the run's time goes on where it stopped
    try:
        writer.write("event", {"event": "resumed", "at": last_at, "detail": f"{plan.visits - len(done)} visits to go"})
        facts = run.header.get("machine") or {}
        state = _State(plan, writer, began_ns, report, done, max(processes, default=0), machine=facts)
        state.ceilings = {
            _device(plan, event["cell"]) for event in run.events if event["event"] == "ceiling" and "cell" in event
        }
        return _measure(state)
    finally:
        writer.close()


def _measure(state: _State) -> str:
    with tempfile.TemporaryDirectory() as folder:
        state.folder = Path(folder)
        status = "complete"
        try:
            for cell, sweep in state.plan.launches():
                _sweep(state, cell, sweep)
            if state.lost:
                status = "incomplete"
        except KeyboardInterrupt:
            state.event("interrupted", detail="by the user")
            status = "interrupted"
        except OSError as error:  # no room, in the run file or in the temporary folder
            return f"cut short ({error.strerror or error})"
        state.writer.write("end", {"status": status, "visits": len(state.done), "at": _timer.now_ns() - state.began_ns})
    return status


def _sweep(state: _State, cell: int, sweep: int) -> None:
    """One sweep: one process, or more when a process dies; a visit that kills its process is left out."""
    order = list(enumerate(state.plan.order(cell, sweep)))
    todo = [(place, length) for place, length in order if (cell, sweep, length) not in state.done]
    barren = 0
    while todo:
        state.process += 1
        measured = _process(state, cell, sweep, todo)
        if measured == len(todo):
            return
        state.lost += 1
        barren = 0 if measured else barren + 1
        todo = todo[measured + 1 :]
        if barren == GIVE_UP_AFTER and todo:
            state.event(
                "given-up", cell=cell, sweep=sweep, detail=f"{len(todo)} visits after {barren} processes without one"
            )
            state.lost += len(todo)
            return


def _process(state: _State, cell: int, sweep: int, todo: list[tuple[int, int]]) -> int:
    """Run one worker over `todo`; returns how many visits it completed before it ended."""
    plan = state.plan
    measured = 0
    python = plan.interpreters[plan.cells[cell].interpreter] if plan.interpreters else None
    with WorkerProcess(plan.cells[cell].backend, python) as worker:
        worker.send(_task(state, cell, sweep, todo))
        for value in worker.follow(state.writer, plan.timeout_s):
            if value["kind"] == "visit":
                state.done.add((cell, sweep, value["length"]))
                measured += 1
                state.report(Progress(len(state.done), plan.visits, plan.cells[cell].label, sweep))
            elif value["event"] == "unavailable" and not state.done:
                raise BackendUnavailable(str(value["detail"]).partition(": ")[2])
            elif value["event"] == "ceiling":
                state.ceilings.add(_device(plan, cell))
            elif value["event"] == "worker-started":
                _predict(state, cell, value["describe"])
        if worker.failure is not None and measured < len(todo):
            name, detail = worker.failure
            at = {"length": todo[measured][1]} if worker.ready else {}  # before its first visit no length is to blame
            state.event(name, cell=cell, sweep=sweep, process=state.process, **at, detail=detail)
    return measured


def _predict(state: _State, cell: int, describe: Mapping[str, Any]) -> None:
    """Store, once a cell, what the rules say about it for the versions that its worker found."""
    if cell in state.predicted:
        return
    state.predicted.add(cell)
    plan, what = state.plan, state.plan.cells[cell]
    first, last, here = plan.lengths[0], plan.lengths[-1], environment(state.machine, describe)
    state.event(
        "predicted",
        cell=cell,
        routes={str(length): predict(what, here, length, plan.capacity).to_json() for length in (first, last)},
        landmarks=[[mark.length, mark.what, mark.source] for mark in landmarks(what, here, first, last, plan.capacity)],
        known_wrong=list(known_wrong(what, here, plan.lengths, plan.capacity)),
    )


def _task(state: _State, cell: int, sweep: int, todo: list[tuple[int, int]]) -> dict[str, Any]:
    plan = state.plan
    row = {length: index for index, length in enumerate(plan.lengths)}
    return {
        "measure": "sweep",
        "place": {"cell": cell, "sweep": sweep, "process": state.process},
        "items": [{"order": order, "length": length, "row": row[length]} for order, length in todo],
        "cell": plan.cells[cell].to_json(),
        "process": state.process,
        "samples": plan.samples,
        "warmup_s": plan.warmup_s,
        "warmup_length": plan.warmup_length,
        "capacity": plan.capacity,
        "seed": plan.seed,
        "simulate": plan.simulate,
        "inject": [injection.text for injection in plan.inject],
        "cpus": plan.cpus,
        "began_ns": state.began_ns,
        "reference": str(_reference(state, plan.cells[cell].geometry)),
        "ceiling": []
        if _device(plan, cell) in state.ceilings
        else ceiling.sizes(plan.cells[cell].geometry, plan.lengths),
    }


def _device(plan: Plan, cell: int) -> tuple[str, int, str]:
    """What has one ceiling: the cells of one backend under one Python, with caches of one size."""
    what = plan.cells[cell]
    return what.backend, what.interpreter, what.geometry.dtype


def _reference(state: _State, geometry: Geometry) -> Path:
    """The float64 reference of every length, computed once a geometry while the first worker imports its framework."""
    if geometry not in state.references:
        path = state.folder / f"reference-{len(state.references)}.npy"
        np.save(path, reference(geometry, list(state.plan.lengths), state.plan.seed))
        state.references[geometry] = path
    return state.references[geometry]


def warnings(plan: Plan, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong before anything is measured: results known to be wrong, variables and states that change timing."""
    return warn(plan.cells, plan.lengths, plan.capacity, facts)
