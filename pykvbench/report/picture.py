"""A curve as a few rows of text: block characters on a log scale, no length ever hidden by its neighbours."""

from __future__ import annotations

import textwrap

import numpy as np
import numpy.typing as npt

from pykvbench.analysis.finding import Curve, Finding, Floats
from pykvbench.report import numbers
from pykvbench.report.sentence import span

MARKED_KINDS = ("spike", "regime", "intermittent", "step", "wrong-result")
COLUMNS = 72  # at most, so that a picture with its labels fits a terminal of 80 to 90
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ABOVE = "░"
_LOW, _HIGH = 3, 5  # rows of a nearly flat curve, and of any other
_FLATTEST = 1.5  # the least ratio of top to bottom, so that noise of a percent looks like one
_WIDEST = 4  # columns given to one length when there are few


def draw(curve: Curve, findings: tuple[Finding, ...], width: int) -> list[str]:
    """Lines of at most `width` characters that show the medians of `curve` and mark `findings` with ^ below.

    A column stands for one length, or for several: then it is solid up to their median and shaded up to their dearest.
    Lengths without a time stay blank. No lines when no length has a time.
    """
    costs = np.where(curve.median_ns > 0, curve.median_ns, np.nan)
    if not np.isfinite(costs).any():
        return []
    low, high = float(np.nanmin(costs)), float(np.nanmax(costs))
    top = max(high, low * _FLATTEST)
    unit = numbers.unit_for(costs.tolist())
    labels = [numbers.duration(top, unit), numbers.duration(low, unit)]
    margin = max(map(len, labels))
    columns = max(8, min(COLUMNS, width - margin - 2))
    starts = _starts(len(costs), columns)
    rows = _LOW if top == low * _FLATTEST else _HIGH
    eighths = 1 + (8 * rows - 1) * np.log(costs / low) / np.log(top / low)  # level 1 for the cheapest, so it is seen
    solid, shade = _levels(eighths, starts)
    lines = []
    for row in range(rows):
        label = labels[0] if row == 0 else labels[1] if row == rows - 1 else ""
        blocks = "".join(
            _block(a, b, 8 * (rows - 1 - row)) for a, b in zip(solid.tolist(), shade.tolist(), strict=True)
        )
        lines.append(f"{label:>{margin}} {'┤' if label else '│'}{blocks}".rstrip())
    places = _places(curve, findings, starts)
    if places:
        lines.append(" " * (margin + 2) + _marks(places, len(solid)))
    lines.append(" " * (margin + 2) + _axis(curve, places, len(solid)))
    if len(costs) > columns:
        caption = f"A column is {_share(len(costs), columns)} lengths, {_ABOVE} the dearest."
        indent = " " * (margin + 2)
        lines.extend(textwrap.wrap(caption, width, initial_indent=indent, subsequent_indent=indent))
    return lines


def _starts(lengths: int, columns: int) -> npt.NDArray[np.int64]:
    """For each column the index of its first length; several columns may stand for one length."""
    if lengths > columns:
        return np.arange(columns, dtype=np.int64) * lengths // columns
    return np.repeat(np.arange(lengths, dtype=np.int64), min(_WIDEST, columns // lengths))


def _share(lengths: int, columns: int) -> str:
    least = lengths // columns
    return f"{least}" if lengths % columns == 0 else f"{least} or {least + 1}"


def _levels(eighths: Floats, starts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each column the median and the largest of its levels, 0 where all are missing."""
    solid, shade = np.zeros((2, len(starts)), dtype=np.int64)
    stops = [*starts[1:].tolist(), len(eighths)]
    for column, (start, stop) in enumerate(zip(starts.tolist(), stops, strict=True)):
        levels = eighths[start : max(stop, start + 1)]
        levels = levels[np.isfinite(levels)]
        if len(levels):
            solid[column], shade[column] = round(float(np.median(levels))), round(float(levels.max()))
    return solid, shade


def _block(solid: int, shade: int, floor: int) -> str:
    """The character of one column in the row that begins at level `floor`.

    When the median and the dearest length end in the same row it is drawn up to the dearest, so that it shows.
    """
    if 0 < solid - floor < 8 and shade - floor <= 8:
        return _BLOCKS[shade - floor]
    if solid > floor:
        return _BLOCKS[min(solid - floor, 8)]
    return _ABOVE if shade > floor else " "


def _places(
    curve: Curve, findings: tuple[Finding, ...], starts: npt.NDArray[np.int64]
) -> list[tuple[int, int, Finding]]:
    """First and last column of every finding that has a place: one that covers at most half of the lengths."""
    places = []
    for finding in findings:
        first = int(np.searchsorted(curve.lengths, finding.lengths[0]))
        last = int(np.searchsorted(curve.lengths, finding.lengths[1], side="right")) - 1
        if finding.kind in MARKED_KINDS and first <= last and 2 * (last - first) < len(curve.lengths):
            left = int(np.searchsorted(starts, starts[starts <= first][-1]))
            right = int(np.searchsorted(starts, last, side="right")) - 1
            places.append((left, right, finding))
    return places


def _marks(places: list[tuple[int, int, Finding]], columns: int) -> str:
    marks = [" "] * columns
    for left, right, _ in places:
        marks[left : right + 1] = "^" * (right + 1 - left)
    return "".join(marks).rstrip()


def _axis(curve: Curve, places: list[tuple[int, int, Finding]], columns: int) -> str:
    """First and last length, and between them those of the largest findings for which there is room."""
    first, last = str(curve.lengths[0]), str(curve.lengths[-1])
    if len(curve.lengths) == 1:
        return first
    columns = max(columns, len(first) + 2 + len(last))
    line = list(first.ljust(columns - len(last)) + last)
    for left, right, finding in sorted(places, key=lambda place: -(place[2].ratio or 0.0)):
        name = span(finding.lengths)
        start = (left + right + 1 - len(name)) // 2
        around = line[max(0, start - 2) : start + len(name) + 2]
        if start >= 2 and start + len(name) + 2 <= columns and not "".join(around).strip():
            line[start : start + len(name)] = name
    return "".join(line)
