"""Names for what stands out of a curve: spike, regime, comb, periodic, and steps down and up.

Works on the logarithm of a curve over a grid of lengths, whoever measured it. Indices throughout are into that grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pykvbench.analysis.envelope import GROWTH
from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.votes import Bools, covered, runs

FEW = 5  # a stretch from the first length on that is wider than this may as well have begun before the range
CREEPING = 0.65  # cost that jumps in by less than this share of its drop (log) crept in: the drop is a cheaper route
LASTING = 0.45  # cost that drops by less than this share of its jump (log) stays up: two steps
NEAR = 1.1  # neighbours that share an edge's cost lie within this ratio of its length
_NEAR_LOG = math.log(NEAR)
COMB_SPACING = 8  # teeth this close together are a comb, wider apart they are periodic
COMB_TEETH = 4
PERIODIC_TEETH = 3
FILLED = 0.75  # share of the slots between the first and the last tooth that hold one


@dataclass(frozen=True)
class Shape:
    """One thing that stands out: grid indices first to last, and for teeth their members, spacing and residue.

    Kinds: spike, regime, comb, periodic, and for steps `drop` and `rise`, whose first and last are the two sides of
    the edge. `before` and `after` are log costs of a step's two sides; `gradual` marks a regime without a sharp end.
    """

    kind: str
    first: int
    last: int
    members: tuple[int, ...] = ()
    spacing: int = 0
    before: float = 0.0
    after: float = 0.0
    gradual: bool = False


def stretches(excess: Floats, flagged: Bools, threshold: float) -> Ints:
    """First and last flagged index of every run of lengths above half the threshold that holds a flagged one: [m, 2].

    Half the threshold joins what noise would break apart where a slope crosses the threshold slowly; neighbours that
    missed the threshold by luck belong to the stretch if they exceed half its height.
    """
    joined = runs(flagged | (excess > threshold / 2))
    hits = np.flatnonzero(flagged)
    if not hits.size:
        return np.empty((0, 2), dtype=np.int64)
    low, high = np.searchsorted(hits, joined[:, 0]), np.searchsorted(hits, joined[:, 1], side="right")
    kept = high > low
    found = np.stack((hits[low[kept]], hits[high[kept] - 1]), axis=1)
    joined = joined[kept]
    for at in np.flatnonzero((joined != found).any(axis=1)).tolist():
        row, (start, stop) = found[at], joined[at].tolist()
        level = float(np.median(excess[row[0] : row[1] + 1])) / 2
        while row[0] > start and excess[row[0] - 1] > level:
            row[0] -= 1
        while row[1] < stop and excess[row[1] + 1] > level:
            row[1] += 1
    return found


def name_stretches(
    lengths: Ints, curve: Floats, excess: Floats, found: Ints, threshold: float
) -> tuple[list[Shape], list[Shape]]:
    """Sort stretches into (spikes, regimes, combs and periodic teeth; edges of steps).

    A stretch is a regime (a spike when one length wide) if cost jumps in and drops out by alike amounts. If it creeps
    in and drops out, or starts at the first length and is wider than FEW, the drop is a step: a cheaper route from
    there on. If it jumps in by far more than it drops out, it is two steps. Growth that the curve showed before the
    edge is taken out of both jumps first.
    """
    named, rest = teeth(lengths, found, excess)
    edges: list[Shape] = []
    heights: list[float] = excess.tolist()
    outline = Outline(lengths, curve)
    few = max(1, min(FEW, len(lengths) // 4))
    for first, last in rest.tolist():
        width = last - first + 1
        entry = outline.edge(first, inside=width)
        leaving = -outline.edge(last + 1, inside=-width)
        open_end = last + 1 == len(lengths)
        ends = not open_end and median(heights[last + 1 : last + 4]) <= threshold / 2
        whole = Shape("spike" if width == 1 else "regime", first, last, gradual=not ends and not open_end)
        begun = first == 0 and width > few  # it may as well have begun before the range
        if ends and (begun or (first > 0 and entry < CREEPING * leaving)):
            edges.append(_drop(outline, last, width))
        elif ends and first > 0 and leaving < LASTING * entry:
            before, after = outline.side(first - 1, -3), outline.side(first, width)
            edges += [Shape("rise", first - 1, first, before=before, after=after), _drop(outline, last, width)]
        else:
            named.append(whole)
    return named, edges


def _drop(outline: Outline, last: int, width: int) -> Shape:
    before, after = outline.side(last, -width), outline.side(last + 1, 3)
    return Shape("drop", last, last + 1, before=before, after=after)


def rises(lengths: Ints, curve: Floats, baseline: Floats, threshold: float, named: Sequence[Shape] = ()) -> list[Shape]:
    """Abrupt rises from which the curve never comes back: the baseline itself jumps beyond cubic growth.

    Rises at adjacent grid points are one. It may be a legitimate step or a regime that ends beyond the range. Where a
    `named` stretch begins, the baseline is that of the length after it, and growth up to there is taken out.
    """
    jumps = np.diff(baseline) - GROWTH * np.log(lengths[1:] / np.maximum(lengths[:-1], 1)) >= threshold
    found = []
    outline = Outline(lengths, curve)
    ends = {shape.first: shape.last + 1 for shape in named}
    for first, last in runs(jumps).tolist():
        beyond = min(ends.get(last + 1, last + 1), len(lengths) - 1)
        if baseline[last + 1] - baseline[first] < GROWTH * np.log(lengths[beyond] / max(lengths[first], 1)) + threshold:
            continue
        after = outline.side(last + 1, 3)
        lasting = float(baseline[last + 1])  # below `after` where a regime stands on the step
        after = after if after - lasting < threshold else lasting
        found.append(Shape("rise", first, last + 1, before=outline.side(first, -3), after=after))
    return found


class Outline:
    """A curve as plain numbers, for looking at a few neighbours of many edges: numpy is 10 times slower at that."""

    def __init__(self, lengths: Ints, curve: Floats) -> None:
        logs = np.log(np.maximum(lengths, 1))
        self.logs: list[float] = logs.tolist()
        self.costs: list[float] = curve.tolist()
        gaps = np.diff(logs)
        self.exponents: list[float] = (np.diff(curve) / np.where(gaps > 0, gaps, 1.0)).tolist()

    def edge(self, index: int, inside: int) -> float:
        """The jump in log cost between index - 1 and index, from medians of up to 3 near lengths a side, less growth.

        `inside` is the width of the stretch right of the edge, negative for one left of it. Growth is the median
        exponent over the 6 intervals before the edge, between 0 and 3, or 1 where there are none.
        """
        if not 0 < index < len(self.costs):
            return 0.0
        logs, costs = self.logs, self.costs
        before = self._near(index - 1, -3 if inside > 0 else inside)
        after = self._near(index, inside if inside > 0 else 3)
        slopes = self.exponents[max(0, index - 7) : index - 1]
        exponent = median(slopes) if slopes else 1.0
        distance = sum([logs[i] for i in after]) / len(after) - sum([logs[i] for i in before]) / len(before)
        rise = median([costs[i] for i in after]) - median([costs[i] for i in before])
        return rise - min(max(exponent, 0.0), GROWTH) * distance

    def side(self, index: int, reach: int) -> float:
        """Median log cost of up to `reach` near lengths from `index` on, leftwards if negative."""
        return median(self.costs[i] for i in self._near(index, reach))

    def _near(self, index: int, reach: int) -> list[int]:
        """Up to `reach` (at most 3) indices from `index` on whose lengths are within NEAR of the first one's."""
        stop = min(max(index + max(-3, min(3, reach)), -1), len(self.logs))
        here = self.logs[index]
        return [i for i in range(index, stop, 1 if reach > 0 else -1) if abs(self.logs[i] - here) <= _NEAR_LOG]


