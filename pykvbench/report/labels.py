"""Where labels go, so that none lies on another: rows above a curve, each beside a thin line down to its point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spot:
    """A label's place: its row (0 the top) and whether its text stands right or left of its line."""

    row: int
    right: bool


def spots(positions: Sequence[float], widths: Sequence[float], rows: int) -> list[Spot | None]:
    """A spot for each label, or None where all rows are taken.

    `positions` and `widths` are fractions of the axis. A label's text never overlaps another's, nor the line that
    leads from another label, in a row above, down to its point.
    """
    taken: list[tuple[float, float, float, int]] = []  # left, right, line, row
    placed: list[Spot | None] = [None] * len(positions)
    # Stairs that fall away from the nearest edge never cross a line; texts that must stand left of their line come
    # first and from the right, the others from the left.
    must_left = [i for i in range(len(positions)) if positions[i] + widths[i] > 1]
    others = [i for i in range(len(positions)) if positions[i] + widths[i] <= 1]
    for i in sorted(must_left, key=lambda i: -positions[i]) + sorted(others, key=lambda i: positions[i]):
        spot = _first_free(positions[i], widths[i], rows, taken)
        if spot is not None:
            taken.append((*_reach(positions[i], widths[i], spot.right), positions[i], spot.row))
            placed[i] = spot
    return placed


def _first_free(position: float, width: float, rows: int, taken: list[tuple[float, float, float, int]]) -> Spot | None:
    for row in range(rows):
        for right in (True, False):
            left_end, right_end = _reach(position, width, right)
            if (
                left_end >= 0
                and right_end <= 1
                and all(_apart(left_end, right_end, position, row, other) for other in taken)
            ):
                return Spot(row, right)
    return None


def _reach(position: float, width: float, right: bool) -> tuple[float, float]:
    return (position, position + width) if right else (position - width, position)


def _apart(left: float, right: float, line: float, row: int, other: tuple[float, float, float, int]) -> bool:
    other_left, other_right, other_line, other_row = other
    if row == other_row:
        return right <= other_left or other_right <= left
    if row < other_row:  # this label's line runs down past the other's text
        return not other_left <= line <= other_right
    return not left <= other_line <= right
