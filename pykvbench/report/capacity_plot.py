"""The picture of a capacity run: memory against tokens held, the tail against concurrency, and what policies cost."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pykvbench.analysis.capacity_table import CapacityRow, CapacityTable, middle
from pykvbench.analysis.finding import CellResult, Result
from pykvbench.errors import UsageError
from pykvbench.record import Run
from pykvbench.report import capacity_text, numbers
from pykvbench.report.marks import ALARM
from pykvbench.report.plot import SUFFIXES
from pykvbench.report.save import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _ROW, _DPI = 14.0, 4.9, 130  # inches, and dots an inch
_LEFT, _GAP, _RIGHT, _TOP, _BOTTOM = 0.8, 0.85, 0.25, 1.05, 0.6  # inches around and between panels
_TALLEST = 480.0  # inches; Agg draws at most 65,536 pixels
_COUNTERS = (("caches", "o"), ("live", "s"), ("driver", "^"), ("rss", "x"))
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def draw(run: Run, result: Result, path: str | os.PathLike[str]) -> None:
    """Draw a capacity run's `result` to `path` (.png, .svg or .pdf), a row of panels for each cell.

    Left: memory against sequences x tokens, predicted as a line and measured as marks. Middle: p50 and p99 against
    concurrency without a limit. Right: p99 against concurrency under each policy at the longest context that has
    any. Raises UsageError when the suffix is unknown, nothing was served, or `path` cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is not a kind of picture that can be drawn; let its name end in .png, .svg or .pdf.")
    cells = [
        (cell, cell.capacity)
        for cell in result.cells
        if cell.capacity is not None and any(row.served for row in cell.capacity.rows)
    ]
    if not cells:
        raise UsageError("There is nothing to draw, since nothing was served; name a run of `capacity` that was.")
    save(_render(run, cells, suffix), path)


