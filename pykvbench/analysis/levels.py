"""What a whole process costs: its level, removed before lengths are compared, and whether levels fall into groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.votes import Bools

MIN_VISITS = 8  # a process with fewer visits has no level of its own and takes its sweep's
MODE_RATIO = 1.25  # processes differ by 10 % on a busy machine; a slower kernel in some of them costs more than this
LONE_RATIO = 1.6  # a busy spell slows one process by about 1.5x; a lone one must differ by more


@dataclass(frozen=True)
class Levels:
    """log visits without their process's level, the curve through them, and the levels of whole processes."""

    visits: Floats  # [S, n] log ns less the level, NaN where missing
    curve: Floats  # [n] median over sweeps
    centre: float  # what to add to get back to log ns
    processes: Floats  # [p] level of every process that has one, relative to the centre


def median_over_sweeps(values: Floats) -> Floats:
    """Median over axis 0 that skips NaN, vectorised (numpy's nanmedian loops when n is large): [S, n] -> [n]."""
    ordered = np.sort(values, axis=0)  # NaN last
    present = np.sum(~np.isnan(values), axis=0)
    low = np.take_along_axis(ordered, np.maximum((present - 1) // 2, 0)[None, :], axis=0)[0]
    high = np.take_along_axis(ordered, np.minimum(present // 2, len(values) - 1)[None, :], axis=0)[0]
    return np.asarray(np.where(present > 0, (low + np.where(present % 2, low, high)) / 2, np.nan))


def remove_levels(log_ns: Floats, process: Ints | Floats | None) -> Levels:
    """Take each process's level out of its visits: the median distance from the common curve, [S, n].

    The curve and the levels depend on each other; three rounds settle both, also when sweeps miss different lengths.
    """
    present = ~np.isnan(log_ns)
    rows = np.array(
        [np.median(row[there]) if there.any() else np.nan for row, there in zip(log_ns, present, strict=True)]
    )
    groups = _groups(present, process)
    offsets = np.broadcast_to(rows[:, None], log_ns.shape).copy()
    for _ in range(3):
        curve = median_over_sweeps(log_ns - offsets)
        distance = (log_ns - curve).ravel()
        rows = np.array([np.nanmedian(r) if t.any() else np.nan for r, t in zip(log_ns - curve, present, strict=True)])
        offsets = np.broadcast_to(rows[:, None], log_ns.shape).copy()
        levels = np.array([np.median(distance[members]) for members in groups])
        for members, level in zip(groups, levels, strict=True):
            offsets.ravel()[members] = level
    centre = float(np.median(levels)) if groups else float(np.nanmedian(rows))
    visits = log_ns - offsets
    return Levels(visits, median_over_sweeps(visits), centre, levels - centre if groups else rows - centre)


def slow_processes(processes: Floats) -> tuple[int, float] | None:
    """How many processes form a slow group, and how much slower it is, if the levels fall into two groups at all.

    The gap between neighbours in the sorted levels must exceed MODE_RATIO (LONE_RATIO for one process) and three times
    the range of either group, so that a spread of 10 % among processes is not split, while two processes at 1.5x among
    three equal ones are.
    """
    ordered = np.sort(processes)
    if len(ordered) < 3:
        return None
    split = int(np.argmax(np.diff(ordered))) + 1
    fast, slow = ordered[:split], ordered[split:]
    gap = slow[0] - fast[-1]
    least = LONE_RATIO if min(len(fast), len(slow)) == 1 else MODE_RATIO
    if gap <= np.log(least) or gap < 3 * max(np.ptp(fast), np.ptp(slow)):
        return None
    return len(slow), float(np.exp(np.median(slow) - np.median(fast)))


def _groups(present: Bools, process: Ints | Floats | None) -> list[Ints]:
    """Flat indices of the visits of each process that has enough of them."""
    sweeps, n = present.shape
    if process is None:
        process = np.broadcast_to(np.arange(sweeps)[:, None], (sweeps, n))
    there = np.flatnonzero(present.ravel())
    owner = process.ravel()[there]
    order = np.argsort(owner, kind="stable")
    cuts = np.flatnonzero(np.diff(owner[order])) + 1
    return [there[part] for part in np.split(order, cuts) if len(part) >= MIN_VISITS]
