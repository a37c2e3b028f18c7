"""What one pass may say, and that it says no more."""

import numpy as np
import pytest

from pykvbench.analysis.series import analyze_series
from pykvbench.analysis.synthetic import slow, stairs, sweeps
from pykvbench.analysis.table import Table

LOG = 2 ** np.arange(7, 17)
GRID = np.arange(128, 4097, 128)
DENSE = np.arange(380, 531)


def analyze(x, ms, kind="length", **columns):
    return analyze_series(
        Table(
            kind,
            np.asarray(x, dtype=np.int64),
            np.asarray(ms, dtype=float) * 1e6,
            columns.get("sweep"),
            columns.get("order"),
        )
    )


def said(result):
    return [(finding.kind, finding.lengths) for finding in result.findings]


@pytest.mark.parametrize(
    "x, ms",
    [
        (LOG, LOG**2.0),
        (GRID, GRID**2.0),
        (LOG, 1000.0 + LOG),
        (GRID, np.ceil(GRID / 512)),
        (GRID, np.ceil(GRID / 1024)),
        (LOG, np.ceil(LOG / 256)),
        (GRID, np.maximum(1.0, GRID / 2000)),
        (LOG, LOG * np.where(LOG == 4096, 1.28, 1.0)),
        (LOG, 1.0 + (LOG / 4000.0) ** 3),
        (GRID, 1.0 + 0.01 * (np.arange(32) % 2)),
    ],
    ids=[
        "quadratic",
        "quadratic",
        "affine",
        "stairs",
        "wide stairs",
        "stairs",
        "floor",
        "bump",
        "floor then cubic",
        "even/odd",
    ],
)
def test_legitimate_curves_are_smooth(x, ms):
    result = analyze(x, ms)
    assert (result.verdict, said(result)) == ("smooth", [])


@pytest.mark.parametrize(
    "x, ms, expected",
    [
        (DENSE, np.where(DENSE == 421, 2.0, 1.0), [("spike", (421, 421))]),
        (GRID, np.where(GRID == 128, 2.5, 1.0), [("first-visit", (128, 128))]),
        (GRID, np.where(GRID == 128, 1.5, 1.0), []),
        (LOG, LOG * np.where(LOG == 2048, 6.0, 1.0), [("spike", (2048, 2048))]),
        (LOG, LOG * np.where((LOG >= 1024) & (LOG <= 4096), 20.0, 1.0), [("regime", (1024, 4096))]),
        (LOG, LOG * np.where(LOG >= 8192, 40.0, 1.0), [("step", (4096, 8192))]),
        (GRID, (1000.0 + GRID) * np.where(GRID > 2000, 0.6, 1.0), [("step", (1920, 2048))]),
        (np.arange(1, 41), 1.0 + np.arange(1, 41) % 2, [("comb", (1, 39))]),
        (np.arange(64, 1025), np.where(np.arange(64, 1025) % 256 == 1, 1.5, 1.0), [("periodic", (257, 769))]),
        (np.arange(20), 1.0 + 0.08 * np.arange(20) / 19, [("drift", (0, 19))]),
    ],
)
def test_what_stands_out_is_apparent_and_unresolved(x, ms, expected):
    result = analyze(x, ms * np.exp(np.random.default_rng(0).normal(0, 0.002, len(x))))
    assert said(result) == expected
    assert all(finding.confidence == "apparent" for finding in result.findings)
    assert result.verdict == ("unresolved" if expected else "smooth")
    assert "a length cannot be told from the time at which it was measured" in result.cells[0].notes[0]
    assert result.cells[0].limit_of_detection is None


def test_jitter_is_seldom_called_anything():
    calls = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        calls += bool(analyze(DENSE, np.exp(rng.normal(0, 0.03, 151))).findings)
        calls += bool(analyze(GRID, GRID * np.exp(rng.normal(0, 0.05, 32))).findings)
    assert calls <= 10


