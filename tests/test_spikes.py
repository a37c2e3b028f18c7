"""The detector on sweeps with known truth: exactness, calibration, invariances, and what it declines to say."""

import numpy as np
import pytest

from pykvbench.analysis.spikes import detect, first_visits
from pykvbench.analysis.synthetic import Noise, fast_comb, slow, stairs, sweeps

LENGTHS = np.arange(380, 531)
SEEDS = range(20)


def stretch(first: int, last: int, ratio: float) -> dict[int, float]:
    return dict.fromkeys(range(first, last + 1), ratio)


def run(cost, seed, **options):
    return detect(LENGTHS, sweeps(cost, seed, **options))


@pytest.mark.parametrize(
    "first, last, ratio",
    [
        (421, 421, 1.15),
        (421, 421, 1.3),
        (421, 421, 21.0),
        (421, 422, 1.15),
        (421, 422, 1.3),
        (440, 446, 1.15),
        (440, 446, 1.3),
        (430, 469, 1.15),
        (430, 469, 1.3),
        (430, 469, 21.0),
        (380, 380, 1.15),
        (380, 380, 1.3),
        (530, 530, 1.15),
        (530, 530, 1.3),
    ],
)
def test_what_is_slow_is_found_exactly_and_nothing_else(first, last, ratio):
    for seed in SEEDS:
        found = run(stairs(LENGTHS) * slow(LENGTHS, stretch(first, last, ratio)), seed)
        assert [(f.lengths, f.kind, f.confidence) for f in found.findings] == [
            ((first, last), "spike" if first == last else "regime", "confirmed")
        ], seed
        assert found.findings[0].ratio == pytest.approx(ratio, rel=0.1)
        assert found.verdict == "non-monotonic"


@pytest.mark.parametrize(
    "cost, noise",
    [
        (stairs(LENGTHS), Noise()),
        (fast_comb(LENGTHS), Noise()),
        (stairs(LENGTHS), Noise(sample=0.15)),
        (stairs(LENGTHS), Noise(drift=0.3)),
    ],
    ids=["quiet", "comb", "noisy", "drift"],
)
def test_at_most_3_percent_of_null_runs_raise_an_alarm(cost, noise):
    assert sum(bool(run(cost, seed, noise=noise).findings) for seed in range(200)) <= 6


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_growth_is_never_flagged(exponent):
    for first in (8, 380):
        lengths = np.arange(first, first + 151)
        for seed in SEEDS:
            assert detect(lengths, sweeps(50_000.0 * (lengths / first) ** exponent, seed)).findings == ()


def test_a_regime_that_runs_to_the_end_is_an_unexplained_step():
    for first in (470, 528, 529):
        for seed in SEEDS:
            found = run(stairs(LENGTHS) * slow(LENGTHS, stretch(first, 530, 1.4)), seed)
            (finding,) = found.findings
            assert (finding.kind, finding.lengths, found.verdict) == ("step", (first - 1, first), "unresolved")
            assert finding.ratio == pytest.approx(1.4, rel=0.1)
    assert "does not come back by 530" in finding.note
    assert finding.note.endswith("run --len 380:680 to tell.")


@pytest.mark.parametrize("ratio", [0.6, 0.85])
@pytest.mark.parametrize("slope", [1.0, 2.0], ids=["flat", "rising"])
def test_a_lasting_drop_is_one_step_with_both_costs(ratio, slope):
    for seed in SEEDS:
        cost = stairs(LENGTHS) * np.linspace(1.0, slope, 151) * slow(LENGTHS, stretch(450, 530, ratio))
        found = run(cost, seed)
        (finding,) = found.findings
        assert (finding.kind, finding.lengths, found.verdict) == ("step", (449, 450), "non-monotonic"), seed
        assert finding.ratio == pytest.approx(ratio, rel=0.06)
    assert finding.note.startswith("length 450 costs ")
    assert " us, length 449 " in finding.note
    assert "longer caches are cheaper from 450 on" in finding.note


