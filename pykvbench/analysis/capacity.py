"""What a capacity run says: memory predicted and measured, latency and throughput, where the tail breaks, what fits.

Verdicts: `state` if a knee is confirmed, since latency then follows how full memory is and not the length;
`unresolved` if a knee is only apparent, a result was wrong, or nothing was served; `smooth` otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pykvbench.analysis.capacity_rows import UNLIMITED, entry, read_rows
from pykvbench.analysis.capacity_table import CapacityRow, CapacityTable, Knee, middle
from pykvbench.analysis.finding import CellResult, Curve, Finding, Result
from pykvbench.analysis.knee import find_knee, limit_of
from pykvbench.analysis.resample import MIN_SWEEPS
from pykvbench.analysis.sentences import cost, counted, times
from pykvbench.cell import Cell
from pykvbench.dispatch.footprint import ALLOCATORS, fitting
from pykvbench.errors import RunFileError
from pykvbench.record import Run

_SAME_MEMORY = ("cpu", "mlx-cpu", "mps", "mlx")  # host memory is the device's


def analyze_capacity(run: Run) -> Result:
    """Everything a `capacity` run says, cell by cell."""
    return Result(tuple(_cell(run, index) for index in range(len(run.cells))), (*run.notes, *_run_notes(run)))


def _cell(run: Run, index: int) -> CellResult:
    cell, plan = run.cells[index], run.plan
    if entry(plan, "allocators", index) not in ALLOCATORS or not plan.get("tokens"):
        raise RunFileError("The run file's plan is not readable, so it cannot be analysed; start a new run.")
    mine = [line for line in run.servings if line["cell"] == index]
    limit = plan.get("budget") if isinstance(plan.get("budget"), int) else entry(plan, "memory", index)
    rows = tuple(read_rows(run, index, mine, limit))
    knees = tuple(_knees(run, index, rows))
    tokens, allocator = int(plan.get("tokens") or 0), entry(plan, "allocators", index)
    contexts = plan.get("contexts") or [] if isinstance(limit, int) else []
    fits = {context: fitting(cell, allocator, context, tokens, limit or 0) for context in contexts}
    table = CapacityTable(rows, knees, plan.get("budget"), entry(plan, "memory", index), fits)
    wrong = tuple(_wrong(cell, mine))
    findings = [*wrong, *(_finding(cell, knee, rows) for knee in knees if knee.at is not None)]
    sure = bool(knees) and bool(np.isfinite([knee.ratio.low for knee in knees]).all())
    nothing = np.zeros(0)
    return CellResult(
        cell=cell.label,
        verdict=_verdict(findings, bool(mine) and not wrong, sure),
        findings=tuple(findings),
        limit_of_detection=max(float(knee.limit * knee.ratio.value / knee.ratio.low) for knee in knees)
        if sure
        else None,
        smallest_p=None,
        notes=tuple(f"{cell.label}: {note}" for note in _notes(cell, allocator, rows, mine)),
        curve=Curve(nothing.astype(np.int64), np.zeros((0, 0)), nothing, nothing, None, None),
        capacity=table,
    )


def _verdict(findings: Sequence[Finding], right: bool, sure: bool) -> str:
    knees = [finding for finding in findings if finding.kind == "knee"]
    if right and any(finding.confidence == "confirmed" for finding in knees):
        return "state"
    return "smooth" if right and sure and not knees else "unresolved"


def _knees(run: Run, index: int, rows: Sequence[CapacityRow]) -> Iterable[Knee]:
    """One curve a context and policy: what fits was served without a limit, what does not under the policy."""
    plan, allocator = run.plan, entry(run.plan, "allocators", index)
    budget, tokens = plan.get("budget"), int(plan.get("tokens") or 0)
    for context in plan.get("contexts") or ():
        here = [row for row in rows if row.context == context]
        fits = None if budget is None else fitting(run.cells[index], allocator, context, tokens, budget)
        limit = limit_of([row for row in here if row.policy == UNLIMITED])
        for policy in (UNLIMITED, *(plan.get("policies") or ())):
            limited = {row.concurrency: row for row in here if row.policy == policy}
            if not limited:
                continue
            curve = [limited.get(row.concurrency, row) for row in here if row.policy == UNLIMITED]
            predicted = None if fits is None or policy == UNLIMITED else fits + 1
            knee = find_knee(curve, policy, predicted, limit)
            if knee is not None:
                yield knee


def _finding(cell: Cell, knee: Knee, rows: Sequence[CapacityRow]) -> Finding:
    assert knee.at is not None
    sure = knee.ratio.low > knee.limit and knee.votes[1] >= MIN_SWEEPS
    row = next(
        row
        for policy in (knee.policy, UNLIMITED)
        for row in rows
        if (row.context, row.concurrency, row.policy) == (knee.context, knee.at, policy)
    )
    under = "without a limit" if knee.policy == UNLIMITED else f"under {knee.policy}"
    if knee.votes[1] < MIN_SWEEPS:
        span = f" (of {counted(knee.votes[1], 'repeat')}; {MIN_SWEEPS} are needed for an interval)"
    elif knee.low == knee.high:
        span = ""
    else:
        span = f" (perhaps from {knee.low}, surely from {knee.high or 'no measured number'} on)"
    holds = (
        "" if knee.predicted is None else f"; the budget holds {counted(knee.predicted - 1, 'sequence')} side by side"
    )
    note = (
        f"{under}, p99 leaves p50 from {counted(knee.at, 'sequence')} of {knee.context} tokens on{span}: "
        f"{cost(middle(row.p99_ns))} against {cost(middle(row.p50_ns))}{holds}."
    )
    return Finding(
        kind="knee",
        lengths=(knee.context, knee.context),
        ratio=knee.ratio.value,
        votes=f"{knee.votes[0]}/{knee.votes[1]}",
        p=None,
        confidence="confirmed" if sure else "apparent",
        note=note,
        cell=cell.label,
    )


def _wrong(cell: Cell, mine: Sequence[Mapping[str, Any]]) -> Iterable[Finding]:
    """Outputs that are not those the sequence gives alone, tokens that are missing, numbers that are not right."""
    alone = {
        (line["context"], line["tokens"], number): digest
        for line in mine
        for number, digest in enumerate(line["alone"])
    }
    for line in mine:
        told = []
        for number, digest in enumerate(line["outputs"]):
            key = (line["context"], line["tokens"], number)
            if number in line["rejected"]:
                continue
            if len(line["done"][number]) != line["tokens"]:
                told.append(f"sequence {number} got {len(line['done'][number])} of {line['tokens']} tokens")
            elif alone.get(key, digest) != digest:
                told.append(f"sequence {number} gave other outputs than alone")
        if line.get("correct") is False:
            told.append("the first sequence's last token is wrong")
        if told:
            more = f", and {len(told) - 1} more" if len(told) > 1 else ""
            note = f"{told[0]}{more}: {counted(line['concurrency'], 'sequence')} under {line['policy']}."
            lengths = (line["context"] + 1, line["context"] + line["tokens"])
            yield Finding("wrong-result", lengths, None, None, None, "confirmed", note, cell=cell.label)


def _notes(cell: Cell, allocator: str, rows: Sequence[CapacityRow], mine: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    if not mine:
        yield "nothing was served, so nothing can be said."
        return
    checked = sum(len(line["outputs"]) - len(line["rejected"]) for line in mine)
    if not any(_wrong(cell, mine)):
        yield (
            f"all {counted(checked, 'sequence')} served have all their tokens, and each gave what it gives alone, "
            "bit for bit."
        )
    yield from _agreement(cell, allocator, rows)
    if any(row.rejected for row in rows):
        most = max(row.rejected for row in rows)
        yield f"reject refused up to {counted(most, 'sequence')} of a load; they got no tokens and are in no latency."
    policies = {row.policy for row in rows if row.served}
    if "evict-recompute" in policies:
        yield "evict-recompute computes attention over the context again; a model's other layers would add to it."
    if "spill-host" in policies and cell.backend in _SAME_MEMORY:
        yield "spill-host frees nothing here: the device's memory is the host's; its times are those of the copies."
    slow = [row for row in rows if row.p99_cost is not None and row.p99_cost > 1]
    if slow:
        worst = max(slow, key=lambda row: row.p99_cost or 0.0)
        yield (
            f"the dearest policy was {worst.policy}: {times(worst.p99_cost or 0.0)} the p99 of the same "
            f"{counted(worst.concurrency, 'sequence')} of {worst.context} tokens without a limit."
        )


def _agreement(cell: Cell, allocator: str, rows: Sequence[CapacityRow]) -> Iterable[str]:
    """Whether the caches in memory took what was predicted, within what rounding leaves open for each buffer."""
    known = [row for row in rows if "caches" in row.memory]
    doubt = 2 * cell.geometry.num_layers * ALLOCATORS[allocator].doubt
    off = [row for row in known if abs(row.memory["caches"] - row.held) > doubt * row.resident]
    if off:
        row = max(off, key=lambda row: abs(row.memory["caches"] - row.held))
        yield (
            f"the caches of {counted(row.concurrency, 'sequence')} of {row.context} tokens under {row.policy} took "
            f"{row.memory['caches']:.0f} bytes and {row.held:.0f} were predicted: more apart than rounding explains."
        )
    elif known:
        yield f"in all {len(known)} rows the caches took what was predicted, within the rounding of their buffers."


def _run_notes(run: Run) -> Iterable[str]:
    if run.plan.get("simulate") is not None or any(cell.backend == "simulated" for cell in run.cells):
        yield "Simulated device: these times are programmed, not measured on hardware."
    yield "Memory is linear in sequences x tokens; what is measured is what it rose by once there were caches."