def test_a_first_length_known_to_be_measured_later_is_no_first_call():
    order = np.roll(np.arange(32), 5)
    result = analyze(GRID, np.where(GRID == 128, 2.5, 1.0), order=order)
    assert said(result) == [("spike", (128, 128))]


def test_unstable_repeats_silence_every_length():
    result = analyze([128, 128, 256, 256, 512, 512], [1, 2, 5, 9, 1, 2.4])
    assert said(result) == [("unstable", (128, 512))]
    assert result.findings[0].ratio == pytest.approx(2.4)
    assert result.verdict == "unresolved"


def test_a_larger_budget_that_is_faster_clears_the_length():
    result = analyze([480, 496, 512, 528, 640, 656], [9200, 9500, 89200, 83200, 8800, 8200], kind="budget")
    assert result.verdict == "state"
    state = next(finding for finding in result.findings if finding.kind == "state")
    assert state.note == (
        "T(640) = 8.80 s < T(512) = 89.2 s although the 640-token run contains every step of the 512-token run: "
        "not a per-length cost."
    )
    assert ("regime", (512, 528)) in said(result)


def test_a_small_inversion_of_budgets_stays_unresolved():
    result = analyze([128, 256, 384, 512, 640, 768], [6.8, 20.6, 42.7, 161.6, 139.0, 196.6], kind="budget")
    assert result.verdict == "unresolved"
    assert result.findings[-1].note.endswith("not a per-length cost, if that is beyond the spread between runs.")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_lengths_are_unresolved(count):
    if count:
        assert analyze(GRID[:count], np.ones(count)).verdict == "unresolved"


def shuffled_table(cost, seed, mixed=True):
    visits = sweeps(cost, seed)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(151) if mixed else np.arange(151) for _ in range(5)]
    x = np.concatenate([DENSE[order] for order in orders])
    times = np.concatenate([row[order] for row, order in zip(visits, orders, strict=True)])
    sweep, place = np.repeat(np.arange(5), 151), np.tile(np.arange(151), 5)
    return Table("length", x, times, sweep, place)


def test_shuffled_sweeps_with_their_order_can_be_confirmed():
    result = analyze_series(shuffled_table(stairs(DENSE) * slow(DENSE, {421: 1.3}), 1))
    assert [(f.kind, f.lengths, f.confidence, f.votes) for f in result.findings] == [
        ("spike", (421, 421), "confirmed", "5/5")
    ]
    assert result.verdict == "non-monotonic"
    assert analyze_series(shuffled_table(stairs(DENSE), 1)).verdict == "smooth"


def test_sweeps_in_ascending_order_cannot():
    result = analyze_series(shuffled_table(stairs(DENSE) * slow(DENSE, {421: 3.0}), 1, mixed=False))
    assert [(f.kind, f.lengths, f.confidence) for f in result.findings] == [("spike", (421, 421), "apparent")]
    assert result.verdict == "unresolved"


@pytest.mark.parametrize("count, begins", [(5, "whole generations: a total"), (2, "not 3 or more sweeps known to be")])
def test_the_note_says_why_shuffled_sweeps_do_not_confirm(count, begins):
    x, sweep, order, ms = shuffled(count)
    kind = "budget" if count == 5 else "length"
    result = analyze(x, ms, kind, sweep=sweep, order=order)
    assert result.cells[0].notes[0].startswith(begins)
    assert {finding.confidence for finding in result.findings} == {"apparent"}


def shuffled(count):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.permutation(DENSE) for _ in range(count)])
    places = np.arange(len(DENSE))
    return x, np.repeat(np.arange(count), len(DENSE)), np.tile(places, count), np.where(x == 421, 2.0, 1.0)


def test_smooth_says_from_which_excess_on():
    result = analyze([64, 128, 256, 512, 640, 768], [1.0, 2.0, 4.0, 9.5, 9.2, 12.0], "budget")
    assert result.verdict == "smooth"
    assert result.cells[0].notes[-1] == "an excess below 1.15x counts as noise in this table."
