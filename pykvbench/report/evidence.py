"""The evidence in a report: the table around a slow length, raw samples, contrasts, controls and predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pykvbench.analysis.attribution import Attribution
from pykvbench.analysis.case import Case
from pykvbench.analysis.ceiling import ceiling_of
from pykvbench.analysis.finding import CellResult, Finding, Result
from pykvbench.geometry import Geometry
from pykvbench.record import Run
from pykvbench.report import numbers, sentence
from pykvbench.report.foreign import block, code, plain

BESIDE = 4  # measured lengths shown on each side of a slow one
_ROWS = 24  # of the table; with more, one length on each side
_SERIES = 3  # slow lengths, and as many beside them, whose raw samples are shown
_SWEEPS = 10
_MARKS = 8


def shown_lengths(case: Case, cell: CellResult) -> list[int]:
    """The lengths of the table: every slow one with its measured neighbours, L-4 to L+4 where that is not too long."""
    lengths = cell.curve.lengths[np.isfinite(cell.curve.median_ns) | np.isin(cell.curve.lengths, case.slow)]
    places = np.flatnonzero(np.isin(lengths, case.slow))
    for beside in (BESIDE, 1):
        near = {at for place in places.tolist() for at in range(place - beside, place + beside + 1)}
        rows = sorted(at for at in near if 0 <= at < len(lengths))
        if len(rows) <= _ROWS:
            break
    return [int(lengths[at]) for at in rows]


def table(case: Case, cell: CellResult, shape: Geometry) -> tuple[str, ...]:
    """A row a length: median over sweeps, spread over sweeps, ratio to the cheapest longer length, GB/s, host share."""
    curve = cell.curve
    rows = [int(np.flatnonzero(curve.lengths == length)[0]) for length in shown_lengths(case, cell)]
    unit, medians = numbers.duration_column([float(curve.median_ns[at]) for at in rows])
    lines = [
        f"| L | median, {unit.name} | lowest to highest sweep | ratio | GB/s | host |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for at, median in zip(rows, medians, strict=True):
        length, slow = int(curve.lengths[at]), int(curve.lengths[at]) in case.slow
        sweeps = curve.sweeps_ns[:, at][np.isfinite(curve.sweeps_ns[:, at])]
        ends = [numbers.duration(float(end), unit) for end in (sweeps.min(), sweeps.max())] if len(sweeps) else ["-"]
        ratio = numbers.ratio(float(curve.median_ns[at] / curve.baseline_ns[at]))
        rate = numbers.bandwidth(shape.kv_bytes(length), float(curve.median_ns[at])).removesuffix(" GB/s")
        host = float("nan") if curve.dispatch_ns is None else float(curve.dispatch_ns[at] / curve.median_ns[at])
        cells = [
            f"**{length}**" if slow else f"{length}",
            median,
            " to ".join(ends),
            f"**{ratio}**" if slow else ratio,
            rate,
            f"{min(host, 1.0):.0%}" if np.isfinite(host) else "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return tuple(lines)


def accounting(case: Case, shape: Geometry, run: Run) -> str:
    """Which bytes the table's GB/s counts, with the number at one length, and what the device reached by comparison."""
    length = case.slow[0]
    layers = f"{shape.num_layers} layer{'s' if shape.num_layers > 1 else ''}"
    product = f"2 x {layers} x {shape.batch} x {shape.num_kv_heads} KV heads x {length} keys"
    product += f" x {shape.head_dim} x {shape.itemsize} bytes"
    text = (
        "Ratio: to the baseline, the cheapest of that length and all longer ones, smoothed. GB/s: K and V, each byte "
        f"counted once ({product} = {numbers.byte_count(shape.kv_bytes(length))} at "
        f"L = {length}), over the median; what a cache policy copies besides is not counted. "
        "Host: share of the step until its call returns."
    )
    ceiling = ceiling_of(run, case.cell)
    if ceiling is None:
        return text
    return (
        f"{text} A copy or a sum in the same run reached {ceiling.working_set / 1e9:.3g} GB/s over "
        f"{numbers.byte_count(ceiling.working_set_bytes)} and {ceiling.memory / 1e9:.3g} GB/s over "
        f"{numbers.byte_count(ceiling.memory_bytes)}."
    )


def samples(case: Case, run: Run) -> tuple[str, ...]:
    """The raw samples of the slow lengths and of as many beside them: first, second and steady calls of every visit."""
    visits = run.visits.of_cell(case.cell)
    slow = case.slow[:_SERIES]
    beside = sorted(sorted(case.others, key=lambda other: min(abs(other - one) for one in slow))[: len(slow)])
    lines = ["us from call to completion, in order: first | second | steady; (place of the visit in its sweep)"]
    for length in (*slow, *beside):
        for row in np.flatnonzero(visits.length == length)[:_SWEEPS].tolist():
            steady = " ".join(f"{value / 1e3:.1f}" for value in visits.total[row].tolist())
            first, second = (float(pair[row, 1]) / 1e3 for pair in (visits.first, visits.second))
            place = f"sweep {int(visits.sweep[row]) + 1} ({int(visits.order[row]) + 1})"
            lines.append(f"L = {length}, {place}: {first:.1f} | {second:.1f} | {steady}")
    return tuple(lines)


