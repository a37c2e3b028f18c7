"""What a decode run says: is a generation slow because of its lengths, its budget, its history, or the time it ran?

For each cell, log step time is taken apart into length, trajectory and the rest (`decomposition`). What repeats at a
length in every budget is a cost of that length (`length_effects`); what differs between trajectories at the same
lengths is a state of the budget, the time or the process (`states`), or a steady drift (`drift`).

Verdicts: `non-monotonic` if a spike, regime, comb, periodic pattern or lasting drop by length is confirmed; `state` if
a state is; `unresolved` if the run is too small or in an order that cannot tell, or holds what nothing explains;
`smooth` otherwise, also with cold first steps, growing memory, or a drift in shuffled order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pykvbench.analysis import cache_off
from pykvbench.analysis.arms import Arm, read_arms
from pykvbench.analysis.changes import Change, find_changes
from pykvbench.analysis.decomposition import decompose
from pykvbench.analysis.finding import BudgetRow, CellResult, Curve, Finding, Floats, Result
from pykvbench.analysis.firsts import MIN_RATIO
from pykvbench.analysis.fleet import Fleet, gather
from pykvbench.analysis.length_effects import Effects, first_visit_ratio, length_effects, merge
from pykvbench.analysis.levels import median_over_sweeps
from pykvbench.analysis.memory import memory_findings
from pykvbench.analysis.onset import onset_sentence
from pykvbench.analysis.sentences import times
from pykvbench.analysis.spikes import CONFIRMING
from pykvbench.analysis.states import CONFOUNDED, account_for
from pykvbench.cell import Cell
from pykvbench.record import Run

UNSETTLING = frozenset({"state", "unstable", "intermittent", "step"})  # which leave a run unresolved


def analyze_trajectories(run: Run, min_ratio: float = 1.10) -> Result:
    """Everything a `decode` run says, cell by cell; ratios below `min_ratio` are never claimed."""
    cells = [_analyze_cell(cell, run, index, min_ratio) for index, cell in enumerate(run.cells)]
    return Result(cache_off.with_cache_off(run.cells, cells), (*run.notes, *_run_notes(run)))


def _analyze_cell(cell: Cell, run: Run, index: int, min_ratio: float) -> CellResult:
    arms, wrong, notes = read_arms(run, index)
    if wrong:
        notes += (f"{wrong} trajectories gave a wrong result and are left out: their times are of wrong work.",)
    if not arms:
        nothing = np.zeros(0)
        curve = Curve(nothing.astype(np.int64), np.zeros((0, 0)), nothing, nothing, None, None)
        notes += ("no trajectory was measured, so nothing can be said.",)
        return CellResult(cell.label, "unresolved", (), None, None, _named(cell, notes), curve)
    shared = any(len(np.unique(arm.process)) < len(arm) for arm in arms)
    ratios = [first_visit_ratio(arm) if shared else None for arm in arms]
    parts = [
        decompose(arm, ratio is not None and ratio >= MIN_RATIO, min_ratio)
        for arm, ratio in zip(arms, ratios, strict=True)
    ]
    fleet = gather(arms, parts, min_ratio)
    changes = [find_changes(part) for part in parts]
    totals = np.concatenate([arm.total_ns for arm in arms])[_by_order(arms)]
    places = [_place(arm, change) for arm, some in zip(arms, changes, strict=True) for change in some]
    account = account_for(fleet, totals, [change for some in changes for change in some], places, shared)
    stateful = any(finding.kind in ("state", "unstable") for finding in account.findings)
    effects = [
        (arm.prompt, length_effects(arm, part, some, stateful, min_ratio))
        for arm, part, some in zip(arms, parts, changes, strict=True)
    ]
    findings = [*merge(effects), *account.findings, *_drift(fleet)]
    findings += [_first_visit(arm, r) for arm, r in zip(arms, ratios, strict=True) if r and r >= MIN_RATIO]
    findings += list(memory_findings(max(arms, key=lambda arm: arm.ns.shape[1]), cell.geometry))
    onset = onset_sentence(fleet)
    notes += (*account.notes, *((onset,) if onset else ()))
    limit = _least([account.limit, *(effect.limit for _, effect in effects)])
    return CellResult(
        cell=cell.label,
        verdict=_verdict(findings, account.limit is not None, wrong > 0),
        findings=tuple(replace(finding, cell=cell.label) for finding in findings),
        limit_of_detection=limit,
        smallest_p=_least([account.smallest_p, *(effect.smallest_p for _, effect in effects)]),
        notes=_named(cell, notes),
        curve=_curve(arms, effects),
        budgets=tuple(_rows(arms, fleet, stateful)),
    )


def _verdict(findings: list[Finding], able: bool, wrong: bool) -> str:
    sure = [finding for finding in findings if finding.confidence == "confirmed"]
    if any(f.kind in CONFIRMING or (f.kind == "step" and (f.ratio or 1.0) < 1) for f in sure):
        return "non-monotonic"
    if any(finding.kind == "state" for finding in sure):
        return "state"
    if wrong or not able or any(f.kind in UNSETTLING or f.confidence == "apparent" for f in findings):
        return "unresolved"
    return "smooth"


def _drift(fleet: Fleet) -> Iterable[Finding]:
    if fleet.drift is None:
        return
    change = float(np.expm1(fleet.drift.change))
    way = "slower" if change > 0 else "faster"
    note = (
        f"all steps get {abs(change):.0%} {way} from the start of the run to its end, whatever their length and "
        "budget: a clock that changes (heat, power), taken out before budgets were compared."
    )
    if fleet.ordered:
        note = f"cost changes steadily by {abs(change):.0%} over the run. {CONFOUNDED}"
    confidence = "apparent" if fleet.ordered else "confirmed"
    lengths = (int(fleet.budget.min()), int(fleet.budget.max()))
    yield Finding("drift", lengths, float(np.exp(fleet.drift.change)), None, fleet.drift.p, confidence, note)


def _first_visit(arm: Arm, ratio: float) -> Finding:
    lengths = arm.lengths[arm.first_visit.any(axis=0)]
    note = (
        f"a step at a length new to its process costs {times(ratio)} the same length later: compilation or planning, "
        "left out of everything else."
    )
    return Finding("first-visit", (int(lengths[0]), int(lengths[-1])), ratio, None, None, "confirmed", note)


def _place(arm: Arm, change: Change) -> str:
    row = change.row
    until = "to its end" if change.last + 1 >= arm.steps[row] else f"to step {change.last + 1}"
    prompt = f", prompt {arm.prompt}"
    return (
        f"budget {arm.budget[row]}{prompt}, repeat {arm.repeat[row]}, from about step {change.first + 1} "
        f"(L = {arm.lengths[change.first]}) {until}"
    )


def _rows(arms: list[Arm], fleet: Fleet, stateful: bool) -> Iterable[BudgetRow]:
    """The table; a budget is marked slow only beside a finding that says so."""
    slow = fleet.slow_groups() & stateful
    for arm in arms:
        last = np.maximum(arm.steps - 1, 0)
        for budget in np.unique(arm.budget).tolist():
            mine = arm.budget == budget
            group = fleet.group[(fleet.prompt == arm.prompt) & (fleet.budget == budget)][0]
            totals = arm.total_ns[mine & arm.complete]
            memory = {name: grid[np.arange(len(arm)), last][mine] for name, grid in arm.memory.items()}
            counted = {name: float(np.nanmedian(v)) for name, v in memory.items() if not np.isnan(v).all()}
            yield BudgetRow(arm.prompt, budget, tuple(totals.tolist()), bool(slow[group]), counted)


def _curve(arms: list[Arm], effects: list[tuple[int, Effects]]) -> Curve:
    """All trajectories over the lengths of all prompts; where prompts overlap, the medians of the prompts' curves."""
    lengths = np.unique(np.concatenate([arm.lengths for arm in arms]))

    def spread(grids: list[Floats]) -> Floats:
        rows = []
        for arm, grid in zip(arms, grids, strict=True):
            whole = np.full((len(grid), len(lengths)), np.nan)
            whole[:, np.searchsorted(lengths, arm.lengths)] = grid
            rows.append(whole)
        return np.concatenate(rows)

    return Curve(
        lengths=lengths,
        sweeps_ns=spread([arm.ns for arm in arms]),
        median_ns=median_over_sweeps(spread([effect.curve_ns[None, :] for _, effect in effects])),
        baseline_ns=median_over_sweeps(spread([effect.baseline_ns[None, :] for _, effect in effects])),
        first_ns=None,
        dispatch_ns=median_over_sweeps(spread([arm.dispatch_ns for arm in arms])),
    )


def _by_order(arms: list[Arm]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.argsort(np.concatenate([arm.order for arm in arms]), kind="stable")


def _least(values: list[float | None]) -> float | None:
    """The largest, or None when any is None: what cannot be seen in one respect cannot be ruled out."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _named(cell: Cell, notes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{cell.label}: {note}" for note in notes)


def _run_notes(run: Run) -> Iterable[str]:
    """What a reader must know of the run as a whole."""
    if run.plan.get("simulate") is not None or any(cell.backend == "simulated" for cell in run.cells):
        yield "Simulated device: these times are programmed, not measured on hardware."
    if run.plan.get("history") == "shared" and run.plan.get("order") == "ascending":
        yield "All trajectories ran in one process in ascending order: length, history and time are one."
