"""What others on the machine do over several visits is taken out of them, and nothing else is."""

import numpy as np
import pytest

from pykvbench.analysis.levels import Levels, median_over_sweeps
from pykvbench.analysis.moments import remove_moments
from pykvbench.analysis.spikes import detect
from pykvbench.analysis.synthetic import BUSY, Noise, fast_comb, ordered_sweeps, slow, stairs

LENGTHS = np.arange(380, 531)


def levels(visits):
    return Levels(visits, median_over_sweeps(visits), 0.0, np.zeros(len(visits)))


def shuffles(count=5, n=151, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(n) for _ in range(count)]).astype(np.float64)


def stretch(first, last, ratio):
    return slow(LENGTHS, dict.fromkeys(range(first, last + 1), ratio))


def said(detection):
    return [(f.kind, f.lengths) for f in detection.findings]


def judged(cost, seed, noise=None, **options):
    visits, order = ordered_sweeps(cost, seed, noise=noise, **options)
    return detect(LENGTHS, visits, order=order)


def test_a_burst_is_removed_but_for_a_visit_or_two_at_each_edge():
    order = shuffles()
    visits = np.where((order >= 60) & (order < 80) & (np.arange(5) == 2)[:, None], 0.3, 0.0)
    left = remove_moments(levels(visits), order, None)
    assert np.flatnonzero(np.abs(left.visits).any(axis=0)).size <= 4
    assert (left.curve == 0).all()
    assert set(order[np.abs(left.visits) > 0]) <= {58, 59, 60, 61, 78, 79, 80, 81}


def test_a_visit_never_corrects_itself_not_even_at_the_ends_of_a_sweep():
    order = shuffles()
    rng = np.random.default_rng(1)
    visits = 0.2 * np.sin(order / 8) + rng.normal(0.0, 0.01, order.shape)
    before = remove_moments(levels(visits), order, None)
    for place in (0, 1, 2, 3, 75, 147, 148, 149, 150):
        at = (order == place) & (np.arange(5) == 3)[:, None]
        raised = visits + np.where(at, 1.0, 0.0)
        after = remove_moments(levels(raised), order, None)
        assert float((after.visits - before.visits)[at][0]) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    "sorted_order",
    [
        np.arange(151),
        np.arange(151)[::-1],
        np.argsort(np.r_[np.arange(0, 151, 2), np.arange(149, 0, -2)]),  # up by evens, down by odds
        np.argsort(np.r_[np.c_[np.arange(75), np.arange(75, 150)].ravel(), 150]),  # two ascending halves in turn
        np.argsort(np.r_[np.random.default_rng(0).permutation(75), 75 + np.random.default_rng(1).permutation(76)]),
    ],
    ids=["ascending", "descending", "zigzag", "alternating", "halves"],
)
def test_an_order_in_which_near_in_time_is_near_in_length_is_refused(sorted_order):
    order = np.tile(sorted_order.astype(np.float64), (5, 1))
    given = levels(0.2 * np.sin(order / 8))
    assert remove_moments(given, order, None) is given


def test_ascending_sweeps_are_judged_as_without_an_order():
    for seed in range(5):
        cost = stairs(LENGTHS) * stretch(430, 469, 1.3)
        visits, order = ordered_sweeps(cost, seed, noise=BUSY, shuffled=False)
        assert detect(LENGTHS, visits, order=order).findings == detect(LENGTHS, visits).findings


def test_few_visits_are_left_alone():
    order = shuffles(n=15)
    given = levels(np.where(order > 7, 0.3, 0.0))
    assert remove_moments(given, order, None) is given


def test_neighbours_are_of_the_same_process():
    order = shuffles()
    process = np.where(order < 70, 0.0, 1.0) + 2 * np.arange(5)[:, None]
    wander = 0.2 * np.sin(order / 8)
    alone = remove_moments(levels(np.where(order < 70, wander, 0.0)), order, process)
    assert (alone.visits[order >= 70] == 0).all()
    assert np.abs(alone.visits[order < 70]).mean() < 0.3 * np.abs(wander[order < 70]).mean()


def test_visits_without_a_place_are_left_alone_and_missing_ones_tolerated():
    rng = np.random.default_rng(3)
    order = shuffles()
    visits = 0.2 * np.sin(order / 8)
    visits[rng.random(visits.shape) < 0.2] = np.nan
    order[:, 40] = np.nan
    left = remove_moments(levels(visits), order, None)
    assert np.array_equal(left.visits[:, 40], visits[:, 40], equal_nan=True)
    assert np.array_equal(np.isnan(left.visits), np.isnan(visits))
    assert np.nanmean(np.abs(left.visits)) < 0.4 * np.nanmean(np.abs(visits))


def test_noise_that_does_not_last_is_left_alone():
    kept = 0
    for seed in range(20):
        visits = np.random.default_rng(seed).normal(0.0, 0.03, (5, 151))
        kept += (remove_moments(levels(visits), shuffles(seed=seed), None).visits == visits).all(axis=1).sum()
    assert kept >= 95


