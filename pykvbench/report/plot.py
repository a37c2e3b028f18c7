"""The picture of a run: cost against length with what was found, and the same visits against time of measurement."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pykvbench.analysis.finding import CellResult, Result
from pykvbench.errors import UsageError
from pykvbench.record import Run, Visits
from pykvbench.report import marks, numbers, panel, sentence
from pykvbench.report.save import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
_WIDTH, _DPI = 13.0, 130
_TITLE, _AXES, _BELOW, _LINE, _LEGEND = 0.92, 3.3, 0.62, 0.2, 0.4  # heights of a row's parts, inches
_LEFT, _GAP, _RIGHT, _SHARE = 0.85, 0.25, 0.2, 0.68  # widths in inches, and the first panel's share of the rest
_CHARACTERS = 165  # of a heading's line
_NUMBERED = 8  # landmarks told apart in one picture
_TALLEST = 480.0  # inches; Agg draws at most 65,536 pixels
# Neither when nor with what a picture was made is written into it, so that equal results give equal files.
METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class Landmark(Protocol):
    """A length at which something is known to change, such as the kernel that is dispatched."""

    @property
    def length(self) -> int:
        """The first length after the change."""

    @property
    def what(self) -> str:
        """What changes there, in a few words."""


def draw(run: Run | None, result: Result, path: str | os.PathLike[str], landmarks: Sequence[Landmark] = ()) -> None:
    """Draw `result` to `path` (.png, .svg or .pdf), a row of panels for each cell; replaces a file that is there.

    The second panel needs `run`; a table of lengths and times has none. At most 20,000 dots a panel are drawn, the
    extremes of every column among them. Raises UsageError when the suffix is unknown, there is nothing to draw, or
    `path` cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is not a kind of picture that can be drawn; let its name end in .png, .svg or .pdf.")
    cells = [cell for cell in result.cells if np.isfinite(cell.curve.median_ns).any()]
    if not cells:
        raise UsageError("There is nothing to draw, since no visit was completed; name a run or table that has times.")
    picture = _render(run, cells, landmarks, suffix)
    save(picture, path)


