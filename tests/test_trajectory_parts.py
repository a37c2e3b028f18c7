"""The pieces of the analysis of trajectories: exact chances, the contains test, drift, arms."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from pykvbench.analysis.arms import read_arms
from pykvbench.analysis.contains import contains
from pykvbench.analysis.drift import steady_change
from pykvbench.analysis.exchange import budget_chance, repeats_needed, smallest_budget_p, time_chance
from pykvbench.analysis.synthetic_trajectories import Truth, run

PROBE = np.arange(480, 657, 16)
PAPER = np.array([9.2, 9.5, 89.2, 83.2, 97.0, 110.1, 99.9, 99.2, 98.9, 94.4, 8.8, 8.2]) * 1e9


def misplaced(slow: np.ndarray, group: np.ndarray) -> int:
    return sum(min(int(slow[group == g].sum()), int((~slow[group == g]).sum())) for g in np.unique(group))


def stretches(slow: np.ndarray) -> int:
    return 1 + int((slow[1:] != slow[:-1]).sum())


@pytest.mark.parametrize("chosen", [(0, 1, 2), (0, 1, 3), (0, 3, 6), (0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4)])
def test_chances_are_what_counting_all_sets_gives(chosen: tuple[int, ...]) -> None:
    group = np.repeat(np.arange(3), 3)

    def marked(picked: tuple[int, ...]) -> np.ndarray:
        slow = np.zeros(9, dtype=bool)
        slow[list(picked)] = True
        return slow

    slow = marked(chosen)
    sets = [marked(picked) for picked in combinations(range(9), len(chosen))]
    assert budget_chance(slow, group) == pytest.approx(
        np.mean([misplaced(other, group) <= misplaced(slow, group) for other in sets])
    )
    assert time_chance(slow) == pytest.approx(np.mean([stretches(other) <= stretches(slow) for other in sets]))


def test_the_smallest_p_is_that_of_one_slow_budget() -> None:
    assert smallest_budget_p(np.repeat(np.arange(12), 5)) == pytest.approx(12 / math.comb(60, 5))
    assert repeats_needed(6, 0.01) == 3
    assert repeats_needed(5, 0.01) == 4
    assert repeats_needed(1, 0.01) is None


@pytest.mark.parametrize("slow", [np.zeros(6, dtype=bool), np.ones(6, dtype=bool)])
def test_all_or_none_slow_is_no_surprise(slow: np.ndarray) -> None:
    assert time_chance(slow) == 1.0
    assert budget_chance(slow, np.repeat([0, 1], 3)) == 1.0


def test_the_papers_probe_excludes_a_cost_per_length() -> None:
    found = contains(PROBE, PAPER)
    assert found is not None
    assert found.sentence() == (
        "T(640) = 8.80 s < T(512) = 89.2 s although the 640-token run contains every step of the 512-token run: not a "
        "per-length cost"
    )


def test_contains_needs_more_than_the_spread_of_repeats() -> None:
    rng = np.random.default_rng(0)
    budgets = np.repeat(PROBE, 5)
    totals = budgets * np.exp(rng.normal(0.0, 0.03, len(budgets)))
    assert contains(budgets, totals) is None
    totals[budgets == 512] *= 1.5
    found = contains(budgets, totals)
    assert found is not None
    assert found.smaller == 512
    assert contains(budgets, budgets * np.exp(rng.normal(0.0, 0.5, len(budgets)))) is None


def test_without_repeats_only_a_large_reversal_counts_and_what_is_missing_is_left_out() -> None:
    assert contains(np.array([1, 2]), np.array([1.4, 1.0])) is None
    assert contains(np.array([1, 2]), np.array([1.6, 1.0])) is not None
    assert contains(np.array([1, 2]), np.array([1.6, np.nan])) is None
    assert contains(np.array([2, 1]), np.array([1.6, 1.0])) is None
    assert contains(np.zeros(0, dtype=np.int64), np.zeros(0)) is None


def test_drift_is_steady_and_a_slow_half_hour_is_not() -> None:
    rng = np.random.default_rng(1)
    at, noise = np.arange(60) * 1e9, rng.normal(0.0, 0.02, 60)
    sagging = steady_change(at, noise + np.linspace(0.0, np.log(1.1), 60), 0.1)
    assert sagging is not None
    assert sagging.change == pytest.approx(np.log(1.1), abs=0.03)
    assert steady_change(at, noise, 0.1) is None
    assert steady_change(at, noise + np.where(at > 35e9, 0.4, 0.0), 0.1) is None
    assert steady_change(at[:4], np.arange(4.0), 0.1) is None


def test_arms_are_split_by_prompt_and_know_first_visits() -> None:
    told = run(Truth(budgets=(4, 6), prompts=(2, 3), repeats=1, order="ascending", history="shared"), 0)
    arms, wrong, notes = read_arms(told, 0)
    assert ([arm.prompt for arm in arms], wrong, notes) == ([2, 3], 0, ())
    assert arms[0].lengths.tolist() == [3, 4, 5, 6, 7, 8]
    assert arms[0].steps.tolist() == [4, 6]
    assert arms[0].first_visit.tolist() == [[True] * 4 + [False] * 2, [False] * 4 + [True] * 2]
    assert arms[1].first_visit.tolist() == [[False] * 6, [False] * 5 + [True]]


def test_only_a_result_known_to_be_wrong_is_left_out() -> None:
    told = run(Truth(budgets=(4, 6), repeats=1), 0)
    lines = tuple({**line, "correct": known} for line, known in zip(told.trajectories, (None, False), strict=True))
    arms, wrong, _ = read_arms(replace(told, trajectories=lines), 0)
    assert (len(arms[0]), wrong) == (1, 1)
