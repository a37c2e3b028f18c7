import math

import pytest

from pykvbench.report import numbers


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.00 ns"),
        (41.67, "41.7 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 us"),
        (96_100, "96.1 us"),
        (9_996, "10.0 us"),
        (2_045_000, "2.04 ms"),
        (89.2e9, "89.2 s"),
        (7200e9, "7200 s"),
        (math.nan, "-"),
    ],
)
def test_a_duration_has_three_digits_and_the_unit_that_suits_it(ns: float, text: str) -> None:
    assert numbers.duration(ns) == text


def test_a_column_shares_the_unit_of_its_middle_value_so_that_one_spike_does_not_change_it() -> None:
    unit, texts = numbers.duration_column([96_000.0, 95_500.0, 2_045_000.0, math.nan, 97_150.0])
    assert unit.name == "us"
    assert texts == ["96.0", "95.5", "2045.0", "-", "97.2"]


def test_a_column_without_any_value_still_has_a_unit() -> None:
    assert numbers.duration_column([math.nan, math.nan]) == (numbers.NANOSECONDS, ["-", "-"])


def test_durations_in_a_given_unit_keep_it() -> None:
    assert numbers.duration(2_045_000, numbers.MICROSECONDS) == "2045 us"
    assert numbers.duration(850, numbers.MILLISECONDS) == "0.001 ms"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.1, "1.10x"), (1.0, "1.00x"), (9.996, "10.0x"), (21.34, "21.3x"), (340.4, "340x"), (0.8, "0.80x"), (None, "-")],
)
def test_a_ratio_has_three_digits(value: float | None, text: str) -> None:
    assert numbers.ratio(value) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "1"),
        (0.0312, "0.03"),
        (0.0079, "0.008"),
        (0.00096, "0.001"),
        (0.00012, "1e-4"),
        (3.4e-7, "3e-7"),
        (1e-120, "below 1e-99"),
        (0.0, "below 1e-99"),
        (None, "-"),
    ],
)
def test_a_p_value_has_one_digit_and_no_padding(p: float | None, text: str) -> None:
    assert numbers.p_value(p) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (512, "512 B"), (25_165_824, "24.0 MiB"), (3 * 2**30, "3.00 GiB"), (math.nan, "-")]
)
def test_bytes_are_in_binary_units(count: float, text: str) -> None:
    assert numbers.byte_count(count) == text


def test_a_byte_a_nanosecond_is_a_gigabyte_a_second() -> None:
    assert numbers.bandwidth(25_165_824, 295_000) == "85.3 GB/s"
    assert numbers.bandwidth(25_165_824, 0) == "-"