@pytest.mark.parametrize("noise, least", [(Noise(), 1.0), (BUSY, 0.9)], ids=["quiet", "busy"])
@pytest.mark.parametrize(
    "first, last, ratio",
    [(421, 421, 1.3), (421, 421, 21.0), (421, 422, 1.3), (440, 446, 1.3), (430, 469, 1.3), (430, 469, 21.0)]
    + [(380, 380, 1.3), (530, 530, 1.3), (430, 469, 1.15), (421, 421, 1.15)],
)
def test_faults_are_found_exactly_also_in_company(first, last, ratio, noise, least):
    kind = "spike" if first == last else "regime"
    found = [judged(stairs(LENGTHS) * stretch(first, last, ratio), seed, noise) for seed in range(10)]
    assert sum(said(detection) == [(kind, (first, last))] for detection in found) >= 10 * least


@pytest.mark.parametrize("noise", [Noise(), BUSY], ids=["quiet", "busy"])
def test_steps_and_teeth_are_found_exactly_also_in_company(noise):
    for seed in range(10):
        assert said(judged(stairs(LENGTHS) * stretch(470, 530, 1.4), seed, noise)) == [("step", (469, 470))]
        assert said(judged(stairs(LENGTHS) * stretch(450, 530, 0.8), seed, noise)) == [("step", (449, 450))]
        assert said(judged(stairs(LENGTHS) * np.where(LENGTHS % 2, 2.0, 1.0), seed, noise)) == [("comb", (381, 529))]
        teeth = np.where(LENGTHS % 32 == 1, 1.5, 1.0)
        assert said(judged(50_000.0 * teeth, seed, noise)) == [("periodic", (385, 513))]


def test_a_small_spike_that_company_hid_is_found():
    cost = stairs(LENGTHS) * stretch(421, 421, 1.15)
    hidden, found = 0, 0
    for seed in range(20):
        visits, order = ordered_sweeps(cost, seed, noise=BUSY)
        hidden += not detect(LENGTHS, visits).findings
        found += said(detect(LENGTHS, visits, order=order)) == [("spike", (421, 421))]
    assert hidden >= 18
    assert found >= 18


@pytest.mark.parametrize(
    "cost, noise",
    [
        (stairs(LENGTHS), Noise()),
        (stairs(LENGTHS), BUSY),
        (fast_comb(LENGTHS), BUSY),
        (stairs(LENGTHS), Noise(sample=0.15)),
        (stairs(LENGTHS), Noise(drift=0.3)),
    ],
    ids=["quiet", "busy", "busy comb", "noisy", "drift"],
)
def test_at_most_3_percent_of_null_runs_raise_an_alarm(cost, noise):
    assert sum(bool(judged(cost, seed, noise).findings) for seed in range(100)) <= 3


@pytest.mark.parametrize("ratio", [1.4, 5.0])
def test_a_range_slow_in_two_of_five_processes_stays_intermittent(ratio):
    for seed in range(10):
        factors = np.ones((5, 151))
        factors[:2, 50:90] = ratio
        (finding,) = judged(stairs(LENGTHS) * factors, seed).findings
        assert (finding.kind, finding.votes) == ("intermittent", "2/5")
        assert abs(finding.lengths[0] - 430) <= 3 and abs(finding.lengths[1] - 469) <= 3


def test_a_slow_mode_of_whole_processes_stays_one_finding():
    factors = np.ones((5, 151))
    factors[:2] = 2.0
    found = [said(judged(stairs(LENGTHS) * factors, seed)) for seed in range(20)]
    assert found.count([("intermittent", (380, 530))]) >= 18


def test_scaling_permuting_sweeps_renumbering_and_reversing_time_change_nothing():
    cost = stairs(LENGTHS) * stretch(421, 421, 1.3) * stretch(440, 446, 1.3)
    visits, order = ordered_sweeps(cost, 3, noise=BUSY)

    def told(values, places):
        found = detect(LENGTHS, values, order=places)
        return [(f.kind, f.lengths, f.votes, round(f.ratio, 6)) for f in found.findings], round(
            found.limit_of_detection, 6
        )

    plain = told(visits, order)
    assert len(plain[0]) == 2
    some = [3, 1, 4, 0, 2]
    assert told(visits * 1000.0, order) == plain
    assert told(visits * np.array([1.0, 1.1, 0.95, 1.05, 1.2])[:, None], order) == plain
    assert told(visits[some], order[some]) == plain
    assert told(visits, 3 * order + 7) == plain
    assert told(visits, -order) == plain


def test_without_noise_everything_is_exact():
    visits = np.full((5, 151), 50_000.0) * stretch(430, 469, 1.15)
    found = detect(LENGTHS, visits, order=shuffles())
    assert said(found) == [("regime", (430, 469))]
    assert found.limit_of_detection == pytest.approx(1.10)
    assert found.median_ns == pytest.approx(visits[0])


def test_an_order_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"places of shape \(5, 150\) do not fit sweeps of shape \(5, 151\)"):
        detect(LENGTHS, np.full((5, 151), 1.0), order=np.zeros((5, 150)))
