"""What one table of lengths and times can say: only apparent findings, since length cannot be told from time.

Rules, all on logs of times, medians where a length is repeated:

- Excess is held against the cheapest cost of the same or a longer length, as in replicated sweeps. It counts from
  1.15x on, or from 6 times the typical small drop between neighbours (drops below 1.30x other than the largest), or
  from 3 times the spread of repeats: jitter, 20 % on a floor or 1 % between even and odd, shows as drops everywhere.
- A rise that never comes back counts if it exceeds 2x, as no tile edge does, and cubic growth by 1.30x, as no
  quadratic cost on a coarse grid does.
- The first length measured may be a first call: below 2x it is ignored, from 2x on it is `first-visit`, and so is the
  second if it lies between.
- An abrupt rise that decays slowly and stays 1.30x above the cost before is a regime from there to the end, and looks
  like a machine that got hot.
- Repeats of one length that differ by 1.25x or more are `unstable`, and no length is judged within that spread.
- x that counts from 0 or 1 may be the order of measurement: a steady change of 3 % to 50 % along it is `drift`.
- A budget's run contains every step of a smaller one's: if it is faster, its length is not to blame (`state`).

Tables with 3 or more sweeps in shuffled order, and the order to prove it, are judged as replicated sweeps instead.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pykvbench.analysis import sentences, spikes
from pykvbench.analysis.apparent import JITTER, apparent_findings
from pykvbench.analysis.contains import EXCLUDES, Contained
from pykvbench.analysis.envelope import smooth, suffix_minimum
from pykvbench.analysis.finding import CellResult, Curve, Finding, Floats, Ints, Result
from pykvbench.analysis.table import Table
from pykvbench.analysis.votes import MIN_SWEEPS

FLOOR = 1.15  # smallest excess that one pass may show
NOISES = 6.0  # times the typical small drop, which is about one standard deviation of a single value
REPEATS = 3.0  # times the spread of repeats
UNSTABLE = 1.25  # largest over smallest repeat of one length
DRIFT = (1.03, 1.5)  # a steady change along a counter: below is noise, above is more than a clock does
CONCORDANT = 0.7  # Kendall's tau of a steady change
MIXED = 0.5  # rank correlation of x with its order of measurement that a shuffled sweep stays below
COUNTER = 64  # longest series of 0, 1, 2, ... that may be a counter of calls or trials

_ORDER = (
    "one pass in ascending or unknown order: a length cannot be told from the time at which it was measured, so "
    "findings are only apparent; measure 3 or more sweeps in shuffled order (columns sweep and order) to confirm."
)
_SWEEPS = (
    "not 3 or more sweeps known to be in shuffled order: a length cannot be told from the time at which it was "
    "measured, so findings are only apparent; measure that many (columns sweep and order) to confirm."
)
_TOTALS = (
    "whole generations: a total does not show which of its steps are slow, so findings are only apparent; time every "
    "step, as `pykvbench decode` does, to confirm."
)


def analyze_series(table: Table, min_ratio: float = 1.10) -> Result:
    """Judge a table: confirmed findings only for replicated shuffled sweeps, else apparent ones and a note why."""
    x = np.unique(table.x)
    shuffled = table.sweep is not None and _shuffled(table)
    if table.kind == "length" and table.sweep is not None and shuffled:
        return Result((_replicated(table, table.sweep, x, min_ratio),), table.notes)
    place = np.searchsorted(x, table.x)
    logs = np.log(table.time_ns)
    curve = np.array([np.median(group) for group in _by_place(place, logs)])
    repeats = np.array([np.ptp(group) if len(group) > 1 else np.nan for group in _by_place(place, logs)])
    threshold = _threshold(curve, logs - curve[place], repeats, min_ratio)
    findings = _unstable(x, repeats)
    if not findings:
        from_start = table.order is None or int(table.x[np.argmin(table.order)]) == int(x[0])
        findings = apparent_findings(x, curve, threshold, from_start)
    baseline = suffix_minimum(smooth(x, curve))
    if not findings:
        findings = _drift(x, curve, repeats)
    verdict = "unresolved" if findings or len(x) < 3 else "smooth"
    one_pass = table.sweep is None or len(np.unique(table.sweep)) == 1
    notes = [_TOTALS if shuffled else _ORDER if one_pass else _SWEEPS, *table.notes]
    if verdict == "smooth":
        notes.append(f"an excess below {sentences.times(float(np.exp(threshold)))} counts as noise in this table.")
    if len(x) < 3:
        notes.append(f"{len(x)} different x cannot show a shape; give 3 or more.")
    if table.kind == "budget":
        findings, verdict = _contained(x, curve, [_worded(finding) for finding in findings], verdict)
    cell = CellResult(
        cell="table",
        verdict=verdict,
        findings=tuple(sorted(findings, key=lambda finding: finding.lengths)),
        limit_of_detection=None,
        smallest_p=None,
        notes=tuple(notes),
        curve=Curve(x, np.exp(curve)[None, :], np.exp(curve), np.exp(baseline), None, None),
        axis=table.kind,
    )
    return Result((cell,))


def _replicated(table: Table, sweep: Ints, x: Ints, min_ratio: float) -> CellResult:
    names = np.unique(sweep)
    grid = np.full((len(names), len(x)), np.nan)
    for row, name in enumerate(names):
        inside = sweep == name
        place = np.searchsorted(x, table.x[inside])
        for column in np.unique(place):
            grid[row, column] = np.median(table.time_ns[inside][place == column])
    found = spikes.detect(x, grid, min_ratio=min_ratio)
    curve = Curve(x, grid, found.median_ns, found.baseline_ns, None, None)
    return CellResult(
        "table", found.verdict, found.findings, found.limit_of_detection, found.smallest_p, found.notes, curve
    )


def _shuffled(table: Table) -> bool:
    """Whether there are enough sweeps and, in each, the order of measurement has little to do with x."""
    if table.sweep is None or table.order is None:
        return False
    names = np.unique(table.sweep)
    orders = []
    for name in names:
        inside = table.sweep == name
        x = table.x[inside][np.argsort(table.order[inside], kind="stable")]  # as measured
        if len(np.unique(table.order[inside])) < len(x) or (np.diff(x) >= 0).all() or (np.diff(x) <= 0).all():
            return False
        if len(x) > 8 and abs(float(np.corrcoef(np.argsort(np.argsort(x)), np.arange(len(x)))[0, 1])) > MIXED:
            return False
        orders.append(x)
    return len(names) >= MIN_SWEEPS and any(not np.array_equal(orders[0], other) for other in orders[1:])


def _by_place(place: Ints, values: Floats) -> list[Floats]:
    order = np.argsort(place, kind="stable")
    return np.split(values[order], np.flatnonzero(np.diff(place[order])) + 1)


def _threshold(curve: Floats, residuals: Floats, repeats: Floats, min_ratio: float) -> float:
    """The log excess from which a value counts; see the rules above."""
    drops = -np.diff(curve)
    small = np.sort(drops[(drops > 0) & (drops < np.log(JITTER))])[:-1]
    noise = NOISES * float(np.median(small)) if small.size else 0.0
    repeated = residuals[residuals != 0] if not np.isnan(repeats).all() else residuals[:0]
    spread = REPEATS * 1.4826 * float(np.median(np.abs(repeated))) if repeated.size else 0.0
    return max(float(np.log(max(FLOOR, min_ratio))), noise, spread)


def _unstable(x: Ints, repeats: Floats) -> list[Finding]:
    spread = repeats[~np.isnan(repeats)]
    if not spread.size or np.median(spread) < np.log(UNSTABLE):
        return []
    ratio = float(np.exp(spread.max()))
    note = (
        f"repeats of the same length differ by up to {sentences.times(ratio)}: an unstable cell, in which no length "
        "can be judged; repeat until the modes show, or measure on a quieter machine."
    )
    return [Finding("unstable", (int(x[0]), int(x[-1])), ratio, None, None, "apparent", note)]


def _drift(x: Ints, curve: Floats, repeats: Floats) -> list[Finding]:
    n = len(x)
    counts = x[0] in (0, 1) and n >= 5 and n <= COUNTER and np.diff(x).max() <= 2 and np.isnan(repeats).all()
    if not counts:
        return []
    signs = np.sign(curve[None, :] - curve[:, None])[np.triu_indices(n, 1)]
    change = float(np.median(curve[-(n // 3) :]) - np.median(curve[: n // 3]))
    if abs(float(signs.mean())) < CONCORDANT or not np.log(DRIFT[0]) <= abs(change) <= np.log(DRIFT[1]):
        return []
    way = "rises" if change > 0 else "falls"
    note = (
        f"the cost {way} steadily by {abs(np.expm1(change)):.0%} along x = {x[0]} to {x[-1]}; if x counts measurements "
        "this is drift (heat, clocks), not an effect of length."
    )
    return [Finding("drift", (int(x[0]), int(x[-1])), float(np.exp(change)), None, None, "apparent", note)]


def _contained(x: Ints, curve: Floats, findings: list[Finding], verdict: str) -> tuple[list[Finding], str]:
    """Add what follows from a larger budget's run containing every step of a smaller one's."""
    costly = [
        f
        for f in findings
        if f.kind in ("spike", "regime", "comb", "periodic") or (f.kind == "step" and (f.ratio or 1) < 1)
    ]
    if not costly:
        return findings, verdict
    least = min(costly, key=lambda finding: finding.lengths)
    smaller = int(np.searchsorted(x, least.lengths[0]))
    faster = np.flatnonzero((np.arange(len(x)) > smaller) & (curve < curve[smaller] - np.log(FLOOR)))
    if not faster.size:
        return findings, verdict
    larger = int(faster[0])
    ratio = float(np.exp(curve[smaller] - curve[larger]))
    pair = Contained(int(x[smaller]), int(x[larger]), float(np.exp(curve[smaller])), float(np.exp(curve[larger])))
    excluded = ratio >= EXCLUDES
    note = pair.sentence() + ("." if excluded else ", if that is beyond the spread between runs.")
    state = Finding("state", (int(x[smaller]), int(x[larger])), ratio, None, None, "apparent", note)
    return [*findings, state], "state" if excluded else "unresolved"


def _worded(finding: Finding) -> Finding:
    """The same finding in the words of budgets."""
    note = finding.note.replace("--len ", "--budget ").replace("length", "budget")
    return replace(finding, note=note.replace("longer caches are", "larger budgets are"))
