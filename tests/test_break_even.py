"""The break-even length: found between measured lengths, confirmed on both sides, or called what it is."""

import pytest

from pykvbench.analysis.break_even import SIDES, both_sides, break_even, shorter_lengths
from pykvbench.analysis.reuse_table import Span


def spans(speedups: dict[int, float], noise: float = 0.05, count: int = 5) -> dict[int, Span]:
    return {n: Span(value, value * (1 - noise), value * (1 + noise), count) for n, value in speedups.items()}


def test_between_two_lengths_it_is_read_off_the_logarithms() -> None:
    found = break_even("disk", spans({100: 0.5, 1600: 2.0}))
    assert (found.found, found.length) == ("interpolated", pytest.approx(400))
    assert found.below is not None and found.above is not None
    assert (found.below[0], found.above[0]) == (100, 1600)


def test_it_is_confirmed_by_near_lengths_on_both_sides_where_all_processes_agree() -> None:
    around = {100: 0.5, 310: 0.8, 500: 1.25, 1600: 2.0}
    found = break_even("disk", spans(around))
    assert (found.found, round(found.length or 0)) == ("confirmed", 394)
    assert found.below is not None and found.above is not None
    assert (found.below[0], found.above[0]) == (310, 500)


@pytest.mark.parametrize(
    ("noise", "count", "far"), [(0.3, 5, False), (0.05, 2, False), (0.05, 5, True)], ids=["noisy", "two", "far apart"]
)
def test_it_is_not_confirmed_otherwise(noise: float, count: int, far: bool) -> None:
    lengths = {100: 0.8, 1600: 1.25} if far else {310: 0.8, 500: 1.25}
    assert break_even("disk", spans(lengths, noise, count)).found == "interpolated"


def test_a_dip_above_it_moves_it_behind_the_dip() -> None:
    found = break_even("disk", spans({100: 0.5, 200: 1.2, 400: 0.9, 800: 2.0}))
    assert found.length is not None and 400 < found.length < 800


def test_faster_everywhere_is_said_and_not_extrapolated() -> None:
    found = break_even("host", spans({100: 1.5, 1600: 9.0}))
    assert (found.found, found.length, found.below) == ("below", None, None)
    assert found.above is not None and found.above[0] == 100


def test_slower_everywhere_is_extrapolated_only_where_the_speed_up_rises() -> None:
    found = break_even("disk", spans({100: 0.25, 400: 0.5}))
    assert (found.found, found.length) == ("extrapolated", pytest.approx(1600))
    assert break_even("disk", spans({100: 0.5, 400: 0.25})).found == "none"
    assert break_even("disk", spans({100: 0.5})).found == "none"
    assert break_even("disk", spans({100: 0.5, 400: 0.5 + 1e-9})).found == "none"  # beyond any length there could be
    assert break_even("disk", {}).found == "none"


def test_where_to_measure_next() -> None:
    assert shorter_lengths(1024) == (256, 64, 16)
    assert shorter_lengths(31) == ()
    found = break_even("disk", spans({100: 0.5, 1600: 2.0}))
    assert both_sides(found, SIDES[0], 1600) == (307, 521)
    assert both_sides(found, SIDES[0], 500) == (307,)
    assert both_sides(break_even("disk", spans({310: 0.8, 500: 1.25})), SIDES[0], 1600) == ()
    assert both_sides(break_even("disk", spans({100: 2.0})), SIDES[0], 1600) == ()


def test_looking_on_both_sides_confirms_a_curve_whose_processes_agree_there() -> None:
    def speedup(length: int) -> float:
        return (length / 77) ** 0.8

    known = {length: speedup(length) for length in (16, 256)}
    for factor in SIDES:
        for length in both_sides(break_even("disk", spans(known, 0.1)), factor, 256):
            known[length] = speedup(length)
    found = break_even("disk", spans(known, 0.1))
    assert (found.found, round(found.length or 0)) == ("confirmed", 77)
