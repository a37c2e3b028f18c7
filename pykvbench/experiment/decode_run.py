"""The parent of a decode run: launches the trajectories' processes, and keeps the steps of those that die."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench import _timer
from pykvbench.cell import Cell
from pykvbench.drivers.availability import require
from pykvbench.drivers.numpy_driver import reference
from pykvbench.errors import BackendUnavailable
from pykvbench.experiment.decode_plan import DecodePlan, Trajectory
from pykvbench.experiment.header import header, warn
from pykvbench.experiment.process import WorkerProcess
from pykvbench.experiment.room import require_room
from pykvbench.experiment.run import Progress, Report
from pykvbench.experiment.trajectory import line
from pykvbench.geometry import Geometry
from pykvbench.record import RunWriter


@dataclass
class _State:
    """What the parent keeps between processes."""

    plan: DecodePlan
    writer: RunWriter
    began_ns: int
    report: Report
    folder: Path
    process: int = 0
    order: int = 0
    done: int = 0
    lost: int = 0
    references: dict[Geometry, Path] = field(default_factory=dict)

    def event(self, name: str, **values: Any) -> None:
        self.writer.write("event", {"event": name, "at": _timer.now_ns() - self.began_ns, **values})


def start(plan: DecodePlan, path: Path, argv: Sequence[str], facts: Mapping[str, Any], report: Report) -> str:
    """Measure the whole plan into a new run file and return its status: complete, interrupted, incomplete or cut short.

    Raises UsageError before anything is measured when a backend is missing or the file cannot be made; then no file
    is left behind.
    """
    for backend in dict.fromkeys(cell.backend for cell in plan.cells):
        require(backend)
    require_room(plan.cells, plan.capacity, facts)
    writer = RunWriter.create(path)
    began_ns = _timer.now_ns()
    notes = warnings(plan, facts)
    writer.write_header(header("decode", plan.cells, plan.to_json(), plan.seed, argv, facts, notes, began_ns))
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measure(_State(plan, writer, began_ns, report, Path(folder)))
    except BackendUnavailable:
        path.unlink()
        raise
    finally:
        writer.close()


def warnings(plan: DecodePlan, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong before anything is measured."""
    return warn(plan.cells, range(plan.prompts[0] + 1, plan.longest + 1), plan.capacity, facts)


def _measure(state: _State) -> str:
    status = "complete"
    try:
        for cell, trajectories in state.plan.launches():
            _process(state, cell, trajectories)
        if state.lost:
            status = "incomplete"
    except KeyboardInterrupt:
        state.event("interrupted", detail="by the user")
        status = "interrupted"
    except OSError as error:  # no room, in the run file or in the temporary folder
        return f"cut short ({error.strerror or error})"
    state.writer.write("end", {"status": status, "trajectories": state.done, "at": _timer.now_ns() - state.began_ns})
    return status


def _process(state: _State, cell: int, trajectories: Sequence[Trajectory]) -> None:
    """One process. If it dies, the steps it completed are kept, and the rest of its trajectories is lost with it."""
    plan = state.plan
    state.process += 1
    items = [_item(state, plan.cells[cell], place, trajectory) for place, trajectory in enumerate(trajectories)]
    measured = [item for item in items if item["measured"]]
    place = {"cell": cell, "process": state.process}
    written, done = 0, state.done
    with WorkerProcess(plan.cells[cell].backend) as worker:
        worker.send(_task(state, cell, items))
        for value in worker.follow(state.writer, plan.timeout_s, progress=_progress(items)):
            if value["kind"] == "trajectory":
                written += 1
                state.done += bool(value["complete"])
                state.report(Progress(state.done, plan.trajectories, plan.cells[cell].label, value["repeat"]))
            elif value["event"] == "unavailable" and not state.done:
                raise BackendUnavailable(str(value["detail"]).partition(": ")[2])
        if worker.failure is not None and written < len(measured):
            name, detail = worker.failure
            where = {key: measured[written][key] for key in ("prompt", "budget")} if worker.ready else {}
            state.event(name, **place, **where, detail=detail)
            if worker.ready:
                _rescue(state, place, measured[written])
    state.lost += len(measured) - (state.done - done)
    for item in items:
        Path(item["stamps"]).unlink(missing_ok=True)


def _rescue(state: _State, place: Mapping[str, int], item: Mapping[str, Any]) -> None:
    """Write the steps that a dead process had completed of its last trajectory."""
    timing = line(dict(item), _stamps(item), state.began_ns)
    if timing["total"]:
        values = {**timing, "memory": {}, "tokens": None, "error": None, "correct": None, **place}
        state.writer.write("trajectory", values)


def _stamps(item: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(np.memmap(item["stamps"], dtype=np.int64, mode="r", shape=(item["budget"], 3)))


def _progress(items: Sequence[Mapping[str, Any]]) -> Callable[[], int]:
    """Steps completed so far: a trajectory writes no line for minutes, but its stamps grow."""
    return lambda: sum(int(np.count_nonzero(_stamps(item)[:, 2])) for item in items)


def _item(state: _State, cell: Cell, place: int, trajectory: Trajectory) -> dict[str, Any]:
    plan = state.plan
    path = state.folder / f"stamps-{state.process}-{place}"
    np.zeros((trajectory.budget, 3), dtype=np.int64).tofile(path)
    checked = cell.body == "attention"
    item = {
        "prompt": trajectory.prompt,
        "budget": trajectory.budget,
        "repeat": trajectory.repeat,
        "measured": trajectory.measured,
        "place": place,
        "order": state.order,
        "stamps": str(path),
        "row": _ends(plan).index(trajectory.prompt + trajectory.budget) if checked else None,
    }
    state.order += 1
    return item


def _task(state: _State, cell: int, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    plan, what = state.plan, state.plan.cells[cell]
    return {
        "measure": "trajectories",
        "place": {"cell": cell, "process": state.process},
        "items": items,
        "cell": what.to_json(),
        "process": state.process,
        "warmup_s": plan.warmup_s,
        "warmup_length": plan.warmup_length,
        "capacity": plan.capacity,
        "seed": plan.seed,
        "simulate": plan.simulate,
        "began_ns": state.began_ns,
        "reference": str(_reference(state, what.geometry)) if what.body == "attention" else None,
    }


def _ends(plan: DecodePlan) -> list[int]:
    """The lengths at which trajectories end: where they are compared with the reference."""
    return sorted({prompt + budget for prompt in plan.prompts for budget in plan.budgets})


def _reference(state: _State, geometry: Geometry) -> Path:
    if geometry not in state.references:
        path = state.folder / f"reference-{len(state.references)}.npy"
        np.save(path, reference(geometry, _ends(state.plan), state.plan.seed))
        state.references[geometry] = path
    return state.references[geometry]
