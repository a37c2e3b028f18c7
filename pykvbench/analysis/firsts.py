"""What a length costs the first time a process visits it: compilation and planning, kept apart from its steady cost."""

from __future__ import annotations

import numpy as np

from pykvbench.analysis.finding import Finding, Floats, Ints
from pykvbench.analysis.levels import median_over_sweeps
from pykvbench.analysis.sentences import times
from pykvbench.analysis.votes import Bools, background_rates, runs, tail

MIN_RATIO = 2.0  # a first call on a CPU costs 1.05 to 1.5 times a steady one, from cold caches alone
MAX_FINDINGS = 8  # more stretches than this are one finding that counts them


def first_visits(lengths: Ints, first_ns: Floats, steady_ns: Floats, alpha: float = 0.01) -> tuple[Finding, ...]:
    """Lengths whose first call costs MIN_RATIO times the steady one or more in most sweeps; the verdict is not theirs.

    lengths: [n]; first_ns, steady_ns: [S, n] ns, NaN where missing. If half of the lengths show it, every new shape
    costs something and one finding covers the range. Lengths that exceed what is usual here by MIN_RATIO again, in more
    sweeps than chance explains, are findings of their own.
    """
    usable = ~np.isnan(first_ns) & ~np.isnan(steady_ns)
    seen = usable.any(axis=0)
    if not seen.any():
        return ()
    grid, present = lengths[seen], usable[:, seen]
    excess = np.where(present, np.log(np.where(usable, first_ns / steady_ns, 1.0))[:, seen], np.nan)
    curve = median_over_sweeps(excess)
    floor = float(np.log(MIN_RATIO))
    findings: list[Finding] = []
    usual = float(np.median(curve))
    slow = present & (excess >= floor)
    often = slow.sum(axis=0) * 2 > present.sum(axis=0)
    if often.mean() >= 0.5 and usual >= floor:
        ratio = float(np.exp(usual))
        votes = f"{int(np.median(slow.sum(axis=0)))}/{int(np.median(present.sum(axis=0)))}"
        where = f"{int(often.sum())} of {len(grid)} lengths"
        note = f"the first call at a new length costs {times(ratio)} the steady one, at {where}."
        findings.append(Finding("first-visit", (int(grid[0]), int(grid[-1])), ratio, votes, None, "confirmed", note))
    spread = 1.4826 * float(np.median(np.abs(curve - usual)))
    threshold = max(usual, 0.0) + max(floor, 4 * spread)
    findings += _outstanding(grid, excess, present, curve, threshold, alpha)
    return tuple(findings)


def _outstanding(
    grid: Ints, excess: Floats, present: Bools, curve: Floats, threshold: float, alpha: float
) -> list[Finding]:
    votes = present & (excess >= threshold)
    candidates = curve >= threshold
    p = tail(votes, present, background_rates(votes, present, ~candidates))
    marked = candidates & (p <= alpha) & (votes.sum(axis=0) * 2 > present.sum(axis=0))
    if not marked.any():
        return []
    spans = runs(marked).tolist()
    if len(spans) > MAX_FINDINGS:
        spans = [(spans[0][0], spans[-1][1])]
    findings = []
    for first, last in spans:
        members = np.flatnonzero(marked[first : last + 1]) + first
        ratio = float(np.exp(np.median(curve[members])))
        cast = int(np.median(votes[:, members].sum(axis=0)))
        where = (int(grid[first]), int(grid[last]))
        what = f"length {where[0]}" if first == last else f"{len(members)} lengths from {where[0]} to {where[1]}"
        note = f"the first call at {what} costs {times(ratio)} the steady one, more than at other lengths here."
        share = f"{cast}/{int(np.median(present[:, members].sum(axis=0)))}"
        findings.append(Finding("first-visit", where, ratio, share, float(p[members].min()), "confirmed", note))
    return findings
