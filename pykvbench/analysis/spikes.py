"""Finding lengths that cost too much, from replicated shuffled sweeps: sweeps vote on which lengths cost too much.

Visits are compared as logs of medians, without their process's level. A visit votes for its length if it exceeds the
baseline (the cheapest cost of that length or any longer one) by a threshold; a length is flagged if more sweeps vote
for it than their background rates of votes explain. Simulated operating characteristics: `benchmarks/detection.py`.

Verdicts: `non-monotonic` if a spike, regime, comb, periodic pattern or lasting drop is confirmed (after a lasting drop
a longer cache is cheaper, which is what non-monotonic means); `unresolved` if the run is too small to tell, or holds
only intermittent or unstable findings or an unexplained rise; `smooth` otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pykvbench.analysis import sentences
from pykvbench.analysis.envelope import smooth, suffix_minimum
from pykvbench.analysis.finding import Detection, Finding, Floats, Ints
from pykvbench.analysis.firsts import first_visits as first_visits
from pykvbench.analysis.levels import Levels, remove_levels
from pykvbench.analysis.processes import intermittent_findings, unstable_findings
from pykvbench.analysis.shapes import Shape, name_stretches, rises, stretches
from pykvbench.analysis.votes import (
    MIN_SWEEPS,
    Bools,
    background_rates,
    smallest_p,
    sweeps_needed,
    tail,
)

SIGMAS = 3.0  # a noisy run votes above 3 sigma; with the floor alone a 21x spike drowned in votes at 15 % noise
MARGIN = 2.5  # sigmas above the threshold at which 5 of 5 sweeps vote in 97 % of runs
NEARBY = 2048  # how many longer lengths are searched for one to name in the sentence
CONFIRMING = frozenset({"spike", "regime", "comb", "periodic"})


@dataclass(frozen=True)
class _Ballot:
    """One round of voting: everything is over the lengths that were measured at all."""

    baseline: Floats  # [n] log
    votes: Bools  # [S, n]
    present: Bools  # [S, n]
    rates: Floats  # [S]
    p: Floats  # [n] corrected
    consistent: Bools  # [n] significant and in (nearly) every sweep
    intermittent: Bools  # [n] significant, but at the baseline in 2 or more sweeps


def detect(
    lengths: Ints,
    sweeps_ns: Floats,
    process: Ints | Floats | None = None,
    min_ratio: float = 1.10,
    alpha: float = 0.01,
) -> Detection:
    """Judge every length of replicated sweeps in shuffled order.

    lengths: [n] rising; sweeps_ns: [S, n] median ns of each visit, NaN where it is missing; process: [S, n] which
    process measured the visit, the sweep's number when None. Ratios below `min_ratio` are never claimed; `alpha` is the
    chance of any false finding. Raises ValueError for shapes that do not match, lengths out of order, times below 0.
    """
    _check(lengths, sweeps_ns, process, min_ratio)
    started = ~np.isnan(sweeps_ns).all(axis=1)
    sweeps_ns, process = sweeps_ns[started], None if process is None else process[started]
    measured: Bools = np.any(~np.isnan(sweeps_ns), axis=0)
    n = int(measured.sum())
    if n == 0:
        empty = np.full(len(lengths), np.nan)
        return Detection((), empty, empty, None, None, ("no length was measured.",), "unresolved")
    grid = lengths[measured]
    levels = remove_levels(np.log(sweeps_ns[:, measured]), None if process is None else process[:, measured])
    present = ~np.isnan(levels.visits)
    seen = present.sum(axis=0)
    sweeps = len(present)
    sigma = _sigma(levels, seen)
    threshold = max(float(np.log(min_ratio)), SIGMAS * sigma)
    smoothed = smooth(grid, levels.curve)

    findings: list[Finding] = []
    breaks: tuple[int, ...] = ()
    notes = _missing(lengths, measured, grid, seen)
    ballot = _vote(levels, smoothed, breaks, threshold, alpha)
    if sweeps >= MIN_SWEEPS:
        while True:  # each round splits the range at the lasting drops found, at most as often as there are any
            found = stretches(levels.curve - ballot.baseline, ballot.consistent, threshold)
            named, edges = name_stretches(grid, levels.curve, levels.curve - ballot.baseline, found, threshold)
            fresh = [shape for shape in edges if shape.kind == "drop" and shape.first not in breaks]
            if not fresh:
                break
            findings += [_drop(grid, levels, ballot, found, shape) for shape in fresh]
            breaks += tuple(shape.first for shape in fresh)
            ballot = _vote(levels, smoothed, breaks, threshold, alpha)
        findings += [_excess(grid, levels, ballot, breaks, shape) for shape in named]
        findings += [
            _rise(grid, levels, shape) for shape in rises(grid, levels.curve, ballot.baseline, threshold, named)
        ]
        free = np.ones(n, dtype=np.bool_)
        for first, last in found.tolist():
            free[first : last + 1] = False
        above, some = levels.visits - ballot.baseline, ballot.intermittent & free
        findings += intermittent_findings(grid, above, ballot.votes & free, present, ballot.p, some, alpha)
        findings += unstable_findings(grid, levels.processes)
    best = smallest_p(n, ballot.rates) if sweeps >= MIN_SWEEPS else None
    able = best is not None and best <= alpha and n > 1
    if not able:
        notes += (_cannot_tell(n, sweeps, ballot.rates, alpha),)
    findings.sort(key=lambda finding: finding.lengths)
    return Detection(
        findings=tuple(findings),
        median_ns=_spread(measured, np.exp(levels.curve + levels.centre)),
        baseline_ns=_spread(measured, np.exp(ballot.baseline + levels.centre)),
        limit_of_detection=float(np.exp(threshold + MARGIN * sigma)) if able else None,
        smallest_p=best,
        notes=notes,
        verdict=_verdict(findings, able),
    )


def _check(lengths: Ints, sweeps_ns: Floats, process: Ints | Floats | None, min_ratio: float) -> None:
    if sweeps_ns.ndim != 2 or lengths.ndim != 1 or sweeps_ns.shape[1] != len(lengths) or sweeps_ns.shape[0] == 0:
        raise ValueError(
            f"sweeps of shape {sweeps_ns.shape} do not fit {lengths.shape} lengths; pass [sweeps, lengths]."
        )
    if process is not None and process.shape != sweeps_ns.shape:
        raise ValueError(
            f"processes of shape {process.shape} do not fit sweeps of shape {sweeps_ns.shape}; pass one a visit."
        )
    if (np.diff(lengths) <= 0).any():
        raise ValueError("lengths must rise without repeats; sort them and their visits first.")
    if (sweeps_ns <= 0).any() or np.isinf(sweeps_ns).any():
        raise ValueError("times must be finite and above 0 ns; pass NaN for a visit that is missing.")
    if min_ratio <= 1:
        raise ValueError(f"min_ratio {min_ratio} must be above 1, such as 1.10.")


def _sigma(levels: Levels, seen: Ints) -> float:
    """Spread of one visit around the curve, by MAD, widened for the curve having been fitted to the same S visits."""
    usable = seen >= 2
    if not usable.any():
        return 0.0
    around = np.abs(levels.visits - levels.curve)[:, usable]
    sweeps = float(np.median(seen[usable]))
    return float(1.4826 * np.median(around[~np.isnan(around)]) * np.sqrt(sweeps / (sweeps - 1)))


def _vote(levels: Levels, smoothed: Floats, breaks: tuple[int, ...], threshold: float, alpha: float) -> _Ballot:
    baseline = suffix_minimum(smoothed, breaks)
    present = ~np.isnan(levels.visits)
    above = levels.visits - baseline
    at_least = threshold - 1e-9  # identical times at exactly the floor must not depend on rounding
    votes = present & (above >= at_least)
    candidates = levels.curve - baseline >= at_least
    rates = background_rates(votes, present, ~candidates)
    p = tail(votes, present, rates)
    seen = present.sum(axis=0)
    significant = (p <= alpha) & (seen >= MIN_SWEEPS)
    consistent, intermittent = np.zeros_like(candidates), np.zeros_like(candidates)
    index = np.flatnonzero(significant)
    if index.size:
        height = np.nanmedian(np.where(votes[:, index], above[:, index], np.nan), axis=0)
        clean = (present[:, index] & ~votes[:, index] & (above[:, index] < height / 2)).sum(axis=0)
        split = (clean >= 2) & (clean > seen[index] / 4)
        consistent[index] = candidates[index] & ~split
        intermittent[index] = split
    return _Ballot(baseline, votes, present, rates, p, consistent, intermittent)


def _poll(ballot: _Ballot, members: Ints) -> tuple[str, float]:
    """Median votes over median visits of some lengths, as 5/5, and their smallest p."""
    members = members[ballot.consistent[members]] if ballot.consistent[members].any() else members
    cast = int(np.median(ballot.votes[:, members].sum(axis=0)))
    seen = int(np.median(ballot.present[:, members].sum(axis=0)))
    return f"{cast}/{seen}", float(ballot.p[members].min())


def _excess(grid: Ints, levels: Levels, ballot: _Ballot, breaks: tuple[int, ...], shape: Shape) -> Finding:
    members = np.array(shape.members or range(shape.first, shape.last + 1))
    excess = levels.curve[members] - ballot.baseline[members]
    ratio = float(np.exp(np.median(excess)))
    votes, p = _poll(ballot, members)
    if shape.kind in ("comb", "periodic"):
        note = sentences.teeth_sentence(grid, shape, ratio)
    else:
        peak = int(members[np.argmax(excess)])
        reference = _reference(levels, ballot, breaks, peak)
        peak_ns, reference_ns = np.exp(levels.centre + np.array([levels.curve[peak], ballot.baseline[peak]]))
        note = sentences.excess_sentence(grid, shape, peak, reference, float(peak_ns), float(reference_ns))
    return Finding(shape.kind, (int(grid[shape.first]), int(grid[shape.last])), ratio, votes, p, "confirmed", note)


def _reference(levels: Levels, ballot: _Ballot, breaks: tuple[int, ...], index: int) -> int:
    """The next longer length that costs what the baseline says, the one before it at the end of the range."""
    stop = min((b + 1 for b in breaks if b >= index), default=len(levels.curve))
    later = np.arange(index + 1, min(stop, index + 1 + NEARBY))
    near = later[levels.curve[later] - ballot.baseline[index] <= 0.02 + 1e-9]
    return int(near[0]) if near.size else int(later[np.argmin(levels.curve[later])]) if later.size else index - 1


def _drop(grid: Ints, levels: Levels, ballot: _Ballot, found: Ints, shape: Shape) -> Finding:
    first = int(found[found[:, 1] == shape.first][0, 0])
    votes, p = _poll(ballot, np.arange(max(first, shape.first - 2), shape.first + 1))
    note = sentences.step_sentence(grid, _shifted(shape, levels.centre), from_start=first == 0)
    ratio = float(np.exp(shape.after - shape.before))
    return Finding("step", (int(grid[shape.first]), int(grid[shape.last])), ratio, votes, p, "confirmed", note)


def _rise(grid: Ints, levels: Levels, shape: Shape) -> Finding:
    before = levels.visits[:, max(0, shape.first - 2) : shape.first + 1]
    after = levels.visits[:, shape.last : shape.last + 3]
    height = np.array([np.nanmedian(a) - np.nanmedian(b) for a, b in _rows(after, before)])
    cast = int((height > (shape.after - shape.before) / 2).sum())
    note = sentences.step_sentence(grid, _shifted(shape, levels.centre))
    lengths = (int(grid[shape.first]), int(grid[shape.last]))
    ratio = float(np.exp(shape.after - shape.before))
    return Finding("step", lengths, ratio, f"{cast}/{len(height)}", None, "confirmed", note)


def _rows(after: Floats, before: Floats) -> list[tuple[Floats, Floats]]:
    """The sweeps that saw both sides of an edge."""
    return [(a, b) for a, b in zip(after, before, strict=True) if not np.isnan(a).all() and not np.isnan(b).all()]


def _shifted(shape: Shape, centre: float) -> Shape:
    return Shape(shape.kind, shape.first, shape.last, before=shape.before + centre, after=shape.after + centre)


def _spread(measured: Bools, values: Floats) -> Floats:
    whole = np.full(len(measured), np.nan)
    whole[measured] = values
    return whole


def _missing(lengths: Ints, measured: Bools, grid: Ints, seen: Ints) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if not measured.all():
        notes += (
            f"{int((~measured).sum())} of {len(lengths)} lengths were never measured, first {lengths[~measured][0]}.",
        )
    thin = (seen < MIN_SWEEPS) & (seen.max() >= MIN_SWEEPS)
    if thin.any():
        notes += (
            f"{int(thin.sum())} lengths have fewer than {MIN_SWEEPS} visits and cannot be judged, the first "
            f"{grid[thin][0]}; resume the run to fill them in.",
        )
    return notes


def _cannot_tell(n: int, sweeps: int, rates: Floats, alpha: float) -> str:
    if n == 1:
        return "cannot tell: one length has nothing to be compared with; measure a range."
    have = f"{sweeps} sweep" + ("s" if sweeps != 1 else "")
    return (
        f"cannot tell, needs {sweeps_needed(n, rates, alpha)} or more sweeps: {have} agreeing by chance is too likely."
    )


def _verdict(findings: list[Finding], able: bool) -> str:
    confirmed = [finding for finding in findings if finding.confidence == "confirmed"]
    if any(f.kind in CONFIRMING or (f.kind == "step" and f.ratio is not None and f.ratio < 1) for f in confirmed):
        return "non-monotonic"
    return "smooth" if able and not findings else "unresolved"
