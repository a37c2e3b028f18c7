"""A clock that sags: all steps grow slower (or faster) evenly over the run, whatever their length or budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.finding import Floats

LEAST = 1.03  # a change over the whole run that is worth a word
ALPHA = 0.001  # of the rank test; 1 % would call one quiet run in a hundred drifting
FEWEST = 6  # trajectories


@dataclass(frozen=True)
class Drift:
    """A steady change of log cost with time: `slope` a ns, `change` from the first trajectory to the last."""

    slope: float
    change: float
    p: float


def steady_change(time_ns: Floats, excess: Floats, threshold: float) -> Drift | None:
    """The drift of trajectories' log excess over the time of measurement, [T] each; None if there is no steady one.

    The slope is the median of all pairs' slopes, its p Kendall's. Where some trajectories exceed the threshold, two
    levels must not fit twice as well as a line: a slow half hour is no drift. (Cut by value, two always fit better.)
    """
    count = len(excess)
    if count < FEWEST or np.ptp(time_ns) == 0:
        return None
    later, earlier = np.tril_indices(count, -1)
    rise, gap = excess[later] - excess[earlier], time_ns[later] - time_ns[earlier]
    apart = gap != 0
    slope = float(np.median(rise[apart] / gap[apart]))
    change = slope * float(np.ptp(time_ns))
    p = _kendall(float(np.sum(np.sign(rise) * np.sign(gap))), count)
    if p > ALPHA or abs(change) < math.log(LEAST):
        return None
    high = excess > threshold
    if high.any() and _misfit(excess - slope * time_ns) > 2 * (_misfit(excess[high]) + _misfit(excess[~high])):
        return None
    return Drift(slope, change, p)


def _kendall(concordance: float, count: int) -> float:
    """Two-sided p of the sum of signs over pairs, by its normal limit."""
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return math.erfc(abs(concordance) / deviation / math.sqrt(2))


def _misfit(values: Floats) -> float:
    return float(np.abs(values - np.median(values)).sum()) if len(values) else 0.0
