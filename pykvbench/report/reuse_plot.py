"""The picture of a reuse run: the time to first token against the prompt's length, and the speed-up of restoring."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pykvbench.analysis.finding import CellResult, Result
from pykvbench.analysis.reuse_table import ELSEWHERE, PUBLISHED, RECOMPUTE, TIERS, ReuseTable, Span
from pykvbench.errors import UsageError
from pykvbench.record import Run
from pykvbench.report.plot import SUFFIXES
from pykvbench.report.save import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _ROW, _DPI = 12.0, 4.9, 130  # inches, and dots an inch
_TALLEST = 480.0  # inches; Agg draws at most 65,536 pixels
# Okabe and Ito's colours, and a marker each: colour-blind readers, and paper, must tell the tiers apart.
_COLOURS = {RECOMPUTE: "#222222", "device": "#009E73", "host": "#0072B2", "disk": "#D55E00"}
_MARKERS = {RECOMPUTE: "o", "device": "^", "host": "s", "disk": "D"}
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def draw(run: Run, result: Result, path: str | os.PathLike[str]) -> None:
    """Draw a reuse run's `result` to `path` (.png, .svg or .pdf), a row of two panels for each cell.

    Left: the time to first token against the prompt's length, median and range over processes. Right: the speed-up of
    restoring over recomputing, the break-even lengths, and as crosses what was published of another machine. Raises
    UsageError when the suffix is unknown, nothing was measured, or `path` cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is not a kind of picture that can be drawn; let its name end in .png, .svg or .pdf.")
    cells = [(cell, cell.reuse) for cell in result.cells if cell.reuse is not None and cell.reuse.rows]
    if not cells:
        raise UsageError("There is nothing to draw, since no prompt was measured; name a run of `reuse` that has some.")
    save(_render(cells, suffix), path)


def _render(cells: Sequence[tuple[CellResult, ReuseTable]], suffix: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    # The user's own matplotlib settings must not change what a picture in a public issue looks like.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"font.size": 9.0, "svg.hashsalt": "pykvbench"})
        height = _ROW * len(cells)
        figure = Figure(figsize=(_WIDTH, height), dpi=min(_DPI, _DPI * _TALLEST / height), layout="constrained")
        axes = figure.subplots(len(cells), 2, squeeze=False)
        for (left, right), (cell, table) in zip(axes, cells, strict=True):
            _times(left, cell, table)
            _speedups(right, table)
        _explain(figure)
        file = io.BytesIO()
        figure.savefig(file, format=suffix[1:], metadata=_METADATA[suffix])
    return file.getvalue()


def _times(axes: Axes, cell: CellResult, table: ReuseTable) -> None:
    for tier in (RECOMPUTE, *TIERS):
        known = {row.length: row.span for row in table.rows if row.tier == tier}
        scaled = {n: Span(s.value / 1e9, s.low / 1e9, s.high / 1e9, s.count) for n, s in known.items() if s.count}
        _line(axes, scaled, tier)
    axes.set(
        title=cell.cell, xlabel="tokens of the prompt", ylabel="time to first token, s", xscale="log", yscale="log"
    )
    axes.legend(frameon=False)
    _ticks(axes)


def _speedups(axes: Axes, table: ReuseTable) -> None:
    for tier in TIERS:
        _line(axes, {row.length: row.speedup for row in table.rows if row.tier == tier and row.speedup.count}, tier)
    for known in table.break_even:
        if known.length is not None:
            style = "-" if known.found == "confirmed" else ":"
            axes.axvline(known.length, color=_COLOURS[known.tier], linestyle=style, linewidth=0.8)
    axes.axhline(1.0, color="#888888", linewidth=0.8)
    axes.plot([row.length for row in PUBLISHED], [row.speedup for row in PUBLISHED], "x", color="#888888")
    axes.set(
        title="speed-up over recomputing; vertical: restoring pays from there",
        xlabel="tokens of the prompt",
        ylabel="times faster",
        xscale="log",
        yscale="log",
    )
    _ticks(axes)


def _ticks(axes: Axes) -> None:
    """Plain numbers: at 1, 2 and 5 of every power of ten on both axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _line(axes: Axes, known: dict[int, Span], tier: str) -> None:
    """Medians with bars from the least to the most of all processes."""
    if not known:
        return
    lengths = sorted(known)
    values = [known[length].value for length in lengths]
    below = [known[length].value - known[length].low for length in lengths]
    above = [known[length].high - known[length].value for length in lengths]
    axes.errorbar(
        lengths,
        values,
        yerr=(below, above),
        color=_COLOURS[tier],
        marker=_MARKERS[tier],
        markersize=4.5,
        linewidth=1.2,
        label=tier,
    )


def _explain(figure: Figure) -> None:
    figure.supxlabel(f"x: {ELSEWHERE}", fontsize=8, color="#666666")
