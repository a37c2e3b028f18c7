"""Verdicts on runs whose truth is known, by simulation; no test times anything."""

import numpy as np
import pytest
from compared import LENGTHS, QUIET, run

from pykvbench.analysis.comparison import Comparison, judge, sweeps_needed
from pykvbench.analysis.pairs import Named, compare_run, compare_runs
from pykvbench.analysis.resample import Interval, middle, ratios, widening
from pykvbench.analysis.synthetic import Noise, stairs, sweeps

BASE = stairs(LENGTHS)
FEW = BASE[::5]  # enough lengths for the median over them


def one(*curves: np.ndarray, **options: object) -> Comparison:
    (comparison,) = compare_run(run(curves, **options)).comparisons  # type: ignore[arg-type]
    return comparison


def test_the_middle_leaves_out_what_is_missing() -> None:
    nan = float("nan")
    values = np.array([[1.0, nan, 4.0], [2.0, nan, nan], [9.0, nan, 8.0]])
    assert middle(values)[[0, 2]].tolist() == [2.0, 6.0]
    assert np.isnan(middle(values)[1])


def test_intervals_widen_as_students_t_does() -> None:
    for sweeps_, quantile in ((3, 4.303), (4, 3.182), (5, 2.776), (9, 2.306), (30, 2.045)):
        expected = quantile / 1.959964 * np.sqrt(sweeps_ / (sweeps_ - 1))
        assert widening(sweeps_) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.05, 1.10, "SLOWER"),
        (1.025, 1.06, "AMBIGUOUS"),
        (0.90, 0.95, "FASTER"),
        (0.99, 1.015, "SAME"),
        (1.01, 1.03, "AMBIGUOUS"),
        (0.97, 0.99, "AMBIGUOUS"),
        (0.5, 2.0, "AMBIGUOUS"),
    ],
)
def test_an_interval_decides_only_when_it_lies_on_one_side_of_the_floor(low: float, high: float, verdict: str) -> None:
    assert judge(Interval(np.sqrt(low * high), low, high), 5) == verdict


def test_the_sweeps_needed_follow_the_width_of_the_interval() -> None:
    assert sweeps_needed(Interval(1.0, 1 / 1.04, 1.04), 5) == 20  # twice the floor: four times the sweeps
    assert sweeps_needed(Interval(1.02, 0.9, 1.1), 5) == 100
    assert sweeps_needed(Interval(1.5, 1.01, 2.0), 5) == 6


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_a_against_a_is_the_same_and_never_slower_or_faster(paired: bool) -> None:
    verdicts = []
    for seed in range(200):
        a, b = (sweeps(FEW, 2 * seed + side, noise=QUIET) for side in range(2))
        verdicts.append(judge(ratios(a, b, paired).overall(), 5))
    assert verdicts.count("SAME") >= 190
    assert set(verdicts) <= {"SAME", "AMBIGUOUS"}


@pytest.mark.slow
def test_a_against_a_under_a_bursty_load_is_hardly_ever_wrong() -> None:
    verdicts = []
    for seed in range(200):
        a, b = (sweeps(FEW, 2 * seed + side, noise=Noise()) for side in range(2))
        verdicts.append(judge(ratios(a, b, True).overall(), 5))
    assert len([v for v in verdicts if v in ("SLOWER", "FASTER")]) <= 2


def test_the_interval_covers_a_known_ratio() -> None:
    covered = 0
    for seed in range(100):
        a, b = (sweeps(FEW * factor, 2 * seed + i, noise=Noise()) for i, factor in enumerate((1.0, 1.3)))
        interval = ratios(a, b, True).overall()
        covered += interval.low <= 1.3 <= interval.high
    assert covered >= 95