def teeth(lengths: Ints, found: Ints, excess: Floats) -> tuple[list[Shape], Ints]:
    """Combs and periodic teeth among the stretches, and the stretches that are neither."""
    named: list[Shape] = []
    rest = found
    while len(rest) >= PERIODIC_TEETH:
        spacing, chosen = _best_spacing(lengths[rest[:, 0]])
        if spacing == 0:
            break
        teeth = rest[chosen]
        members = tuple(np.flatnonzero(covered(teeth, len(lengths))).tolist())
        kind = "comb" if spacing <= COMB_SPACING else "periodic"
        named.append(Shape(kind, int(teeth[0, 0]), int(teeth[-1, 1]), members, spacing))
        rest = rest[~chosen]
    return named, rest


def _best_spacing(starts: Ints) -> tuple[int, Bools]:
    """The spacing and residue that hold the most starts, FILLED of their slots and enough teeth; 0 if none does."""
    gaps, counts = np.unique(np.diff(starts), return_counts=True)
    best, best_mask = 0, np.zeros(len(starts), dtype=bool)
    for spacing in _by_count(gaps, counts):
        residues, sizes = np.unique(starts % spacing, return_counts=True)
        mask = starts % spacing == residues[int(np.argmax(sizes))]
        teeth = starts[mask]
        enough = COMB_TEETH if spacing <= COMB_SPACING else PERIODIC_TEETH
        filled = len(teeth) / ((teeth[-1] - teeth[0]) // spacing + 1)
        if len(teeth) >= enough and filled >= FILLED and len(teeth) > best_mask.sum():
            best, best_mask = spacing, mask
    return best, best_mask


def _by_count(gaps: Ints, counts: Ints) -> Sequence[int]:
    """The 8 commonest gaps above 1, commonest first: more would only find coincidences."""
    order = np.argsort(-counts, kind="stable")
    return [int(gap) for gap in gaps[order][:8] if gap > 1]
