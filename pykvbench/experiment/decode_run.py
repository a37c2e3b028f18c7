"""The parent of a decode run: launches the trajectories' processes, and keeps the steps of those that die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench.cell import Cell
from pykvbench.experiment import supervisor
from pykvbench.experiment.decode_plan import DecodePlan, Trajectory
from pykvbench.experiment.header import warn
from pykvbench.experiment.process import WorkerProcess
from pykvbench.experiment.supervisor import Report, Supervisor
from pykvbench.experiment.trajectory import line


@dataclass
class _Trajectories:
    """A run of trajectories: its plan, and how many have been launched."""

    plan: DecodePlan
    supervisor: Supervisor
    order: int = 0


def start(plan: DecodePlan, path: Path, argv: Sequence[str], facts: Mapping[str, Any], report: Report) -> str:
    """Measure the whole plan into a new run file and return its status (supervisor.start says which)."""

    def measure(supervisor: Supervisor) -> None:
        run = _Trajectories(plan, supervisor)
        for cell, trajectories in plan.launches():
            _process(run, cell, trajectories)

    notes, total = warnings(plan, facts), plan.trajectories
    return supervisor.start("decode", "trajectories", total, plan, path, argv, facts, notes, report, measure)


def warnings(plan: DecodePlan, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong before anything is measured."""
    return warn(plan.cells, range(plan.prompts[0] + 1, plan.longest + 1), plan.capacity, facts)


def _process(run: _Trajectories, cell: int, trajectories: Sequence[Trajectory]) -> None:
    """One process. If it dies, the steps it completed are kept, and the rest of its trajectories is lost with it."""
    plan = run.plan
    run.supervisor.process += 1
    items = [_item(run, plan.cells[cell], place, trajectory) for place, trajectory in enumerate(trajectories)]
    measured = [item for item in items if item["measured"]]
    place = {"cell": cell, "process": run.supervisor.process}
    written, done = 0, run.supervisor.done
    with WorkerProcess(plan.cells[cell].backend) as worker:
        worker.send(_task(run, cell, items))
        for value in worker.follow(run.supervisor.writer, plan.timeout_s, progress=_progress(items)):
            if value["kind"] == "trajectory":
                written += 1
                if value["complete"]:
                    run.supervisor.count(plan.cells[cell].label, value["repeat"])
            elif value["event"] == "unavailable":
                run.supervisor.refuse_if_nothing(value)
        if worker.failure is not None and written < len(measured):
            name, detail = worker.failure
            where = {key: measured[written][key] for key in ("prompt", "budget")} if worker.ready else {}
            run.supervisor.event(name, **place, **where, detail=detail)
            if worker.ready:
                _rescue(run, place, measured[written])
    run.supervisor.lost += len(measured) - (run.supervisor.done - done)
    for item in items:
        Path(item["stamps"]).unlink(missing_ok=True)


def _rescue(run: _Trajectories, place: Mapping[str, int], item: Mapping[str, Any]) -> None:
    """Write the steps that a dead process had completed of its last trajectory."""
    timing = line(dict(item), _stamps(item), run.supervisor.began_ns)
    if timing["total"]:
        values = {**timing, "memory": {}, "tokens": None, "error": None, "correct": None, **place}
        run.supervisor.writer.write("trajectory", values)


def _stamps(item: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(np.memmap(item["stamps"], dtype=np.int64, mode="r", shape=(item["budget"], 3)))


def _progress(items: Sequence[Mapping[str, Any]]) -> Callable[[], int]:
    """Steps completed so far: a trajectory writes no line for minutes, but its stamps grow."""
    return lambda: sum(int(np.count_nonzero(_stamps(item)[:, 2])) for item in items)


def _item(run: _Trajectories, cell: Cell, place: int, trajectory: Trajectory) -> dict[str, Any]:
    plan = run.plan
    path = run.supervisor.folder / f"stamps-{run.supervisor.process}-{place}"
    np.zeros((trajectory.budget, 3), dtype=np.int64).tofile(path)
    checked = cell.body == "attention"
    item = {
        "prompt": trajectory.prompt,
        "budget": trajectory.budget,
        "repeat": trajectory.repeat,
        "measured": trajectory.measured,
        "place": place,
        "order": run.order,
        "stamps": str(path),
        "row": _ends(plan).index(trajectory.prompt + trajectory.budget) if checked else None,
    }
    run.order += 1
    return item


def _task(run: _Trajectories, cell: int, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    plan, what = run.plan, run.plan.cells[cell]
    checked = what.body == "attention"
    return {
        "measure": "trajectories",
        "place": {"cell": cell, "process": run.supervisor.process},
        "items": items,
        "cell": what.to_json(),
        "process": run.supervisor.process,
        "warmup_s": plan.warmup_s,
        "warmup_length": plan.warmup_length,
        "capacity": plan.capacity,
        "seed": plan.seed,
        "simulate": plan.simulate,
        "began_ns": run.supervisor.began_ns,
        "reference": str(run.supervisor.reference(what.geometry, _ends(plan), plan.seed)) if checked else None,
    }


def _ends(plan: DecodePlan) -> list[int]:
    """The lengths at which trajectories end: where they are compared with the reference."""
    return sorted({prompt + budget for prompt in plan.prompts for budget in plan.budgets})
