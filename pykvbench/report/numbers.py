"""Numbers as a reader wants them: three digits that mean something, and one unit for all that stand together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MISSING = "-"


@dataclass(frozen=True)
class Unit:
    """A unit and how many of the base unit (nanoseconds, bytes) it holds."""

    name: str
    size: float


NANOSECONDS, MICROSECONDS, MILLISECONDS, SECONDS = (
    Unit("ns", 1.0),
    Unit("us", 1e3),
    Unit("ms", 1e6),
    Unit("s", 1e9),
)
DURATIONS = (NANOSECONDS, MICROSECONDS, MILLISECONDS, SECONDS)
SIZES = (Unit("B", 1.0), Unit("KiB", 2.0**10), Unit("MiB", 2.0**20), Unit("GiB", 2.0**30), Unit("TiB", 2.0**40))


def unit_for(values: Iterable[float], units: Sequence[Unit] = DURATIONS) -> Unit:
    """The largest unit in which the middle one of `values` (in the base unit) is at least 1.

    The middle one, so that one spike does not turn a column of microseconds into one of 0.09 ms. Values that are
    missing (NaN), infinite or not above zero do not count; without any that does, the smallest unit.
    """
    known = sorted(value for value in values if math.isfinite(value) and value > 0)
    middle = known[len(known) // 2] if known else 0.0
    return next((unit for unit in reversed(units) if _three_digits(middle) >= unit.size), units[0])


def duration(ns: float, unit: Unit | None = None) -> str:
    """A duration with its unit, in `unit` or the one that suits it: `96.1 us`, `2.05 ms`; `-` when missing."""
    return _with_unit(ns, unit or unit_for([ns]))


def duration_column(values_ns: Sequence[float]) -> tuple[Unit, list[str]]:
    """Durations for a column: the unit for its head, and the numbers, all in it and with equally many decimals."""
    unit = unit_for(values_ns)
    known = sorted(value for value in values_ns if math.isfinite(value))
    decimals = _decimals(known[len(known) // 2] / unit.size) if known else 0
    return unit, [f"{value / unit.size:.{decimals}f}" if math.isfinite(value) else MISSING for value in values_ns]


def byte_count(count: float, unit: Unit | None = None) -> str:
    """Bytes with their binary unit, in `unit` or the one that suits them: `24.0 MiB`; `-` when missing."""
    unit = unit or unit_for([count], SIZES)
    if unit is SIZES[0] and math.isfinite(count):
        return f"{count:.0f} B"
    return _with_unit(count, unit)


def bandwidth(count: float, ns: float) -> str:
    """Bytes moved in a time, as decimal gigabytes a second, which is what a byte a nanosecond is: `85.3 GB/s`."""
    if not (math.isfinite(count) and math.isfinite(ns) and ns > 0):
        return MISSING
    return f"{_number(count / ns)} GB/s"


def ratio(value: float | None) -> str:
    """A ratio of costs: `1.10x`, `21.3x`, `340x`; `-` when missing."""
    return MISSING if value is None or not math.isfinite(value) else f"{_number(value)}x"


def p_value(p: float | None) -> str:
    """A p-value, with as many digits as it deserves: `0.03`, `5e-7`, `below 1e-99`; `-` when missing."""
    if p is None or not math.isfinite(p):
        return MISSING
    if p < 1e-99:
        return "below 1e-99"
    rounded = float(f"{p:.1g}")
    if rounded >= 0.001:
        return f"{rounded:g}"
    mantissa, exponent = f"{rounded:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _with_unit(value: float, unit: Unit) -> str:
    return f"{_number(value / unit.size)} {unit.name}" if math.isfinite(value) else MISSING


def _number(value: float) -> str:
    return f"{value:.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    """Decimals that leave three digits, after rounding: 9.996 is 10.0 and not 10.00."""
    size = _three_digits(abs(value))
    return 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 or size == 0 else 3


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")
