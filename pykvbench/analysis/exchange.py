"""How surprising it is that slow trajectories are all of the same budgets, or all of the same time: exact counts.

In shuffled order, and nothing special about a budget or a moment, any set of trajectories is as likely to be the slow
one as any other, whatever the noise. Both chances are counted over all such sets; nothing is fitted or drawn.
"""

from __future__ import annotations

import math

import numpy as np

from pykvbench.analysis.finding import Ints
from pykvbench.analysis.votes import Bools

MOST_REPEATS = 100  # beyond which `repeats_needed` stops looking


def budget_chance(slow: Bools, group: Ints) -> float:
    """Chance that so many slow trajectories split this cleanly by group: slow, group [T].

    A trajectory is misplaced if it is slow where most of its group is fast, or fast where most is slow. Counted are the
    sets of equal size that misplace no more.
    """
    sizes = np.bincount(group)
    hits = np.bincount(group, weights=slow).astype(np.int64)
    misplaced = int(np.minimum(hits, sizes - hits).sum())
    return _split_chance([int(size) for size in sizes if size], int(slow.sum()), misplaced)


def smallest_budget_p(group: Ints) -> float:
    """The chance if exactly one group, the smallest, were slow: what a run of this shape could reach."""
    sizes = [int(size) for size in np.bincount(group) if size]
    return _split_chance(sizes, min(sizes), 0)


def repeats_needed(groups: int, alpha: float) -> int | None:
    """The fewest repeats with which one slow group among so many reaches alpha; None when no number does."""
    if groups < 2:
        return None
    return next(
        (n for n in range(3, MOST_REPEATS) if _split_chance([n] * groups, n, 0) <= alpha),
        None,
    )


def time_chance(slow: Bools) -> float:
    """Chance that so many slow trajectories, in the order of measurement, fall into as few stretches: slow [T]."""
    count, marked = len(slow), int(slow.sum())
    if not 0 < marked < count:
        return 1.0
    stretches = 1 + int(np.count_nonzero(np.diff(slow.astype(np.int8))))
    ways = sum(_arrangements(count - marked, marked, number) for number in range(2, stretches + 1))
    return min(1.0, ways / math.comb(count, marked))


def _split_chance(sizes: list[int], slow: int, misplaced: int) -> float:
    total = sum(sizes)
    if not 0 < slow < total:
        return 1.0
    ways = np.zeros((slow + 1, misplaced + 1), dtype=np.float64)  # [slow so far, misplaced so far]
    ways[0, 0] = 1.0
    for size in sizes:
        grown = np.zeros_like(ways)
        for hits in range(min(size, slow) + 1):
            wrong = min(hits, size - hits)
            if wrong <= misplaced:
                part = ways[: slow + 1 - hits, : misplaced + 1 - wrong]
                grown[hits:, wrong:] += math.comb(size, hits) * part
        ways = grown
    return min(1.0, float(ways[slow].sum()) / math.comb(total, slow))


def _arrangements(fast: int, slow: int, stretches: int) -> int:
    """In how many orders `fast` and `slow` things form exactly so many stretches."""
    half, odd = divmod(stretches, 2)
    if not odd:
        return 2 * math.comb(slow - 1, half - 1) * math.comb(fast - 1, half - 1)
    return math.comb(slow - 1, half) * math.comb(fast - 1, half - 1) + math.comb(slow - 1, half - 1) * math.comb(
        fast - 1, half
    )
