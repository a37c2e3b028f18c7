"""What a step costs by its length, and what its trajectory adds: log step time taken apart by medians.

Every trajectory of an arm makes the first steps of every other, so levels are compared over lengths they share. Single
slow steps (a stall, a spike) move no median; a stretch that is slow in one trajectory and not in the others stays in
what remains, where `changes` finds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.arms import Arm
from pykvbench.analysis.contains import SIGMAS, spread_of
from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.levels import median_over_sweeps

BLOCK = 16  # steps whose median is one value: 1 % of stalled steps do not show in it
ROUNDS = 4
COLD = 16  # at most so many first steps of a trajectory are told apart as cold
COLD_RATIO = 1.05  # from which a first step counts as cold; well below any ratio that is claimed of a length
AFTER = 32  # steps after it that say what it should have cost


@dataclass(frozen=True)
class Decomposition:
    """log ns = curve[length] + what the trajectory added; the curve is what the fast trajectories cost."""

    curve: Floats  # [n]
    rest: Floats  # [T, n] log ns less the curve, NaN where missing or cold
    blocks: Floats  # [T, n / BLOCK] medians of the rest
    excess: Floats  # [T] log of the mean cost over the cost of the fast trajectories at the same lengths
    spread: float  # of excess among repeats of a budget, log
    cold: int  # how many first steps were left out
    cold_ratio: float  # what the first of them cost against the steps after it

    def threshold(self, min_ratio: float) -> float:
        """The log excess from which a trajectory is slow."""
        return max(float(np.log(min_ratio)), SIGMAS * self.spread)


def decompose(arm: Arm, skip_first_visits: bool, min_ratio: float) -> Decomposition:
    """Take one arm apart; `skip_first_visits` leaves out steps at lengths new to a process that has a history."""
    log_ns = np.log(arm.ns)
    if skip_first_visits:
        log_ns = np.where(arm.first_visit, np.nan, log_ns)
    cold, cold_ratio = _cold_steps(log_ns)
    log_ns[:, :cold] = np.nan
    shared = _shared(log_ns, arm.steps)
    levels = np.zeros(len(arm))
    for _ in range(ROUNDS):
        curve = median_over_sweeps(log_ns - levels[:, None])
        rest = log_ns - curve
        levels = np.nan_to_num(median_over_sweeps(rest[:, shared].T))
    blocks = _block_medians(rest)
    spread = spread_of([_mean_excess(blocks[arm.budget == budget]) for budget in np.unique(arm.budget)]) or 0.0
    threshold = max(float(np.log(min_ratio)), SIGMAS * spread)
    lower = _slow_majority(blocks - fast_level(levels, arm.budget, threshold), arm.budget, threshold)
    each = np.repeat(lower, BLOCK)[: len(curve)]
    curve, rest, blocks = curve + each, rest - each, blocks - lower
    excess = _mean_excess(blocks)
    fast = fast_level(excess, arm.budget, threshold)
    return Decomposition(curve + fast, rest - fast, blocks - fast, excess - fast, spread, cold, cold_ratio)


def _slow_majority(blocks: Floats, group: Ints, threshold: float) -> Floats:
    """How far the curve lies above the fast trajectories, below 0, where most became slow on the way: [n / BLOCK]."""
    lower = np.zeros(blocks.shape[1])
    for place, column in enumerate(blocks.T):
        known = ~np.isnan(column)
        if known.any():
            level = fast_level(column[known], group[known], threshold)
            lower[place] = level if level < -threshold else 0.0
    return lower


def fast_level(excess: Floats, group: Ints, threshold: float) -> float:
    """The middle of the fast trajectories: of those within the threshold of the fastest group or the fastest tenth."""
    lowest = min(float(np.median(excess[group == g])) for g in np.unique(group))
    lowest = min(lowest, float(np.quantile(excess, 0.1)))
    return float(np.median(excess[excess <= lowest + threshold]))


def _shared(log_ns: Floats, steps: Ints) -> slice:
    """The columns over which levels are compared: those that nine in ten trajectories reach, all if that is none."""
    reached = slice(0, max(1, int(np.quantile(steps, 0.1))))
    return slice(0, log_ns.shape[1]) if np.isnan(log_ns[:, reached]).all() else reached


def _cold_steps(log_ns: Floats) -> tuple[int, float]:
    """How many first steps cost COLD_RATIO times the steps that follow, in most trajectories, and the first's ratio."""
    n = log_ns.shape[1]
    ratios = []
    for step in range(min(COLD, n // 4)):
        after = median_over_sweeps(log_ns[:, step + 1 : step + 1 + AFTER].T)
        ratios.append(float(np.nan_to_num(median_over_sweeps((log_ns[:, step] - after)[:, None])[0])))
    cold = 0
    while cold < len(ratios) and ratios[cold] > np.log(COLD_RATIO):
        cold += 1
    return cold, float(np.exp(ratios[0])) if cold else 1.0


def _block_medians(rest: Floats) -> Floats:
    count, n = rest.shape
    size = -(-n // BLOCK)
    padded = np.full((count, size * BLOCK), np.nan)
    padded[:, :n] = rest
    return median_over_sweeps(padded.reshape(count * size, BLOCK).T).reshape(count, size)


def _mean_excess(blocks: Floats) -> Floats:
    known = ~np.isnan(blocks)
    weight = np.maximum(known.sum(axis=1), 1)
    mean = np.where(known, np.exp(np.where(known, blocks, 0.0)), 0.0).sum(axis=1) / weight
    return np.log(np.where(known.any(axis=1), mean, 1.0))
