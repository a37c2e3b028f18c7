"""How surprising it is that several sweeps agree on one length: the Poisson-binomial tail and what follows from it.

With a fresh random order per sweep and nothing special about any length, the positions of a sweep's slow visits are
exchangeable whatever the shape of the noise, and sweeps are separate processes, hence independent. The number of
sweeps that vote for one length is then Poisson-binomial; no normality and no variance estimate enter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pykvbench.analysis.finding import Floats, Ints

Bools = npt.NDArray[np.bool_]

MIN_SWEEPS = 3  # at 2 the median is the mean, a slow visit pulls its own curve up, and 13 % of null runs raise an alarm


def background_rates(votes: Bools, present: Bools, background: Bools) -> Floats:
    """Each sweep's rate of votes among lengths that are not candidates, never 0: (votes + 1) / (visits + 2), [S].

    votes, present: [S, n]; background: [n].
    """
    usable = present & background
    return np.asarray(((votes & usable).sum(axis=1) + 1.0) / (usable.sum(axis=1) + 2.0), dtype=np.float64)


def tail(votes: Bools, present: Bools, rates: Floats) -> Floats:
    """Chance of at least as many votes at each length as were cast there, Bonferroni-corrected for n lengths: [n]."""
    sweeps, n = votes.shape
    cast = votes.sum(axis=0)
    if not cast.any():
        return np.ones(n)
    counts = np.zeros((sweeps + 1, n))
    counts[0] = 1.0
    for sweep in range(sweeps):
        rate = np.where(present[sweep], rates[sweep], 0.0)
        counts[1:] = counts[1:] * (1.0 - rate) + counts[:-1] * rate
        counts[0] *= 1.0 - rate
    upper = np.cumsum(counts[::-1], axis=0)[::-1]  # upper[v] = P(at least v votes)
    chance = np.take_along_axis(upper, cast[None, :], axis=0)[0]
    return np.asarray(np.minimum(1.0, chance * n))


def smallest_p(n: int, rates: Floats) -> float:
    """The corrected p-value if every sweep voted for one of n lengths: what this run could have reached at best."""
    return min(1.0, n * float(np.prod(rates)))


def sweeps_needed(n: int, rates: Floats, alpha: float) -> int:
    """How many sweeps as quiet as these would let all of them agreeing reach alpha, at least MIN_SWEEPS."""
    rate = float(np.exp(np.mean(np.log(rates)))) if rates.size else 1.0 / (n + 2)
    return max(MIN_SWEEPS, int(np.ceil(np.log(alpha / n) / np.log(rate) - 1e-9)))


def run_length_needed(n: int, rate: float, sweeps: int, alpha: float) -> int:
    """How many adjacent votes in one sweep are too many for chance: n * sweeps * rate^k <= alpha.

    In a shuffled sweep neighbours in length are far apart in time, so a bad minute does not make a run.
    """
    return max(2, int(np.ceil(np.log(alpha / (n * sweeps)) / np.log(rate))))


def runs(mask: Bools) -> Ints:
    """First and last index of each run of True: [runs, 2]."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return np.stack((edges[::2], edges[1::2] - 1), axis=1).astype(np.int64)


def covered(spans: Ints, n: int) -> Bools:
    """What `runs` was given: True from first to last of each of the separate spans, [spans, 2] -> [n]."""
    edges = np.zeros(n + 1, dtype=np.int64)
    edges[spans[:, 0]] += 1
    edges[spans[:, 1] + 1] -= 1
    return np.cumsum(edges[:-1]) > 0
