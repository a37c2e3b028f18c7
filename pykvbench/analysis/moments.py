"""What a moment of the run costs: others on the machine come and go over several visits, and slow them all alike.

In a shuffled sweep the visits just before and after one are of lengths anywhere in the range, so how far they lie from
the curve tells how slow the machine was then, whatever their lengths. It is taken out of the visit between them.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import numpy as np

from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.levels import Levels, median_over_sweeps

SIDE = 3  # visits looked at before and after; with 6 or more, bursts of 5 visits are smoothed away
ROUNDS = 2  # curve and moments depend on each other; a third round fits both to the noise and promises too low a limit
LEAST = 16  # visits of a process in a sweep below which there are too few moments to tell whether this helps
APART = 0.2  # of the range; successive visits of a shuffled sweep lie a third of it apart, of shuffled halves a sixth


def remove_moments(levels: Levels, order: Floats, process: Ints | Floats | None) -> Levels:
    """Take out of each visit the median distance from the curve of the visits around it, never its own.

    order: [S, n] each visit's place in its sweep, NaN where missing; process: [S, n] which process measured it, one a
    sweep when None. A process is left as it is where this would not bring its visits closer to the curve (as with a
    fault of many lengths in that process alone), where its visits are few, and where its order is not shuffled.
    """
    tracks = [track for track in _tracks(levels.visits, order, process) if _shuffled(track, levels.visits.shape[1])]
    if not tracks:
        return levels
    visits, curve = levels.visits, levels.curve
    for _ in range(ROUNDS):
        visits = levels.visits.copy()
        flat, residual = visits.reshape(-1), (levels.visits - curve).ravel()
        for track in tracks:
            here = residual[track]
            around = _around(here)
            if np.abs(here - around).mean() < np.abs(here).mean():
                flat[track] -= around
        curve = median_over_sweeps(visits)
    return replace(levels, visits=visits, curve=curve)


def _tracks(visits: Floats, order: Floats, process: Ints | Floats | None) -> list[Ints]:
    """Flat indices of each process's visits within one sweep, in the order in which they were made."""
    n = visits.shape[1]
    usable = ~np.isnan(visits) & ~np.isnan(order)
    tracks: list[Ints] = []
    for sweep, row in enumerate(usable):
        there = np.flatnonzero(row)
        owner = np.zeros(len(there)) if process is None else process[sweep, there]
        for who in np.unique(owner):
            mine = there[owner == who]
            if len(mine) >= LEAST:
                tracks.append(sweep * n + mine[np.argsort(order[sweep, mine])])
    return tracks


def _shuffled(track: Ints, n: int) -> bool:
    """Whether visits near in time are far apart in length; else a fault of a few lengths would look like a moment."""
    column = track % n
    visited = np.zeros(n, dtype=np.bool_)
    visited[column] = True
    rank = np.cumsum(visited)[column]
    return all(np.abs(rank[lag:] - rank[:-lag]).mean() >= APART * len(track) for lag in range(1, SIDE + 1))


def _around(residual: Floats) -> Floats:
    """Median of the SIDE values before and the SIDE after each, at the ends of as many nearest others: [m] -> [m]."""
    windows = np.lib.stride_tricks.sliding_window_view(residual, 2 * SIDE + 1)
    others = np.concatenate((windows[:, :SIDE], windows[:, SIDE + 1 :]), axis=1)
    others.sort(axis=1)  # a third of the time of np.median
    around = np.empty_like(residual)
    around[SIDE:-SIDE] = (others[:, SIDE - 1] + others[:, SIDE]) / 2
    ends = windows[[0, -1]].tolist()  # numpy's median costs 50 us, and there may be a thousand tracks
    for i in range(SIDE):
        around[i] = median(ends[0][:i] + ends[0][i + 1 :])
        around[-1 - i] = median(ends[1][: 2 * SIDE - i] + ends[1][2 * SIDE - i + 1 :])
    return around