def _render(run: Run, cells: Sequence[tuple[CellResult, CapacityTable]], suffix: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    # The user's own matplotlib settings must not change what a picture in a public issue looks like.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"font.size": 9.0, "svg.hashsalt": "pykvbench"})
        height = _ROW * len(cells)
        figure = Figure(figsize=(_WIDTH, height), dpi=min(_DPI, _DPI * _TALLEST / height))
        for number, (cell, table) in enumerate(cells):
            _row(figure, run, cell, table, height - _ROW * number, height)
        file = io.BytesIO()
        figure.savefig(file, format=suffix[1:], metadata=_METADATA[suffix])
    return file.getvalue()


def _row(figure: Figure, run: Run, cell: CellResult, table: CapacityTable, top: float, height: float) -> None:
    """One cell: its heading and three panels."""
    share = (_WIDTH - _LEFT - _RIGHT - 2 * _GAP) / 3
    axes = [
        figure.add_axes(
            (
                (_LEFT + place * (share + _GAP)) / _WIDTH,
                (top - _ROW + _BOTTOM) / height,
                share / _WIDTH,
                (_ROW - _TOP - _BOTTOM) / height,
            )
        )
        for place in range(3)
    ]
    free = [row for row in table.rows if row.policy == "none"]
    _memory(axes[0], table, int(run.plan.get("tokens") or 0))
    _tails(axes[1], free)
    _policies(axes[2], table)

    def write(text: str, below_top: float, size: float, **style: Any) -> None:
        figure.text(_LEFT / _WIDTH, (top - below_top) / height, text, fontsize=size, va="top", **style)

    simulated = "   SIMULATED DEVICE: programmed times, not a measurement" if cell.cell.startswith("simulated") else ""
    write(f"{cell.cell}{simulated}", 0.12, 11, weight="bold")
    said = capacity_text.verdict(cell)
    write(said if len(said) < 180 else f"{said[:176]} ...", 0.38, 9.5)


def _memory(axes: Axes, table: CapacityTable, tokens: int) -> None:
    """Bytes against sequences x tokens: one straight line, since memory is linear in their product."""
    rows = [row for row in table.rows if row.policy == "none"]
    unit = numbers.unit_for([row.needed for row in rows], numbers.SIZES)
    across = np.array([row.concurrency * (row.context + tokens) for row in rows], dtype=np.float64)
    order = np.argsort(across)
    needed = np.array([row.needed for row in rows]) / unit.size
    axes.plot(across[order], needed[order], "-", lw=1.2, color="#222222", label="predicted")
    for counter, mark in _COUNTERS:
        values = np.array([row.memory.get(counter, np.nan) for row in rows]) / unit.size
        if np.isfinite(values).any():
            axes.plot(across, values, mark, ms=5, mfc="none", label=f"{counter}, measured", alpha=0.85)
    if table.budget is not None:
        axes.axhline(table.budget / unit.size, color=ALARM, lw=1.0, ls="--", label="budget")
    axes.set_xlim(0)
    axes.set_ylim(0)
    _finish(axes, "sequences x tokens", f"memory of all caches ({unit.name})")


def _tails(axes: Axes, rows: Sequence[CapacityRow]) -> None:
    """p50 dashed and p99 solid against concurrency, a colour a context, repeats as a band."""
    import matplotlib

    contexts = sorted({row.context for row in rows})
    unit = numbers.unit_for([middle(row.p50_ns) for row in rows])
    for place, context in enumerate(contexts):
        colour = matplotlib.colormaps["viridis"](0.9 * place / max(1, len(contexts) - 1))
        curve = [row for row in rows if row.context == context and row.served]
        _curve(axes, curve, unit, colour, f"{context} tokens")
    _logarithmic(axes)
    _finish(axes, "sequences served at once, no limit", f"p99 (solid) and p50 (dashed) ({unit.name})")


def _policies(axes: Axes, table: CapacityTable) -> None:
    """The longest context at which policies were at work, or the longest one."""
    import matplotlib

    limited = [row for row in table.rows if row.policy != "none" and row.served]
    context = max(row.context for row in limited or table.rows)
    free = [row for row in table.rows if row.context == context and row.policy == "none"]
    unit = numbers.unit_for([middle(row.p50_ns) for row in free])
    policies = list(dict.fromkeys(row.policy for row in limited if row.context == context))
    for place, policy in enumerate(["none", *policies]):
        known = {row.concurrency: row for row in limited if row.context == context and row.policy == policy}
        curve = [known.get(row.concurrency, row) for row in free]
        colour = (0.5, 0.5, 0.5, 1.0) if policy == "none" else matplotlib.colormaps["tab10"](place - 1)
        _curve(axes, [row for row in curve if row.served], unit, colour, "no limit" if policy == "none" else policy)
    predicted = next((knee.predicted for knee in table.knees if knee.context == context and knee.predicted), None)
    if predicted is not None:
        axes.axvline(predicted, color=ALARM, lw=0.8, ls=":", label="budget too small from here")
    _logarithmic(axes)
    _finish(axes, f"sequences of {context} tokens served at once", f"p99 (solid) and p50 (dashed) ({unit.name})")


def _curve(axes: Axes, rows: Sequence[CapacityRow], unit: numbers.Unit, colour: Any, label: str) -> None:
    if not rows:
        return
    across = [row.concurrency for row in rows]
    axes.plot(across, [middle(row.p99_ns) / unit.size for row in rows], "o-", ms=3.5, lw=1.2, color=colour, label=label)
    axes.plot(across, [middle(row.p50_ns) / unit.size for row in rows], "--", lw=0.9, color=colour)
    ends = [[end(row.p99_ns) / unit.size for row in rows] for end in (min, max)]
    axes.fill_between(across, ends[0], ends[1], color=colour, alpha=0.15, lw=0)


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def _finish(axes: Axes, across: str, up: str) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.legend(fontsize=7.5, framealpha=0.8)
    axes.set_axisbelow(True)
    axes.grid(True, color="#E6E6E6", lw=0.6)
