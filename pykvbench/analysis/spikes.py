"""Finding lengths that cost too much, from replicated shuffled sweeps: sweeps vote on which lengths cost too much.

Visits are compared as logs of medians, without what their process and their moment cost. A visit votes for its length
if it exceeds the baseline (the cheapest cost of that length or any longer one) by a threshold; a length is flagged if
more sweeps vote for it than their background rates of votes explain. Simulated operating characteristics:
`benchmarks/detection.py`.

Verdicts: `non-monotonic` if a spike, regime, comb, periodic pattern or lasting drop is confirmed (after a lasting drop
a longer cache is cheaper, which is what non-monotonic means); `unresolved` if the run is too small to tell, or holds
only intermittent findings or an unexplained rise; `smooth` otherwise.
"""

from __future__ import annotations

from statistics import median

import numpy as np

from pykvbench.analysis import sentences
from pykvbench.analysis.ballot import Ballot, vote
from pykvbench.analysis.envelope import reference, smooth
from pykvbench.analysis.finding import Detection, Finding, Floats, Ints
from pykvbench.analysis.firsts import first_visits as first_visits
from pykvbench.analysis.levels import Levels, remove_levels
from pykvbench.analysis.moments import remove_moments
from pykvbench.analysis.processes import intermittent_findings, slow_process_findings
from pykvbench.analysis.shapes import Shape, name_stretches, rises, stretches
from pykvbench.analysis.votes import (
    MIN_SWEEPS,
    Bools,
    covered,
    smallest_p,
    sweeps_needed,
)

SIGMAS = 3.0  # a noisy run votes above 3 sigma; with the floor alone a 21x spike drowned in votes at 15 % noise
MARGIN = 2.5  # sigmas above the threshold at which 5 of 5 sweeps vote in 97 % of runs
CONFIRMING = frozenset({"spike", "regime", "comb", "periodic"})


def detect(
    lengths: Ints,
    sweeps_ns: Floats,
    process: Ints | Floats | None = None,
    order: Floats | None = None,
    min_ratio: float = 1.10,
    alpha: float = 0.01,
) -> Detection:
    """Judge every length of replicated sweeps in shuffled order.

    lengths: [n] rising; sweeps_ns: [S, n] median ns of each visit, NaN where it is missing; process: [S, n] which
    process measured the visit, the sweep's number when None; order: [S, n] the visit's place in its sweep, with which
    noise that lasts over several visits is taken out. Ratios below `min_ratio` are never claimed; `alpha` is the chance
    of any false finding. Raises ValueError for shapes that do not match, lengths out of order, times below 0.
    """
    _check(lengths, sweeps_ns, process, order, min_ratio)
    started = ~np.isnan(sweeps_ns).all(axis=1)
    sweeps_ns, process = sweeps_ns[started], None if process is None else process[started]
    order = None if order is None else order[started]
    measured: Bools = np.any(~np.isnan(sweeps_ns), axis=0)
    n = int(measured.sum())
    if n == 0:
        empty = np.full(len(lengths), np.nan)
        return Detection((), empty, empty, None, None, ("no length was measured.",), "unresolved")
    grid = lengths[measured]
    process = None if process is None else process[:, measured]
    levels = remove_levels(np.log(sweeps_ns[:, measured]), process)
    if order is not None:
        levels = remove_moments(levels, order[:, measured], process)
    present = ~np.isnan(levels.visits)
    seen = present.sum(axis=0)
    sweeps = len(present)
    sigma = _sigma(levels, seen)
    threshold = max(float(np.log(min_ratio)), SIGMAS * sigma)
    smoothed = smooth(grid, levels.curve)

    findings: list[Finding] = []
    breaks: tuple[int, ...] = ()
    notes = _missing(lengths, measured, grid, seen)
    ballot = vote(levels, smoothed, breaks, threshold, alpha)
    if sweeps >= MIN_SWEEPS:
        while True:  # each round splits the range at the lasting drops found, at most as often as there are any
            found = stretches(levels.curve - ballot.baseline, ballot.consistent, threshold)
            named, edges = name_stretches(grid, levels.curve, levels.curve - ballot.baseline, found, threshold)
            fresh = [shape for shape in edges if shape.kind == "drop" and shape.first not in breaks]
            if not fresh:
                break
            findings += [_drop(grid, levels, ballot, found, shape) for shape in fresh]
            breaks += tuple(shape.first for shape in fresh)
            ballot = vote(levels, smoothed, breaks, threshold, alpha)
        findings += [_excess(grid, levels, ballot, breaks, shape) for shape in named]
        findings += [
            _rise(grid, levels, shape) for shape in rises(grid, levels.curve, ballot.baseline, threshold, named)
        ]
        free = ~covered(found, n)
        above, some = levels.visits - ballot.baseline, ballot.intermittent & free
        findings += intermittent_findings(grid, above, ballot.votes & free, present, ballot.p, some, alpha)
        findings += slow_process_findings(grid, levels.processes)
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


def _check(
    lengths: Ints, sweeps_ns: Floats, process: Ints | Floats | None, order: Floats | None, min_ratio: float
) -> None:
    if sweeps_ns.ndim != 2 or lengths.ndim != 1 or sweeps_ns.shape[1] != len(lengths) or sweeps_ns.shape[0] == 0:
        raise ValueError(
            f"sweeps of shape {sweeps_ns.shape} do not fit {lengths.shape} lengths; pass [sweeps, lengths]."
        )
    if process is not None and process.shape != sweeps_ns.shape:
        raise ValueError(
            f"processes of shape {process.shape} do not fit sweeps of shape {sweeps_ns.shape}; pass one a visit."
        )
    if order is not None and order.shape != sweeps_ns.shape:
        raise ValueError(
            f"places of shape {order.shape} do not fit sweeps of shape {sweeps_ns.shape}; pass one a visit."
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


def _excess(grid: Ints, levels: Levels, ballot: Ballot, breaks: tuple[int, ...], shape: Shape) -> Finding:
    members = np.array(shape.members) if shape.members else np.arange(shape.first, shape.last + 1)
    excess = levels.curve[members] - ballot.baseline[members]
    ratio = float(np.exp(median(excess.tolist())))  # numpy's median costs 20 us, and there may be 10,000 findings
    votes, p = ballot.poll(members)
    if shape.kind in ("comb", "periodic"):
        note = sentences.teeth_sentence(grid, shape, ratio)
    else:
        peak = int(members[np.argmax(excess)])
        fine = reference(levels.curve, ballot.baseline, breaks, peak)
        peak_ns, reference_ns = np.exp(levels.centre + np.array([levels.curve[peak], ballot.baseline[peak]]))
        note = sentences.excess_sentence(grid, shape, peak, fine, float(peak_ns), float(reference_ns))
    return Finding(shape.kind, (int(grid[shape.first]), int(grid[shape.last])), ratio, votes, p, "confirmed", note)


def _drop(grid: Ints, levels: Levels, ballot: Ballot, found: Ints, shape: Shape) -> Finding:
    first = int(found[found[:, 1] == shape.first][0, 0])
    votes, p = ballot.poll(np.arange(max(first, shape.first - 2), shape.first + 1))
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
        without = f"{len(lengths) - len(grid)} of {len(lengths)} lengths"
        have = "has" if len(lengths) - len(grid) == 1 else "have"
        notes += (f"{without} {have} no time that can be used, the first {lengths[~measured][0]}.",)
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