def test_a_step_from_the_first_length_on_admits_that_it_may_have_begun_earlier():
    found = run(stairs(LENGTHS) * slow(LENGTHS, stretch(450, 530, 0.6)), 0)
    assert found.findings[0].note.endswith("this range cannot tell it from a regime that began before 380.")


def test_a_spike_before_a_drop_is_found_too():
    for seed in SEEDS:
        found = run(stairs(LENGTHS) * slow(LENGTHS, {421: 21.0, **stretch(450, 530, 0.8)}), seed)
        assert [(f.kind, f.lengths) for f in found.findings] == [("spike", (421, 421)), ("step", (449, 450))]


def test_teeth_are_one_finding_that_names_spacing_and_residue():
    wide = np.arange(64, 1025)
    for seed in SEEDS:
        odd = run(stairs(LENGTHS) * np.where(LENGTHS % 2, 2.0, 1.0), seed)
        assert [(f.kind, f.lengths, f.votes) for f in odd.findings] == [("comb", (381, 529), "5/5")]
        far = detect(wide, sweeps(50_000.0 * np.where(wide % 256 == 1, 1.5, 1.0), seed))
        assert [(f.kind, f.lengths) for f in far.findings] == [("periodic", (257, 769))]
    assert odd.findings[0].note.startswith("lengths with remainder 1 modulo 2 from 381 to 529 cost ")
    assert "remainder 1 modulo 256 from 257 to 769" in far.findings[0].note


def test_the_sentence_of_a_spike_compares_with_a_length_that_is_fine():
    found = detect(LENGTHS, np.full((5, 151), 50_000.0) * slow(LENGTHS, {421: 21.3}))
    (finding,) = found.findings
    assert finding.note == "length 421 costs 21.3x what length 422 costs (1.06 ms against 50.0 us)."
    assert finding.votes == "5/5"
    assert finding.ratio == pytest.approx(21.3)


def test_a_spike_on_the_last_length_says_that_nothing_longer_was_measured():
    (finding,) = run(stairs(LENGTHS) * slow(LENGTHS, {530: 1.5}), 0).findings
    assert finding.note.endswith("nothing longer was measured, so run --len 380:680 to tell a spike from a step.")


def test_smallest_p_is_the_analytic_value():
    found = detect(LENGTHS, np.full((5, 151), 50_000.0))
    assert found.smallest_p == pytest.approx(151 * (1 / 153) ** 5)
    assert found.limit_of_detection == pytest.approx(1.10)
    assert (found.verdict, found.findings, found.notes) == ("smooth", (), ())


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_sweeps_decline_even_where_a_spike_stares(count):
    found = run(stairs(LENGTHS) * slow(LENGTHS, {421: 21.0}), 0, count=count)
    assert (found.verdict, found.findings, found.limit_of_detection, found.smallest_p) == ("unresolved", (), None, None)
    assert found.notes[0].startswith("cannot tell, needs 3 or more sweeps")


def test_too_few_lengths_for_the_sweeps_say_how_many_sweeps_are_needed():
    found = detect(np.array([128, 256, 512]), np.full((3, 3), 5.0))
    assert found.smallest_p == pytest.approx(3 * (1 / 5) ** 3)
    assert found.verdict == "unresolved"
    assert found.notes == ("cannot tell, needs 4 or more sweeps: 3 sweeps agreeing by chance is too likely.",)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_any_number_of_lengths_is_accepted(n):
    found = detect(np.arange(480, 480 + n), np.full((5, n), 50_000.0))
    assert found.findings == ()
    assert found.verdict == ("smooth" if n > 1 else "unresolved")


def test_coarse_grids_keep_their_growth_and_their_spikes():
    lengths = np.array([128, 256, 384, 512, 640, 768])
    for seed in SEEDS:
        cost = 400.0 * lengths
        noise = Noise(window=0.0)
        assert detect(lengths, sweeps(cost, seed, noise=noise)).findings == ()
        found = detect(lengths, sweeps(cost * slow(lengths, {512: 9.0}), seed, noise=noise))
        assert [(f.kind, f.lengths) for f in found.findings] == [("spike", (512, 512))]
        end = detect(lengths, sweeps(cost * slow(lengths, {768: 9.0}), seed, noise=noise))
        assert [(f.kind, f.lengths) for f in end.findings] == [("step", (640, 768))]


