"""The parent: launches one fresh process a sweep, watches it, and appends what it measures to the run file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykvbench import _timer
from pykvbench.dispatch.environment import environment
from pykvbench.dispatch.known_wrong import known_wrong
from pykvbench.dispatch.landmarks import landmarks
from pykvbench.dispatch.predict import predict
from pykvbench.errors import RunFileError
from pykvbench.experiment import ceiling, supervisor
from pykvbench.experiment.header import warn
from pykvbench.experiment.interpreter import Interpreter, check_same
from pykvbench.experiment.plan import Plan
from pykvbench.experiment.process import WorkerProcess
from pykvbench.experiment.supervisor import Report, Supervisor
from pykvbench.record import Run, RunWriter

GIVE_UP_AFTER = 5  # processes in a row that died without completing a visit end the sweep


@dataclass
class _Sweeps:
    """A run of sweeps: its plan, and what has been measured and found out so far."""

    plan: Plan
    supervisor: Supervisor
    done: set[tuple[int, int, int]]  # (cell, sweep, length)
    predicted: set[int] = field(default_factory=set)
    ceilings: set[tuple[str, int, str]] = field(default_factory=set)  # backend, interpreter and dtype that have one


def start(plan: Plan, path: Path, argv: Sequence[str], facts: Mapping[str, Any], report: Report) -> str:
    """Measure the whole plan into a new run file and return its status (supervisor.start says which)."""

    def measure(supervisor: Supervisor) -> None:
        _measure(_Sweeps(plan, supervisor, set()))

    notes, pythons = warnings(plan, facts), plan.interpreters
    return supervisor.start("attn", "visits", plan.visits, plan, path, argv, facts, notes, report, measure, pythons)


def resume(run: Run, path: Path, report: Report, interpreters: tuple[Interpreter, ...] = ()) -> str:
    """Measure what a run file's plan still lacks and return the status.

    Raises UsageError unless `interpreters` are those that the run was measured under: no path is in a run file.
    """
    if run.header.get("command") != "attn":
        command = run.header.get("command")
        raise RunFileError(f"{path} is a run of `{command}`, and only `attn` runs can be continued; start a new run.")
    check_same(run.header.get("interpreters"), interpreters)
    plan = Plan.from_header(run.header, run.cells, interpreters)
    visits = run.visits
    done = set(zip(visits.cell.tolist(), visits.sweep.tolist(), visits.length.tolist()))
    if len(done) == plan.visits and run.end is not None:
        return "complete"
    processes = [int(event["process"]) for event in run.events if isinstance(event.get("process"), int)]
    last_at = max([0, *visits.at.tolist(), *(int(event.get("at", 0)) for event in run.events)])
    writer = RunWriter.append(path)
    began_ns = _timer.now_ns() - last_at  # the run's time goes on where it stopped

    def measure(supervisor: Supervisor) -> None:
        supervisor.event("resumed", detail=f"{plan.visits - len(done)} visits to go")
        supervisor.process, supervisor.done = max(processes, default=0), len(done)
        known = {_device(plan, event["cell"]) for event in run.events if event["event"] == "ceiling"}
        _measure(_Sweeps(plan, supervisor, done, ceilings=known))

    facts = run.header.get("machine") or {}
    return supervisor.supervise(writer, began_ns, "visits", plan.visits, facts, report, measure)


def _measure(run: _Sweeps) -> None:
    for cell, sweep in run.plan.launches():
        _sweep(run, cell, sweep)


def _sweep(run: _Sweeps, cell: int, sweep: int) -> None:
    """One sweep: one process, or more when a process dies; a visit that kills its process is left out."""
    order = list(enumerate(run.plan.order(cell, sweep)))
    todo = [(place, length) for place, length in order if (cell, sweep, length) not in run.done]
    barren = 0
    while todo:
        run.supervisor.process += 1
        measured = _process(run, cell, sweep, todo)
        if measured == len(todo):
            return
        run.supervisor.lost += 1
        barren = 0 if measured else barren + 1
        todo = todo[measured + 1 :]
        if barren == GIVE_UP_AFTER and todo:
            run.supervisor.event(
                "given-up", cell=cell, sweep=sweep, detail=f"{len(todo)} visits after {barren} processes without one"
            )
            run.supervisor.lost += len(todo)
            return


def _process(run: _Sweeps, cell: int, sweep: int, todo: list[tuple[int, int]]) -> int:
    """Run one worker over `todo`; returns how many visits it completed before it ended."""
    plan = run.plan
    measured = 0
    python = plan.interpreters[plan.cells[cell].interpreter] if plan.interpreters else None
    with WorkerProcess(plan.cells[cell].backend, python) as worker:
        worker.send(_task(run, cell, sweep, todo))
        for value in worker.follow(run.supervisor.writer, plan.timeout_s):
            if value["kind"] == "visit":
                run.done.add((cell, sweep, value["length"]))
                measured += 1
                run.supervisor.count(plan.cells[cell].label, sweep)
            elif value["event"] == "unavailable":
                run.supervisor.refuse_if_nothing(value)
            elif value["event"] == "ceiling":
                run.ceilings.add(_device(plan, cell))
            elif value["event"] == "worker-started":
                _predict(run, cell, value["describe"])
        if worker.failure is not None and measured < len(todo):
            name, detail = worker.failure
            at = {"length": todo[measured][1]} if worker.ready else {}  # before its first visit no length is to blame
            run.supervisor.event(name, cell=cell, sweep=sweep, process=run.supervisor.process, **at, detail=detail)
    return measured


def _predict(run: _Sweeps, cell: int, describe: Mapping[str, Any]) -> None:
    """Store, once a cell, what the rules say about it for the versions that its worker found."""
    if cell in run.predicted:
        return
    run.predicted.add(cell)
    plan, what = run.plan, run.plan.cells[cell]
    first, last, here = plan.lengths[0], plan.lengths[-1], environment(run.supervisor.facts, describe)
    run.supervisor.event(
        "predicted",
        cell=cell,
        routes={str(length): predict(what, here, length, plan.capacity).to_json() for length in (first, last)},
        landmarks=[[mark.length, mark.what, mark.source] for mark in landmarks(what, here, first, last, plan.capacity)],
        known_wrong=list(known_wrong(what, here, plan.lengths, plan.capacity)),
    )


def _task(run: _Sweeps, cell: int, sweep: int, todo: list[tuple[int, int]]) -> dict[str, Any]:
    plan = run.plan
    row = {length: index for index, length in enumerate(plan.lengths)}
    return {
        "measure": "sweep",
        "place": {"cell": cell, "sweep": sweep, "process": run.supervisor.process},
        "items": [{"order": order, "length": length, "row": row[length]} for order, length in todo],
        "cell": plan.cells[cell].to_json(),
        "process": run.supervisor.process,
        "samples": plan.samples,
        "warmup_s": plan.warmup_s,
        "warmup_length": plan.warmup_length,
        "capacity": plan.capacity,
        "seed": plan.seed,
        "simulate": plan.simulate,
        "inject": [injection.text for injection in plan.inject],
        "cpus": plan.cpus,
        "began_ns": run.supervisor.began_ns,
        "reference": str(run.supervisor.reference(plan.cells[cell].geometry, plan.lengths, plan.seed)),
        "ceiling": []
        if _device(plan, cell) in run.ceilings
        else ceiling.sizes(plan.cells[cell].geometry, plan.lengths),
    }


def _device(plan: Plan, cell: int) -> tuple[str, int, str]:
    """What has one ceiling: the cells of one backend under one Python, with caches of one size."""
    what = plan.cells[cell]
    return what.backend, what.interpreter, what.geometry.dtype


def warnings(plan: Plan, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong before anything is measured: results known to be wrong, variables and states that change timing."""
    return warn(plan.cells, plan.lengths, plan.capacity, facts)
