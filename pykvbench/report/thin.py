"""Fewer dots than there are, with every extreme kept: a million visits are drawn at once, and no spike is hidden."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pykvbench.analysis.finding import Floats, Ints

DOTS = 20_000  # a panel: more than its pixels can tell apart, and about a tenth of a second to draw


def thin(x: npt.NDArray[np.generic], y: Floats, limit: int = DOTS) -> Ints:
    """Indices, ascending, of at most `limit` points: the lowest and highest of every column of x, and some between.

    The x axis is cut into limit / 12 columns, finer than pixels at the default limit, so that a sixth of the points
    are extremes at most and the rest, taken at an even stride from the others, still show where most points lie.
    Points whose y is NaN are left out.
    """
    known = np.flatnonzero(np.isfinite(y))
    if len(known) <= limit:
        return known.astype(np.int64)
    position = x[known].astype(np.float64)
    low, high = position.min(), position.max()
    columns = max(1, limit // 12)
    column = np.minimum((position - low) / max(high - low, 1e-300) * columns, columns - 1).astype(np.int64)
    order = np.lexsort((y[known], column))
    edges = np.flatnonzero(np.diff(column[order])) + 1
    extreme = np.zeros(len(known), dtype=np.bool_)
    extreme[order[np.r_[0, edges]]] = True
    extreme[order[np.r_[edges - 1, len(order) - 1]]] = True
    others = np.flatnonzero(~extreme)
    extreme[others[:: -(-len(others) // max(1, limit - int(extreme.sum())))]] = True
    return known[extreme].astype(np.int64)
