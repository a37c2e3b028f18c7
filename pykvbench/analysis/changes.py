"""Change points inside one trajectory: its steps jump and stay, while other trajectories at the same lengths do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.decomposition import BLOCK, Decomposition
from pykvbench.analysis.finding import Floats
from pykvbench.analysis.votes import runs

LEAST = 1.25  # times the trajectory's fast steps
LASTING = 4  # blocks: what is over sooner is a burst
SIGMAS = 6.0  # of a block's median


@dataclass(frozen=True)
class Change:
    """Steps `first` to `last` (from 0) of row `row` cost `ratio` times the same lengths in fast trajectories."""

    row: int
    first: int
    last: int
    ratio: float


def find_changes(parts: Decomposition) -> list[Change]:
    """Stretches of LASTING blocks or more that are slow where the rest of their trajectory is not."""
    jitter = np.nanmedian(np.abs(np.diff(parts.blocks, axis=1))) if parts.blocks.shape[1] > 1 else np.nan
    height = max(float(np.log(LEAST)), SIGMAS * float(np.nan_to_num(jitter)))
    found = []
    for row, blocks in enumerate(parts.blocks):
        known = blocks[~np.isnan(blocks)]
        if len(known) < LASTING + 2:
            continue
        slow = np.nan_to_num(blocks, nan=-np.inf) > float(np.quantile(known, 0.1)) + height
        for begin, end in runs(slow).tolist():
            if end - begin + 1 < LASTING or end - begin + 1 >= len(known):
                continue
            level = float(np.nanmedian(blocks[begin : end + 1]))
            steps = parts.rest[row]
            first = 0 if begin == 0 else _edge(steps, begin * BLOCK, level)
            last = int(np.flatnonzero(~np.isnan(steps))[-1])
            if end + 1 < len(blocks) and not np.isnan(blocks[end + 1]):
                last = _edge(steps, (end + 1) * BLOCK, level) - 1
            found.append(Change(row, first, last, float(np.exp(level))))
    return found


def without_changes(parts: Decomposition, changes: list[Change]) -> Floats:
    """What remains of each step beyond its length's cost, with slow stretches brought down to the rest: [T, n]."""
    rest = parts.rest.copy()
    for change in changes:
        rest[change.row, change.first : change.last + 1] -= np.log(change.ratio)
    return rest


def _edge(steps: Floats, near: int, level: float) -> int:
    """The step within a block of `near` that parts two levels best, by absolute deviations: the first on the right."""
    start, stop = max(0, near - BLOCK), min(len(steps), near + BLOCK)
    window = np.nan_to_num(steps[start:stop])
    # The other level is that of whichever end of the window lies further from the slow one.
    ends = np.median(window[:BLOCK]), np.median(window[-BLOCK:])
    other = float(max(ends, key=lambda value: abs(value - level)))
    left_slow = abs(ends[0] - level) < abs(ends[1] - level)
    left, right = (level, other) if left_slow else (other, level)
    cost_left = np.concatenate(([0.0], np.cumsum(np.abs(window - left))))
    cost_right = np.concatenate(([0.0], np.cumsum(np.abs(window - right)[::-1])))[::-1]
    return start + int(np.argmin(cost_left + cost_right))