def test_scaling_process_levels_and_permuting_sweeps_change_nothing():
    visits = sweeps(stairs(LENGTHS) * slow(LENGTHS, {421: 1.3, **stretch(440, 446, 1.3)}), 3)

    def said(values):
        return [(f.kind, f.lengths, f.votes, round(f.ratio, 6)) for f in detect(LENGTHS, values).findings]

    plain = said(visits)
    assert len(plain) == 2
    assert said(visits * 1000.0) == plain
    assert said(visits * np.array([1.0, 1.1, 0.95, 1.05, 1.2])[:, None]) == plain
    assert said(visits[[3, 1, 4, 0, 2]]) == plain


def test_one_slow_visit_is_no_spike_and_repeated_evidence_does_not_raise_p():
    visits = sweeps(stairs(LENGTHS), 4)
    visits[2, 50] *= 100.0
    assert detect(LENGTHS, visits).findings == ()
    slowed = sweeps(stairs(LENGTHS) * slow(LENGTHS, {421: 1.5}), 4)
    five, six = detect(LENGTHS, slowed), detect(LENGTHS, np.vstack((slowed, slowed[:1])))
    assert six.findings[0].p <= five.findings[0].p


def test_missing_visits_and_unfinished_sweeps_are_tolerated():
    for seed in SEEDS:
        visits = sweeps(stairs(LENGTHS) * slow(LENGTHS, {421: 1.4}), seed, count=6)
        rng = np.random.default_rng(seed)
        visits[3, rng.permutation(151)[:75]] = np.nan
        visits[5] = np.nan
        visits[:, 7] = np.nan
        visits[:5, 41] = np.where([True, True, True, True, False], visits[:5, 41], np.nan)
        visits[3, 41] = visits[3, 41] if not np.isnan(visits[3, 41]) else visits[0, 41]
        found = detect(LENGTHS, visits)
        assert [(f.kind, f.lengths, f.votes) for f in found.findings] == [("spike", (421, 421), "4/4")]
        assert np.isnan(found.median_ns[7]) and not np.isnan(found.median_ns[8])
        assert found.notes == ("1 of 151 lengths has no time that can be used, the first 387.",)


def test_lengths_with_fewer_than_3_visits_are_named():
    visits = np.full((5, 151), 50_000.0)
    visits[:3, 10] = np.nan
    assert detect(LENGTHS, visits).notes == (
        "1 lengths have fewer than 3 visits and cannot be judged, the first 390; resume the run to fill them in.",
    )


def test_a_restarted_process_has_its_own_level():
    visits = np.full((5, 151), 50_000.0)
    process = np.repeat(np.arange(5), 151).reshape(5, 151)
    rng = np.random.default_rng(0)
    for sweep in (0, 1, 2):
        later = rng.permutation(151)[:70]
        process[sweep, later] = 10 + sweep
        visits[sweep, later] *= 2.0
    found = detect(LENGTHS, visits, process)
    (finding,) = found.findings
    assert (finding.kind, finding.votes, finding.lengths) == ("intermittent", "3/8", (380, 530))


def test_a_slow_mode_of_whole_processes_is_intermittent_and_unresolved():
    hits = 0
    for seed in SEEDS:
        factors = np.ones((5, 151))
        factors[:2] = 2.0
        found = run(stairs(LENGTHS) * factors, seed)
        assert {(f.kind, f.lengths) for f in found.findings} <= {("intermittent", (380, 530))}
        hits += [f.votes for f in found.findings] == ["2/5"] and found.verdict == "unresolved"
    assert hits >= 18


