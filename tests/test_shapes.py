"""Naming what stands out of a curve."""

import numpy as np
import pytest

from pykvbench.analysis.envelope import smooth, suffix_minimum
from pykvbench.analysis.sentences import cost, extended, times
from pykvbench.analysis.shapes import name_stretches, rises, stretches

TAU = float(np.log(1.10))


def named(lengths, costs):
    curve = np.log(np.asarray(costs, dtype=float))
    excess = curve - suffix_minimum(smooth(lengths, curve))
    found = stretches(excess, excess >= TAU, TAU)
    shapes, edges = name_stretches(lengths, curve, excess, found, TAU)
    return [(s.kind, int(lengths[s.first]), int(lengths[s.last])) for s in shapes + edges]


LENGTHS = np.arange(100, 200)


@pytest.mark.parametrize(
    "slow, expected",
    [
        ([150], [("spike", 150, 150)]),
        ([150, 151], [("regime", 150, 151)]),
        (range(120, 160), [("regime", 120, 159)]),
        ([100], [("spike", 100, 100)]),
        ([199], [("spike", 199, 199)]),
        (range(100, 105), [("regime", 100, 104)]),
        (range(100, 150), [("drop", 149, 150)]),
        ([120, 122, 124, 126], [("comb", 120, 126)]),
        ([120, 122, 124], [("spike", 120, 120), ("spike", 122, 122), ("spike", 124, 124)]),
        ([110, 142, 174], [("periodic", 110, 174)]),
        ([110, 142], [("spike", 110, 110), ("spike", 142, 142)]),
        (range(150, 200), []),
    ],
)
def test_names(slow, expected):
    assert named(LENGTHS, np.where(np.isin(LENGTHS, list(slow)), 2.0, 1.0)) == expected


def test_a_tooth_may_be_missing_but_not_a_quarter_of_them():
    teeth = np.isin(LENGTHS, [110, 120, 130, 150, 160])
    assert named(LENGTHS, np.where(teeth, 2.0, 1.0)) == [("periodic", 110, 160)]


def test_a_slope_that_ends_in_a_drop_is_a_step_and_an_abrupt_stretch_on_it_a_regime():
    slope = np.linspace(1.0, 2.0, 100)
    assert named(LENGTHS, slope * np.where(LENGTHS >= 180, 0.7, 1.0)) == [("drop", 179, 180)]
    inside = (LENGTHS >= 150) & (LENGTHS < 160)
    assert named(LENGTHS, slope * np.where(inside, 1.5, 1.0)) == [("regime", 150, 159)]


def test_a_jump_that_is_only_partly_undone_is_two_steps():
    costs = np.select([LENGTHS < 130, LENGTHS < 160], [1.0, 3.0], 2.4)
    assert named(LENGTHS, costs) == [("rise", 129, 130), ("drop", 159, 160)]


def test_only_abrupt_rises_that_last_are_rises():
    def risen(costs):
        curve = np.log(costs)
        return [(s.first, s.last) for s in rises(LENGTHS, curve, suffix_minimum(smooth(LENGTHS, curve)), TAU)]

    assert risen(np.where(LENGTHS >= 160, 1.3, 1.0)) == [(59, 60)]
    assert risen(np.where(LENGTHS == 160, 1.3, 1.0)) == []
    assert risen(LENGTHS**3.0) == []
    assert risen(1.04 ** (LENGTHS // 32)) == []


def test_smoothing_ignores_fast_teeth_on_dense_grids_and_leaves_coarse_grids_alone():
    assert (smooth(LENGTHS, np.where(LENGTHS % 32 == 0, 0.0, 1.0)) == 1.0).all()
    coarse = np.array([1.0, 2.0, 9.0, 4.0, 5.0, 6.0])
    assert (smooth(np.array([128, 256, 512, 1024, 2048, 4096]), coarse) == coarse).all()


def test_a_break_compares_its_left_side_with_itself():
    assert suffix_minimum(np.array([3.0, 4.0, 1.0, 2.0])).tolist() == [1.0, 1.0, 1.0, 2.0]
    assert suffix_minimum(np.array([3.0, 4.0, 1.0, 2.0]), (1,)).tolist() == [3.0, 4.0, 1.0, 2.0]


def test_units_and_ratios_read_well():
    assert [cost(v) for v in (7.0, 999.7, 56_300.0, 1_200_000.0, 89.2e9)] == [
        "7.00 ns",
        "1.00 us",
        "56.3 us",
        "1.20 ms",
        "89.2 s",
    ]
    assert [times(v) for v in (1.15, 9.996, 21.3, 1540.2)] == ["1.15x", "10.0x", "21.3x", "1540x"]


def test_the_range_to_run_next_goes_as_far_again():
    assert extended(np.arange(380, 531)) == "--len 380:680"
    assert extended(np.arange(480, 657, 16)) == "--len 480:832:16"
    assert extended(np.array([128, 256, 512])) == "lengths up to 1024"
