"""The parent of attribution: appends to a run file the contrasts of what the run's sweeps have confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pykvbench import _timer
from pykvbench.errors import BackendUnavailable
from pykvbench.experiment import attribution_plan
from pykvbench.experiment.attribution_plan import ContrastPlan, Launch
from pykvbench.experiment.interpreter import Interpreter
from pykvbench.experiment.plan import Plan
from pykvbench.experiment.process import WorkerProcess
from pykvbench.experiment.supervisor import Report, Supervisor, supervise
from pykvbench.record import Run, RunWriter
from pykvbench.target import Target

MEMORY_SHARE = 0.5  # of the machine's that caches may take: parts and variants have caches of their own
_CACHES = 8  # as many as a process may hold at once


def attribute(
    run: Run,
    path: Path,
    targets: Sequence[Target],
    left_out: Sequence[str],
    report: Report,
    interpreters: tuple[Interpreter, ...] = (),
) -> str:
    """Measure the contrasts of `targets` after the end of a run file and return the status, as supervise says.

    `left_out` are sentences on what is not attributed, for the record. A worker that dies costs its process only: what
    stands is judged, and the rest was not measured.
    """
    plan = Plan.from_header(run.header, run.cells, interpreters)
    plans = attribution_plan.plans(run.cells, targets, plan.capacity, plan.seed)
    processes = [int(line["process"]) for line in run.events if isinstance(line.get("process"), int)]
    last_at = max([0, *run.visits.at.tolist(), *(int(event.get("at", 0)) for event in run.events)])
    began_ns = _timer.now_ns() - last_at  # the run's time goes on where it stopped

    def measure(supervisor: Supervisor) -> None:
        supervisor.event("attributing", targets=[target.to_json() for target in targets], left_out=list(left_out))
        supervisor.process = max(processes, default=0)
        for contrasts in plans:
            for launch in contrasts.launches():
                supervisor.process += 1
                _process(supervisor, plan, contrasts, launch)

    total = sum(len(contrasts.items(launch, 0)) for contrasts in plans for launch in contrasts.launches())
    writer = RunWriter.append(path)
    return supervise(writer, began_ns, "contrasts", total, run.header.get("machine") or {}, report, measure)


def cost(run: Run, targets: Sequence[Target]) -> str:
    """What attribution will do, said before it starts."""
    plans = attribution_plan.plans(run.cells, targets, 0, 0)
    launches = [launch for contrasts in plans for launch in contrasts.launches()]
    lengths = sorted({length for contrasts in plans for target in contrasts.targets for length in target.flagged})
    named = ", ".join(map(str, lengths[:8])) + (f" and {len(lengths) - 8} more" if len(lengths) > 8 else "")
    seconds = round(len(launches) * (attribution_plan.LIMIT_S + attribution_plan.WARMUP_S))
    return (
        f"Attributing L = {named}: parts and variants of the step beside their neighbours, in {len(launches)} fresh "
        f"processes, about {seconds} s and their start-up; --no-attribute skips this."
    )


def _process(supervisor: Supervisor, plan: Plan, contrasts: ContrastPlan, launch: Launch) -> None:
    python = plan.interpreters[launch.cell.interpreter] if plan.interpreters else None
    items = contrasts.items(launch, supervisor.process)
    before, at = supervisor.done, {"attributed": contrasts.index, "process": supervisor.process}
    with WorkerProcess(launch.cell.backend, python) as worker:
        worker.send(_task(supervisor, plan, contrasts, launch, items))
        for value in worker.follow(supervisor.writer, plan.timeout_s):
            if value["kind"] == "contrast":
                supervisor.count(f"{launch.cell.label}, {value['variant']}", value["round"])
            elif value["event"] == "unavailable" and launch.parts:
                raise BackendUnavailable(str(value["detail"]).partition(": ")[2])
        if worker.failure is not None:
            name, detail = worker.failure
            supervisor.event(f"contrasts-{name}", **at, detail=detail)
    supervisor.total -= len(items) - (supervisor.done - before)  # rounds left out are not owed any more


def _task(
    supervisor: Supervisor, plan: Plan, contrasts: ContrastPlan, launch: Launch, items: list[dict[str, Any]]
) -> dict[str, Any]:
    whole = launch.cell.geometry.kv_bytes(plan.capacity) * _CACHES
    memory = supervisor.facts.get("memory_bytes")
    fits = launch.parts and not (isinstance(memory, int) and whole > memory * MEMORY_SHARE)
    return {
        "measure": "contrasts",
        "place": {"attributed": contrasts.index, "process": supervisor.process},
        "target_cell": contrasts.index,
        "items": [item for item in items if fits or item["variant"] == launch.whole],
        "whole": launch.whole,
        "parts": fits,
        "others": contrasts.others() if fits else {},
        "cell": launch.cell.to_json(),
        "process": supervisor.process,
        "samples": attribution_plan.SAMPLES,
        "warmup_s": min(plan.warmup_s, attribution_plan.WARMUP_S),
        "warmup_length": contrasts.warmup_length,
        "limit_s": attribution_plan.LIMIT_S,
        "capacity": plan.capacity,
        "seed": plan.seed,
        "simulate": plan.simulate,
        "inject": [injection.text for injection in plan.inject] if launch.parts else [],
        "cpus": plan.cpus,
        "began_ns": supervisor.began_ns,
        "reference": str(supervisor.reference(launch.cell.geometry, contrasts.lengths, plan.seed)),
    }
