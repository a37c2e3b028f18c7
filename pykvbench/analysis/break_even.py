"""The length from which restoring KV is faster than computing it again, and where to measure to be sure of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pykvbench.analysis.reuse_table import BreakEven, Span

MIN_PROCESSES = 3  # that must agree on a side
NEAR = 6.0  # lengths farther apart than this do not confirm what lies between them
SIDES = (1.3, 1.7, 2.4)  # times below and above the estimate, in the rounds that look on both sides of it
_STEP = 4  # between lengths tried downwards
_SHORTEST = 8  # tokens; fewer are not worth keeping


def break_even(tier: str, speedups: Mapping[int, Span]) -> BreakEven:
    """Where the speed-up over recomputing, by length, passes 1 for good.

    Between two lengths the logarithm of the speed-up is taken as linear in that of the length; so it is beyond the
    longest, from the last two, if it rises there.
    """
    known = sorted((length, span) for length, span in speedups.items() if span.count)
    slower = [index for index, (_, span) in enumerate(known) if span.value <= 1]
    if not known:
        return BreakEven(tier, "none", None, None, None)
    if not slower:
        return BreakEven(tier, "below", None, None, known[0])
    last = slower[-1]
    if last == len(known) - 1:
        length = _crossing(*known[-2], *known[-1]) if len(known) > 1 else None
        found = "none" if length is None or length <= known[-1][0] else "extrapolated"
        return BreakEven(tier, found, length if found == "extrapolated" else None, known[-1], None)
    length = _crossing(*known[last], *known[last + 1])
    assert length is not None  # the speed-up rises from at most 1 to above it
    below = [(n, span) for n, span in known if n < length and span.high < 1 and span.count >= MIN_PROCESSES]
    above = [(n, span) for n, span in known if n > length and span.low > 1 and span.count >= MIN_PROCESSES]
    if below and above and above[0][0] <= NEAR * below[-1][0]:
        return BreakEven(tier, "confirmed", length, below[-1], above[0])
    return BreakEven(tier, "interpolated", length, known[last], known[last + 1])


def shorter_lengths(shortest: int) -> tuple[int, ...]:
    """Lengths to try below the shortest, when restoring is faster even there."""
    lengths = []
    while (shortest := shortest // _STEP) >= _SHORTEST:
        lengths.append(shortest)
    return tuple(lengths)


def both_sides(known: BreakEven, factor: float, longest: int) -> tuple[int, ...]:
    """The lengths at `factor` below and above an interpolated estimate, within what can be measured."""
    if known.found != "interpolated" or known.length is None:
        return ()
    below, above = math.floor(known.length / factor), math.ceil(known.length * factor)
    return tuple(length for length in (below, above) if 1 <= length <= longest)


def _crossing(shorter: int, before: Span, longer: int, after: Span) -> float | None:
    """Where a line through two points of log speed-up over log length passes 0; None if it does not rise."""
    first, second = math.log(before.value), math.log(after.value)
    if second <= first:
        return None
    share = -first / (second - first)
    exponent = math.log(shorter) + share * (math.log(longer) - math.log(shorter))
    return math.exp(exponent) if exponent < 60 else None  # beyond any length there could be