@pytest.mark.parametrize("count, least", [(10, 0.4), (15, 0.7)])
def test_a_fault_in_some_processes_is_intermittent(count, least):
    hits = 0
    for seed in range(40):
        factors = np.ones((count, 151))
        factors[np.random.default_rng(1000 + seed).random(count) < 0.4, 41] = 5.0
        found = run(stairs(LENGTHS) * factors, seed, count=count)
        hits += any(f.kind == "intermittent" and f.lengths == (421, 421) for f in found.findings)
    assert hits >= least * 40


def test_a_range_slow_in_two_of_five_processes_is_intermittent():
    for seed in SEEDS:
        factors = np.ones((5, 151))
        factors[:2, 50:90] = 5.0
        found = run(stairs(LENGTHS) * factors, seed)
        (finding,) = found.findings
        assert (finding.kind, finding.votes, found.verdict) == ("intermittent", "2/5", "unresolved")
        assert abs(finding.lengths[0] - 430) <= 3 and abs(finding.lengths[1] - 469) <= 3
        assert finding.p <= 0.01


@pytest.mark.parametrize("samples, sigma", [(7, 0.03), (7, 0.15), (3, 0.05)])
def test_a_spike_at_the_limit_of_detection_is_found_and_one_far_below_is_not(samples, sigma):
    at, below = 0, 0
    noise = Noise(sample=sigma)
    for seed in range(40):
        limit = run(stairs(LENGTHS), seed, samples=samples, noise=noise).limit_of_detection
        for ratio in (limit, 1 + 0.35 * (limit - 1)):
            found = run(stairs(LENGTHS) * slow(LENGTHS, {421: ratio}), seed, samples=samples, noise=noise).findings
            hit = any(f.lengths == (421, 421) for f in found)
            at, below = (at + hit, below) if ratio == limit else (at, below + hit)
    assert at >= 38
    assert below <= 8


@pytest.mark.parametrize(
    "lengths, visits, message",
    [
        ([1, 2], [[1.0, 0.0]], "above 0"),
        ([1, 2], [[1.0, -1.0]], "above 0"),
        ([1, 2], [[1.0, np.inf]], "finite"),
        ([2, 1], [[1.0, 1.0]], "must rise"),
        ([1, 1], [[1.0, 1.0]], "must rise"),
        ([1, 2, 3], [[1.0, 1.0]], "do not fit"),
    ],
)
def test_impossible_input_is_refused(lengths, visits, message):
    with pytest.raises(ValueError, match=message):
        detect(np.array(lengths), np.array(visits))


def test_no_measurement_at_all_is_unresolved():
    found = detect(LENGTHS, np.full((5, 151), np.nan))
    assert (found.verdict, found.notes) == ("unresolved", ("no length was measured.",))


def test_first_visits_of_an_ordinary_cpu_say_nothing():
    for seed in SEEDS:
        steady = sweeps(stairs(LENGTHS), seed)
        first = steady * np.exp(np.abs(np.random.default_rng(seed).normal(0.15, 0.1, steady.shape)))
        first[:, 0] = np.where(np.arange(5) == 2, first[:, 0] * 50, first[:, 0])  # one process's very first call
        assert first_visits(LENGTHS, first, steady) == ()


def test_first_visits_that_cost_a_multiple_everywhere_are_one_finding_and_lone_ones_stand_out():
    for seed in SEEDS:
        steady = sweeps(stairs(LENGTHS), seed)
        every = steady * np.exp(np.random.default_rng(seed).normal(np.log(8.0), 0.1, steady.shape))
        (finding,) = first_visits(LENGTHS, every, steady)
        assert (finding.kind, finding.lengths, finding.votes) == ("first-visit", (380, 530), "5/5")
        assert finding.ratio == pytest.approx(8.0, rel=0.1)
        some = steady * slow(LENGTHS, {421: 30.0, 422: 30.0})
        (finding,) = first_visits(LENGTHS, some, steady)
        assert (finding.kind, finding.lengths, finding.votes) == ("first-visit", (421, 422), "5/5")
        assert finding.p <= 0.01
