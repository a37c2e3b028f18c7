"""The baseline that a length's cost is held against: the cheapest cost of that length or any longer one.

Attention over a longer cache can always be had by padding a shorter one, so no length should cost more than a longer
one. The suffix minimum of the curve says exactly that; it is indifferent to slopes and to steps upwards.
"""

from __future__ import annotations

import numpy as np

from pykvbench.analysis.finding import Floats, Ints

DENSE = 1.25  # five neighbouring lengths that span less than this ratio may be smoothed together
ALIKE = 0.05  # log; two lengths that cost the same within this are averaged, where reflection takes the larger
NEARBY = 2048  # how many longer lengths are searched for one to name in a sentence
GROWTH = 3.0  # no cost here grows faster than the cube of the length: faster is a step, not a slope


def smooth(lengths: Ints, curve: Floats) -> Floats:
    """The running median over 5 lengths, reflected at both ends: [n].

    It takes the luck out of the minimum and ignores one or two fast lengths among slow ones (a comb that is faster at
    every 32nd length is no reason to call the others slow). Reflection lets a spike on the last length be seen. Where
    the grid is coarse the five lengths have nothing to do with each other and the curve is left as it is. The last
    length may exceed its predecessors by cubic growth before that counts as excess.
    """
    n = len(curve)
    if n < 5:
        return curve.copy()
    padded = np.concatenate((curve[2:0:-1], curve, curve[-2:-4:-1]))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    index = np.arange(n)
    span = lengths[np.minimum(index + 2, n - 1)] / np.maximum(lengths[np.maximum(index - 2, 0)], 1)
    smoothed = np.where(span <= DENSE, medians, curve)
    if curve[-1] > smoothed[-1]:
        level = float(np.mean(curve[-3:-1])) if np.ptp(curve[-3:-1]) < ALIKE else smoothed[-1]
        smoothed[-1] = min(curve[-1], level + GROWTH * np.log(lengths[-1] / max(lengths[-2], 1)))
    return np.asarray(smoothed, dtype=np.float64)


def suffix_minimum(smoothed: Floats, breaks: tuple[int, ...] = ()) -> Floats:
    """The smallest value here or to the right, starting anew after each index in `breaks`: [n].

    A break stands at a lasting drop: what lies left of it is compared among itself.
    """
    baseline = np.empty_like(smoothed)
    start = 0
    for stop in (*(b + 1 for b in sorted(breaks)), len(smoothed)):
        baseline[start:stop] = np.minimum.accumulate(smoothed[start:stop][::-1])[::-1]
        start = stop
    return baseline


def reference(curve: Floats, baseline: Floats, breaks: tuple[int, ...], index: int) -> int:
    """The next longer length that costs what the baseline says, the one before it at the end of the range."""
    stop = min((b + 1 for b in breaks if b >= index), default=len(curve))
    later = np.arange(index + 1, min(stop, index + 1 + NEARBY))
    near = later[curve[later] - baseline[index] <= 0.02 + 1e-9]
    return int(near[0]) if near.size else int(later[np.argmin(curve[later])]) if later.size else index - 1
