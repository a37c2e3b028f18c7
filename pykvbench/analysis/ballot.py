"""One round of voting: which visits exceed the baseline, and at which lengths so many do that chance is no answer."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np

from pykvbench.analysis.envelope import suffix_minimum
from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.levels import Levels, median_over_sweeps
from pykvbench.analysis.votes import MIN_SWEEPS, Bools, background_rates, tail


@dataclass(frozen=True)
class Ballot:
    """Everything is over the lengths that were measured at all."""

    baseline: Floats  # [n] log
    votes: Bools  # [S, n]
    cast: Ints  # [n] votes
    seen: Ints  # [n] visits
    rates: Floats  # [S]
    p: Floats  # [n] corrected
    consistent: Bools  # [n] significant and in (nearly) every sweep
    intermittent: Bools  # [n] significant, but at the baseline in 2 or more sweeps

    def poll(self, members: Ints) -> tuple[str, float]:
        """Median votes over median visits of some lengths, as 5/5, and their smallest p."""
        members = members[self.consistent[members]] if self.consistent[members].any() else members
        cast, seen = (int(median(counts[members].tolist())) for counts in (self.cast, self.seen))
        return f"{cast}/{seen}", float(self.p[members].min())


def vote(levels: Levels, smoothed: Floats, breaks: tuple[int, ...], threshold: float, alpha: float) -> Ballot:
    """Let every visit above the baseline by `threshold` (log) vote; `breaks` are the lasting drops found so far."""
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
        height = median_over_sweeps(np.where(votes[:, index], above[:, index], np.nan))
        clean = (present[:, index] & ~votes[:, index] & (above[:, index] < height / 2)).sum(axis=0)
        split = (clean >= 2) & (clean > seen[index] / 4)
        consistent[index] = candidates[index] & ~split
        intermittent[index] = split
    return Ballot(baseline, votes, votes.sum(axis=0), seen, rates, p, consistent, intermittent)
