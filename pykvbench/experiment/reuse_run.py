"""The parent of a reuse run: a fresh process for each prompt, then those that pin the break-even length down."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench.analysis.break_even import SIDES, both_sides, shorter_lengths
from pykvbench.analysis.reuse import tabulate
from pykvbench.analysis.reuse_table import ReuseTable
from pykvbench.experiment import supervisor
from pykvbench.experiment.header import warn
from pykvbench.experiment.process import WorkerProcess
from pykvbench.experiment.reuse_plan import COPIES, ReusePlan
from pykvbench.experiment.room import require_disk, require_room
from pykvbench.experiment.supervisor import Report, Supervisor

_PREFIX = ".pykvbench-kv-"


@dataclass
class _Prompts:
    """A run of prompts: its plan, where KV files are, those that were there before, and what was measured so far."""

    plan: ReusePlan
    supervisor: Supervisor
    folder: Path
    foreign: frozenset[str]
    order: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)

    def table(self, cell: int) -> ReuseTable:
        return tabulate(self.plan.cells[cell], [line for line in self.lines if line["cell"] == cell])


def start(plan: ReusePlan, path: Path, argv: Sequence[str], facts: Mapping[str, Any], report: Report) -> str:
    """Measure the whole plan into a new run file and return its status (supervisor.start says which)."""

    def measure(supervisor: Supervisor) -> None:
        with _kv_folder(plan, path.parent) as folder:
            run = _Prompts(plan, supervisor, folder, frozenset(file.name for file in folder.iterdir()))
            for cell, length, repeat in plan.launches():
                _process(run, cell, (length,), repeat, search=False)
            for cell in range(len(plan.cells)):
                _search(run, cell)

    require_room(plan.cells, plan.capacity, facts, COPIES)
    require_disk(plan.keep or path.parent, plan.disk_bytes)
    notes, total = warnings(plan, facts), len(plan.launches())
    return supervisor.start("reuse", "prompts", total, plan, path, argv, facts, notes, report, measure)


def warnings(plan: ReusePlan, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong before anything is measured."""
    return warn(plan.cells, [length + 1 for length in plan.lengths], plan.capacity, facts)


@contextlib.contextmanager
def _kv_folder(plan: ReusePlan, beside: Path) -> Iterator[Path]:
    """Where KV files are: the user's folder, or one beside the run file (/tmp may be memory) that ends with the run."""
    if plan.keep is not None:
        plan.keep.mkdir(parents=True, exist_ok=True)
        yield plan.keep.resolve()
        return
    for left in beside.glob(f"{_PREFIX}*"):  # of runs that were killed
        with contextlib.suppress(ValueError, PermissionError):
            try:
                os.kill(int(left.name.removeprefix(_PREFIX)), 0)
            except ProcessLookupError:
                shutil.rmtree(left, ignore_errors=True)
    folder = beside.resolve() / f"{_PREFIX}{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _search(run: _Prompts, cell: int) -> None:
    """Measure where restoring begins to pay, if that is within the lengths asked for or below them."""
    known = run.table(cell).break_even
    if any(found.found == "below" for found in known):
        _round(run, cell, shorter_lengths(run.plan.lengths[0]))
    for factor in SIDES:
        lengths = {n for found in run.table(cell).break_even for n in both_sides(found, factor, run.plan.longest)}
        _round(run, cell, sorted(lengths - {line["length"] for line in run.lines if line["cell"] == cell}))


def _round(run: _Prompts, cell: int, lengths: Sequence[int]) -> None:
    """All these lengths in one process a repeat, since they are short, and their files removed again."""
    if not lengths:
        return
    run.supervisor.total += run.plan.repeats
    before = {file.name for file in run.folder.iterdir()}
    for repeat in range(run.plan.repeats):
        rng = np.random.default_rng([run.plan.seed, cell, repeat, *lengths])
        _process(run, cell, tuple(rng.permutation(lengths).tolist()), repeat, search=True)
    for file in run.folder.iterdir():
        if file.name not in before:
            file.unlink(missing_ok=True)


def _process(run: _Prompts, cell: int, lengths: Sequence[int], repeat: int, search: bool) -> None:
    """One process; what it wrote before it died is kept."""
    plan, supervisor = run.plan, run.supervisor
    supervisor.process += 1
    place = {"cell": cell, "process": supervisor.process}
    progress = supervisor.folder / f"progress-{supervisor.process}"
    np.zeros(1, dtype=np.int64).tofile(progress)
    counter = np.memmap(progress, dtype=np.int64, mode="r", shape=(1,))
    due, written = len(lengths) * (1 + len(plan.tiers)), 0
    with WorkerProcess(plan.cells[cell].backend) as worker:
        worker.send(_task(run, cell, lengths, repeat, search, progress))
        for value in worker.follow(supervisor.writer, plan.timeout_s, progress=lambda: int(counter[0])):
            if value["kind"] == "reuse":
                written += 1
                run.lines.append(value)
            elif value["event"] == "unavailable":
                supervisor.refuse_if_nothing(value)
        if worker.failure is not None and written < due:
            name, detail = worker.failure
            where = {"length": lengths[written // (1 + len(plan.tiers))]} if worker.ready else {}
            supervisor.event(name, **place, **where, detail=detail)
    progress.unlink(missing_ok=True)
    if written == due:
        supervisor.count(plan.cells[cell].label, repeat)
    else:
        supervisor.lost += 1


def _task(
    run: _Prompts, cell: int, lengths: Sequence[int], repeat: int, search: bool, progress: Path
) -> dict[str, Any]:
    plan, what = run.plan, run.plan.cells[cell]
    ends = sorted({length + after for length in lengths for after in (0, 1)})
    checked = what.body == "attention"
    items = []
    for length in lengths:
        name = f"{what.model} {what.label} {length} {plan.seed}.safetensors".replace(" ", "-")
        path = run.folder / name
        items.append(
            {
                "length": length,
                "repeat": repeat,
                "order": run.order,
                "search": search,
                "tiers": list(plan.tiers),
                "chunk": plan.chunk,
                "path": str(path),
                "foreign": name in run.foreign,
                "progress": str(progress),
                "rows": [ends.index(length), ends.index(length + 1)] if checked else None,
            }
        )
        run.order += 1
    return {
        "measure": "reuse",
        "place": {"cell": cell, "process": run.supervisor.process},
        "items": items,
        "cell": what.to_json(),
        "process": run.supervisor.process,
        "warmup_s": plan.warmup_s,
        "warmup_length": plan.warmup_length,
        "capacity": plan.capacity,
        "seed": plan.seed,
        "simulate": None,
        "began_ns": run.supervisor.began_ns,
        "reference": str(run.supervisor.reference(what.geometry, ends, plan.seed)) if checked else None,
    }