def test_a_slower_cell_is_slower_and_the_faster_one_faster() -> None:
    slower, faster = one(BASE, 1.3 * BASE), one(1.3 * BASE, BASE)
    assert (slower.verdict, faster.verdict) == ("SLOWER", "FASTER")
    assert slower.overall is not None
    assert slower.overall.low < 1.3 < slower.overall.high
    assert slower.reason.endswith(" the time, over 5 pairs of sweeps.")
    assert slower.crossovers == ()
    assert slower.is_slower_by(0.05)
    assert not slower.is_slower_by(0.5)
    assert not faster.is_slower_by(0.05)


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (1, "1 sweep cannot tell a difference from noise; at least 3 are needed, better 5."),
        (2, "2 sweeps cannot tell a difference from noise; at least 3 are needed, better 5."),
    ],
)
def test_too_few_sweeps_decline(count: int, reason: str) -> None:
    comparison = one(BASE, 1.3 * BASE, count=count)
    assert (comparison.verdict, comparison.reason) == ("AMBIGUOUS", reason)
    assert comparison.overall is None
    assert not comparison.is_slower_by(0.0)


def test_processes_that_disagree_are_ambiguous_and_the_reason_says_how_many_would_tell() -> None:
    comparison = one(BASE, BASE, noise=Noise(process=0.05))
    assert comparison.verdict == "AMBIGUOUS"
    assert ": neither surely within 2% nor surely beyond it; " in comparison.reason
    assert comparison.reason.endswith(" as noisy as these would tell.")


@pytest.mark.slow
def test_a_crossover_lies_within_its_interval() -> None:
    """From 15 % faster to 15 % slower, crossing at 455, with processes that differ by 1 %."""
    tilted = BASE * np.exp(np.linspace(-0.15, 0.15, len(LENGTHS)))
    found = []
    for seed in range(40):
        crossovers = one(BASE, tilted, seed=seed, noise=Noise(process=0.01, window=0.0)).crossovers
        assert [crossing.second_becomes for crossing in crossovers] == ["slower"]
        found.append(crossovers[0])
    assert sum(crossing.low <= 455 <= crossing.high for crossing in found) >= 38
    assert np.median([crossing.high - crossing.low for crossing in found]) < 40


def test_curves_that_jump_past_each_other_cross_at_the_jump_and_the_verdict_depends_on_the_length() -> None:
    jump = BASE * np.where(LENGTHS < 471, 0.8, 1.25)
    comparison = one(BASE, jump)
    (crossing,) = comparison.crossovers
    assert crossing.length == 471
    assert 465 <= crossing.low <= 471 <= crossing.high <= 477
    assert comparison.verdict == "AMBIGUOUS"
    assert comparison.reason.startswith("it depends on the length: the curves cross at 471; ")
    assert [part.verdict for part in comparison.stretches][0] == "FASTER"
    assert [part.verdict for part in comparison.stretches][-1] == "SLOWER"


@pytest.mark.slow
def test_a_spike_in_one_arm_is_named_for_that_arm_only() -> None:
    for seed in range(20):
        spiked = np.where(LENGTHS == 421, 20 * BASE, BASE)
        comparison = one(BASE, spiked, seed=seed)
        (contrast,) = comparison.contrasts
        assert contrast.is_headline
        assert contrast.first is None
        assert contrast.finding.lengths == (421, 421)
        assert comparison.verdict != "FASTER"
        assert comparison.is_slower_by(0.05)  # for a continuous integration a new spike is a regression


def test_a_spike_in_both_is_one_finding_of_both() -> None:
    spiked = np.where(LENGTHS == 421, 20 * BASE, BASE)
    (contrast,) = one(spiked, 1.1 * spiked).contrasts
    assert contrast.first is not None
    assert contrast.second is not None
    assert not contrast.is_headline


def test_a_spike_is_not_called_absent_where_it_could_not_have_been_seen() -> None:
    spiked = np.where(LENGTHS == 421, 1.2 * BASE, BASE)
    quiet, noisy = run([spiked]), run([BASE], noise=Noise(sample=0.4))
    (comparison,) = compare_runs([Named("quiet", quiet), Named("noisy", noisy)]).comparisons
    assert [contrast.missing for contrast in comparison.contrasts] == ["unseen"]


def test_only_lengths_of_both_are_compared() -> None:
    half = LENGTHS[::2]
    runs = run([BASE]), run([1.1 * BASE[::2]], lengths=half)
    (comparison,) = compare_runs([Named("a", runs[0]), Named("b", runs[1])]).comparisons
    assert comparison.lengths.tolist() == half.tolist()
    assert comparison.verdict == "SLOWER"
    assert comparison.reason.endswith("over 5 sweeps a side.")
