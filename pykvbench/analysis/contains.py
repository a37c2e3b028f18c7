"""The contains test: a larger budget's run makes every step of a smaller one's, so lengths cannot make it faster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pykvbench.analysis import sentences
from pykvbench.analysis.finding import Floats, Ints

EXCLUDES = 1.5  # how much faster the larger budget must be where nothing says what the spread of repeats is
SIGMAS = 3.0
SEPARATED = 0.9  # share of pairs of repeats in which the larger budget must be faster


@dataclass(frozen=True)
class Contained:
    """A larger budget that took less time than a smaller one."""

    smaller: int
    larger: int
    smaller_ns: float
    larger_ns: float

    @property
    def ratio(self) -> float:
        """Cost of the smaller over cost of the larger budget, above 1."""
        return self.smaller_ns / self.larger_ns

    def sentence(self) -> str:
        """What a reader needs, without a full stop at its end."""
        return (
            f"T({self.larger}) = {sentences.cost(self.larger_ns)} < T({self.smaller}) = "
            f"{sentences.cost(self.smaller_ns)} although the {self.larger}-token run contains every step of the "
            f"{self.smaller}-token run: not a per-length cost"
        )


def contains(budgets: Ints, totals_ns: Floats, min_ratio: float = 1.10) -> Contained | None:
    """The first budget that costs more than a larger one beyond the spread of repeats, with the nearest such larger.

    budgets, totals_ns: [n] one entry a generation, in any order, after one and the same prompt; NaN is left out. The
    spread is that of budgets that repeat, 3 sigma of it count; without any, from EXCLUDES on. Pairs with less than half
    the largest excess (log) are passed over: beside a 10x they are noise.
    """
    known = np.isfinite(totals_ns)
    unique = np.unique(budgets[known])
    groups = [np.log(totals_ns[known & (budgets == budget)]) for budget in unique]
    if len(groups) < 2:
        return None
    spread = spread_of(groups)
    margin = np.log(EXCLUDES) if spread is None else max(np.log(min_ratio), SIGMAS * spread)
    centre = np.array([np.median(group) for group in groups])
    over = np.triu(centre[:, None] - centre[None, :], 1)  # [smaller, larger]
    for i, j in np.argwhere(over >= margin - 1e-9).tolist():
        if (groups[i][:, None] > groups[j][None, :]).mean() < SEPARATED:
            over[i, j] = 0.0
    pairs = np.argwhere(over >= max(margin - 1e-9, over.max() / 2))
    if not len(pairs):
        return None
    i, j = pairs[0]
    return Contained(int(unique[i]), int(unique[j]), float(np.exp(centre[i])), float(np.exp(centre[j])))


def spread_of(groups: list[Floats]) -> float | None:
    """Spread of one repeat around its group's middle, by MAD, widened for the middle being fitted; groups hold logs.

    None without repeats.
    """
    repeated = [group for group in groups if len(group) > 1]
    if not repeated:
        return None
    around = np.concatenate([np.abs(group - np.median(group)) for group in repeated])
    size = float(np.median([len(group) for group in repeated]))
    return float(1.4826 * np.median(around) * np.sqrt(size / (size - 1)))
