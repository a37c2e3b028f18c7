"""The parent of a capacity run: a fresh process for each load, and running out of memory as a result."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench.experiment import supervisor
from pykvbench.experiment.capacity_plan import CapacityPlan, Point
from pykvbench.experiment.header import warn
from pykvbench.experiment.process import WorkerProcess
from pykvbench.experiment.scheduler import UNLIMITED
from pykvbench.experiment.supervisor import Report, Supervisor
from pykvbench.sizes import format_size

OUT_OF_MEMORY, DOES_NOT_FIT = "out-of-memory", "does-not-fit"


@dataclass
class _Servings:
    """A run of loads: its plan, where caches are spilled to, and which points turned out to be too large."""

    plan: CapacityPlan
    supervisor: Supervisor
    folder: Path
    order: int = 0
    too_large: set[Point] = field(default_factory=set)


def start(plan: CapacityPlan, path: Path, argv: Sequence[str], facts: Mapping[str, Any], report: Report) -> str:
    """Measure the whole plan into a new run file and return its status (supervisor.start says which)."""

    def measure(supervisor: Supervisor) -> None:
        with ExitStack() as stack:
            folder = supervisor.folder
            if plan.budget is not None and "spill-disk" in plan.policies:  # beside the run file: /tmp may be memory
                spilled = tempfile.TemporaryDirectory(prefix=".pykvbench-spill-", dir=path.parent)
                folder = Path(stack.enter_context(spilled)).resolve()
            run = _Servings(plan, supervisor, folder)
            for repeat, point in plan.launches():
                _serve(run, repeat, point)

    notes, total = warnings(plan, facts), len(plan.launches())
    return supervisor.start("capacity", "servings", total, plan, path, argv, facts, notes, report, measure)


def warnings(plan: CapacityPlan, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong before anything is measured."""
    lengths = [context + token for context in plan.contexts for token in (1, plan.tokens)]
    return warn(plan.cells, lengths, plan.capacity, facts)


def _serve(run: _Servings, repeat: int, point: Point) -> None:
    """One point in one process, unless it is known that it cannot fit; that, too, is a result and counts as done."""
    plan, label = run.plan, run.plan.cells[point.cell].label
    place = {"cell": point.cell, "context": point.context, "concurrency": point.concurrency, "policy": point.policy}
    if point in run.too_large:
        run.supervisor.count(label, repeat)
        return
    if refusal := _refusal(plan, point):
        run.too_large.add(point)
        run.supervisor.event(refusal[0], **place, detail=refusal[1])
        run.supervisor.count(label, repeat)
        return
    run.supervisor.process += 1
    progress = run.supervisor.folder / f"progress-{run.supervisor.process}"
    np.zeros(1, dtype=np.int64).tofile(progress)
    counter = np.memmap(progress, dtype=np.int64, mode="r", shape=(1,))
    task = _task(run, repeat, point, progress)
    written = ended = False
    with WorkerProcess(plan.cells[point.cell].backend) as worker:
        worker.send(task)
        for value in worker.follow(run.supervisor.writer, plan.timeout_s, progress=lambda: int(counter[0])):
            written = written or value["kind"] == "serving"
            ended = ended or value.get("event") == OUT_OF_MEMORY
            if value.get("event") == "unavailable":
                run.supervisor.refuse_if_nothing(value)
        if worker.failure is not None and not written:
            name, detail = worker.failure
            ended = "SIGKILL" in detail  # what the system does to whoever takes the last of its memory
            run.supervisor.event(OUT_OF_MEMORY if ended else name, **task["place"], repeat=repeat, detail=detail)
    progress.unlink(missing_ok=True)
    for spilled in run.folder.glob("sequence-*"):
        spilled.unlink(missing_ok=True)
    if ended:
        run.too_large.add(point)
    if written or ended:
        run.supervisor.count(label, repeat)
    else:
        run.supervisor.lost += 1


def _refusal(plan: CapacityPlan, point: Point) -> tuple[str, str] | None:
    """The event and its words for a point that cannot be served, None for one that may."""
    if point.policy != UNLIMITED:
        if plan.fitting(point.cell, point.context):
            return None
        needed = plan.needed(Point(point.cell, point.context, 1, point.policy))
        return (
            DOES_NOT_FIT,
            f"one sequence needs {format_size(needed)} and the budget is {format_size(plan.budget or 0)}",
        )
    needed, memory = plan.needed(point), plan.memory[point.cell]
    if memory is None or needed <= memory:
        return None
    return OUT_OF_MEMORY, f"not tried: the caches need {format_size(needed)} and there are {format_size(memory)} in all"


def _task(run: _Servings, repeat: int, point: Point, progress: Path) -> dict[str, Any]:
    plan, what = run.plan, run.plan.cells[point.cell]
    place = {"context": point.context, "concurrency": point.concurrency, "policy": point.policy}
    ends = [context + plan.tokens for context in plan.contexts]
    item = {
        **place,
        "repeat": repeat,
        "order": run.order,
        "tokens": plan.tokens,
        "budget": None if point.policy == UNLIMITED else plan.budget,
        "allocator": plan.allocators[point.cell],
        "on_host": "cuda" not in plan.allocators[point.cell],
        "folder": str(run.folder),
        "progress": str(progress),
        "row": ends.index(point.context + plan.tokens),
    }
    run.order += 1
    return {
        "measure": "serving",
        "place": {"cell": point.cell, "process": run.supervisor.process, **place},
        "items": [item],
        "cell": what.to_json(),
        "process": run.supervisor.process,
        "warmup_s": plan.warmup_s,
        "warmup_length": point.context,
        "capacity": plan.rows(point.context, point.concurrency),
        "seed": plan.seed,
        "simulate": plan.simulate,
        "began_ns": run.supervisor.began_ns,
        "reference": str(run.supervisor.reference(what.geometry, ends, plan.seed)),
    }