def _render(run: Run | None, cells: Sequence[CellResult], landmarks: Sequence[Landmark], suffix: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    # The user's own matplotlib settings must not change what a picture in a public issue looks like.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"font.size": 9.0, "svg.hashsalt": "pykvbench"})
        known = [_landmarks(cell, landmarks) for cell in cells]
        heights = [_TITLE + _AXES + _BELOW + _LINE * len(lines) for _, lines in known]
        height = sum(heights) + _LEGEND
        figure = Figure(figsize=(_WIDTH, height), dpi=min(_DPI, _DPI * _TALLEST / height))
        top = height
        for cell, (numbered, lines), used in zip(cells, known, heights, strict=True):
            _row(figure, run, cell, numbered, lines, top, height)
            top -= used
        figure.legend(handles=panel.legend(cells), loc="lower center", ncol=6, frameon=False, fontsize=8.5)
        file = io.BytesIO()
        figure.savefig(file, format=suffix[1:], metadata=METADATA[suffix])
    return file.getvalue()


def _row(
    figure: Figure,
    run: Run | None,
    cell: CellResult,
    numbered: Sequence[tuple[int, int]],
    lines: Sequence[str],
    top: float,
    height: float,
) -> None:
    """One cell: its heading, its panels, and below them what its landmarks are."""
    visits, geometry = _of_cell(run, cell)
    inner = _WIDTH - _LEFT - _RIGHT
    wide = inner if visits is None else (inner - _GAP) * _SHARE
    bottom = (top - _TITLE - _AXES) / height
    first = figure.add_axes((_LEFT / _WIDTH, bottom, wide / _WIDTH, _AXES / height))
    unit = numbers.unit_for(cell.curve.median_ns.tolist())
    panel.against_length(first, cell, unit, numbered, points=wide * 72)
    first.set_xlabel(cell.axis if run is None else "KV length (keys attended, the new one included)")
    if visits is not None:
        left = (_LEFT + wide + _GAP) / _WIDTH
        second = figure.add_axes((left, bottom, (inner - _GAP - wide) / _WIDTH, _AXES / height), sharey=first)
        panel.against_time(second, visits, len(cell.curve.sweeps_ns), unit)

    def write(text: str, x: float, below_top: float, size: float, **style: Any) -> None:
        figure.text(x / _WIDTH, (top - below_top) / height, text, fontsize=size, va="top", **style)

    write(cell.cell + (f"   {geometry}" if geometry else ""), _LEFT, 0.12, 11, weight="bold")
    if alarm := _alarm(run, cell):
        write(alarm, _WIDTH - _RIGHT, 0.13, 10, weight="bold", color=marks.ALARM, ha="right")
    write(
        "\n".join(textwrap.wrap(" ".join(_said(cell)), _CHARACTERS, max_lines=2, placeholder=" ...")), _LEFT, 0.36, 9.5
    )
    for number, line in enumerate(lines):
        write(line, _LEFT, _TITLE + _AXES + _BELOW - 0.1 + _LINE * number, 8, color=marks.LANDMARK)


def _alarm(run: Run | None, cell: CellResult) -> str:
    """That the times are not a measurement of anything, where they are not."""
    if run is not None and (injected := run.plan.get("inject")):
        where = textwrap.shorten(", ".join(str(text) for text in injected), 60, placeholder=" ...")
        return f"EXTRA WORK INJECTED at {where}: a test of the instrument"
    return "SIMULATED DEVICE: programmed times, not a measurement" if cell.cell.split()[0] == "simulated" else ""


def _said(cell: CellResult) -> list[str]:
    """The verdict, and what the picture cannot show."""
    said = [sentence.verdict(cell)]
    if others := marks.undrawn(cell):
        said.append(f"Also found: {', '.join(others)}.")
    if cell.curve.first_ns is not None and panel.first_off_scale(cell):
        first = numbers.duration(float(np.nanmedian(cell.curve.first_ns)))
        said.append(f"First calls are off the scale: {first} at the median.")
    return said


def _of_cell(run: Run | None, cell: CellResult) -> tuple[Visits | None, str]:
    """The visits of a cell and its geometry in words, found by its label; nothing for a table."""
    if run is None:
        return None, ""
    for index, known in enumerate(run.cells):
        if known.label == cell.cell:
            return run.visits.of_cell(index), sentence.geometry(known.geometry)
    return None, ""


def _landmarks(cell: CellResult, landmarks: Sequence[Landmark]) -> tuple[list[tuple[int, int]], list[str]]:
    """(length, number) of every landmark in the cell's range, and the lines that say what the numbers mean.

    Landmarks that say the same share a number, so that a change at every multiple of 32 takes one line. Beyond
    _NUMBERED numbers they are counted in a last line and not drawn: that many lines would hide the curve.
    """
    first, last = cell.curve.lengths[0], cell.curve.lengths[-1]
    inside = sorted({(mark.length, mark.what) for mark in landmarks if first <= mark.length <= last})
    whats = list(dict.fromkeys(what for _, what in inside))
    numbers_of = {what: number for number, what in enumerate(whats[:_NUMBERED], 1)}
    numbered = [(length, numbers_of[what]) for length, what in inside if what in numbers_of]
    texts = []
    for what, number in numbers_of.items():
        lengths = [str(length) for length, other in numbered if other == number]
        shown = ", ".join(lengths[:8]) + (f" and {len(lengths) - 8} more" if len(lengths) > 8 else "")
        texts.append(textwrap.shorten(f"{number}: {what} (at {shown})", 170, placeholder=" ..."))
    if len(whats) > _NUMBERED:
        texts.append(f"and {len(whats) - _NUMBERED} other changes in this range")
    return numbered, texts
