"""All trajectories of one cell side by side, whatever their prompt: which are slow, which budgets, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.arms import Arm
from pykvbench.analysis.contains import SIGMAS
from pykvbench.analysis.decomposition import Decomposition, fast_level
from pykvbench.analysis.drift import Drift, steady_change
from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.votes import Bools, runs

ORDERED = 0.8  # rank correlation of budget with order of measurement from which the two are the same thing


@dataclass(frozen=True)
class Fleet:
    """One entry a trajectory, [T], in the order of measurement."""

    prompt: Ints
    budget: Ints
    repeat: Ints
    time_ns: Floats  # its middle, since the run began
    excess: Floats  # log cost over the fast trajectories of its arm at the same lengths, drift taken out
    group: Ints  # number of its (prompt, budget), by rising prompt and budget
    spread: float  # of excess among repeats, log
    threshold: float  # of excess, log
    drift: Drift | None
    ordered: bool  # budgets rose with time, so that the two cannot be told apart

    @property
    def slow(self) -> Bools:
        """Which trajectories are slow: [T]."""
        return self.excess > self.threshold

    @property
    def repeats(self) -> int:
        """How often the least repeated budget was measured."""
        return int(np.bincount(self.group).min())

    def slow_groups(self) -> Bools:
        """Which (prompt, budget) are slow in most of their repeats: [groups]."""
        return np.bincount(self.group, weights=self.slow) * 2 > np.bincount(self.group)

    def slow_spans(self) -> list[tuple[int, int, int]]:
        """Prompt, first and last budget of every stretch of adjacent slow budgets, by prompt."""
        marked, spans = self.slow_groups(), []
        for prompt in np.unique(self.prompt).tolist():
            budgets, first = np.unique(self.budget[self.prompt == prompt], return_index=True)
            flags = marked[self.group[self.prompt == prompt][first]]
            spans += [(prompt, int(budgets[a]), int(budgets[b])) for a, b in runs(flags).tolist()]
        return spans


def gather(arms: list[Arm], parts: list[Decomposition], min_ratio: float) -> Fleet:
    """Put the arms of a cell together; at least one arm."""
    order = np.argsort(np.concatenate([arm.order for arm in arms]), kind="stable")
    prompt = np.repeat([arm.prompt for arm in arms], [len(arm) for arm in arms])[order]
    budget = np.concatenate([arm.budget for arm in arms])[order]
    time_ns = np.concatenate([arm.middle_ns for arm in arms])[order]
    excess = np.concatenate([part.excess for part in parts])[order]
    spread = max(part.spread for part in parts)
    threshold = max(float(np.log(min_ratio)), SIGMAS * spread)
    pairs = np.stack((prompt, budget), axis=1)
    group = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    drift = steady_change(time_ns, excess, threshold)
    if drift is not None:
        excess = excess - drift.slope * time_ns
        excess = excess - fast_level(excess, group, threshold)
    repeat = np.concatenate([arm.repeat for arm in arms])[order]
    return Fleet(prompt, budget, repeat, time_ns, excess, group, spread, threshold, drift, _ordered(prompt, budget))


def _ordered(prompt: Ints, budget: Ints) -> bool:
    """Whether budgets rise (or fall) with the order of measurement, after every prompt."""
    strengths = []
    for value in np.unique(prompt):
        mine = budget[prompt == value].astype(np.float64)
        if len(np.unique(mine)) < 2:
            return False
        strengths.append(abs(float(np.corrcoef(_ranks(mine), np.arange(len(mine)))[0, 1])))
    return min(strengths) >= ORDERED


def _ranks(values: Floats) -> Floats:
    """Ranks with ties at their mean: [n]."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[place.reshape(-1)])