def contrasts(attribution: Attribution | None) -> tuple[str, ...]:
    """What was changed, one thing at a time, and whether the excess was still there."""
    if attribution is None:
        return ("None was measured in this run.",)
    lines = [plain(attribution.sentence), "", "| question | excess | ratio | seen |", "|---|---|--:|---|"]
    for one in attribution.contrasts:
        span = "" if one.low is None or one.high is None else f" ({one.low:.3g} to {one.high:.3g})"
        lines.append(
            f"| {plain(one.question)} | {plain(one.outcome)} | {numbers.ratio(one.ratio)}{span} | {_cell(one.detail)} |"
        )
    if attribution.added_up is not None:
        lines += ["", f"The parts' excesses add up to {attribution.added_up:.0%} of the whole step's."]
    return tuple(lines)


def controls(case: Case, result: Result, run: Run) -> Iterator[str]:
    """A bullet for each thing that rules out another explanation: order, processes, numerics, other cells, limit."""
    cell, visits = result.cells[case.cell], run.visits.of_cell(case.cell)
    plan = run.plan
    yield (
        f"- {len(np.unique(visits.sweep))} sweeps over {len(cell.curve.lengths)} lengths ({cell.curve.lengths[0]} to "
        f"{cell.curve.lengths[-1]}), each in a fresh process and in its own shuffled order (seed "
        f"{code(run.header.get('seed'))}), {visits.total.shape[1]} steady samples a visit after two more calls, "
        f"{code(plan.get('warmup_s', '?'))} s of warm-up a process; one synchronisation at the end of each sample."
    )
    errors = visits.error[visits.correct & np.isfinite(visits.error)]
    wrong = int((~visits.correct).sum())
    worst = f"largest error {errors.max():.1e} of the output's size" if len(errors) else "none was right"
    yield f"- Every visit's output was compared with a float64 reference: {wrong} of {len(visits)} wrong, {worst}."
    yield f"- {sentence.limit(cell)}"
    for index, other in enumerate(result.cells):
        if index != case.cell and len(other.curve.lengths):
            yield f"- {code(other.cell)} in the same run, interleaved: {_at(other, case.slow)}; {other.verdict}."
    for other_finding in cell.findings:
        if other_finding is not case.finding:
            yield f"- Also found: {_finding(other_finding)}"
    yield from (f"- {plain(note)}" for note in (*result.notes, *cell.notes))


def predictions(case: Case, run: Run) -> Iterator[str]:
    """The kernels that the rules for these versions predict, and the lengths where they change, from the run file."""
    event = next((one for one in run.events if one["event"] == "predicted" and one.get("cell") == case.cell), None)
    if event is None:
        yield "The run file holds no prediction."
        return
    routes = event.get("routes") if isinstance(event.get("routes"), dict) else {}
    for length, route in list((routes or {}).items())[:4]:
        if isinstance(route, dict):
            details = [str(part) for name in ("parts", "copies") for part in route.get(name) or () if part]
            source = f" ({code(route['source'])})" if route.get("source") else ""
            beside = f": {', '.join(code(part) for part in details[:6])}" if details else ""
            yield f"- L = {code(length)}: {code(route.get('name'))}{beside}{source}"
    marks = [mark for mark in event.get("landmarks") or () if _is_mark(mark)]
    marks.sort(key=lambda mark: min(abs(mark[0] - length) for length in case.slow))
    for length, what, source in sorted(marks[:_MARKS]):
        near = min(abs(length - slow) for slow in case.slow)
        where = "at a slow length" if near == 0 else f"{near} from the nearest slow length"
        yield f"- landmark at L = {length}, {where}: {code(what)} ({code(source)})"
    if not marks:
        yield "- no length of the range at which the rules know of a change"
    for known in list(event.get("known_wrong") or ())[:4]:
        yield f"- known: {code(known)}"


def fenced(text: str, language: str = "") -> tuple[str, ...]:
    """A fenced block of lines that come from elsewhere."""
    return (f"```{language}", block(text), "```")


def folded(title: str, lines: Sequence[str]) -> tuple[str, ...]:
    """Lines that a reader unfolds."""
    return (f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _cell(text: str) -> str:
    return plain(text) or "-"


def _finding(finding: Finding) -> str:
    return plain(sentence.finding(finding))


def _at(cell: CellResult, lengths: Sequence[int]) -> str:
    """What another cell pays at some lengths: `L = 421 1.01x`."""
    curve, found = cell.curve, []
    for length in lengths:
        at = np.flatnonzero(curve.lengths == length)
        if len(at) and np.isfinite(curve.median_ns[at[0]]):
            ratio = float(curve.median_ns[at[0]] / curve.baseline_ns[at[0]])
            found.append(f"L = {length} {numbers.ratio(ratio)}")
    return ", ".join(found) or "not measured there"


def _is_mark(mark: Any) -> bool:
    return (
        isinstance(mark, (list, tuple))
        and len(mark) == 3
        and isinstance(mark[0], int)
        and not isinstance(mark[0], bool)
    )


def attribution_of(case: Case, found: Sequence[Attribution]) -> Attribution | None:
    """The attribution of the case's finding."""
    same = (one for one in found if one.cell == case.cell and one.lengths == case.finding.lengths)
    return next(same, None)


def plan_lengths(plan: Mapping[str, Any]) -> str:
    """The planned lengths as the user wrote them."""
    return code(plan.get("lengths", "?"))
