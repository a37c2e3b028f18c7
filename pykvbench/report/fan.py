"""The picture of a decode run: the fan of trajectories, total against budget, and when each was measured."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pykvbench.analysis.arms import Arm, read_arms
from pykvbench.analysis.decomposition import decompose
from pykvbench.analysis.finding import BudgetRow, CellResult, Finding, Result
from pykvbench.analysis.levels import median_over_sweeps
from pykvbench.errors import UsageError
from pykvbench.record import Run
from pykvbench.report import numbers, trajectory_table
from pykvbench.report.marks import ALARM
from pykvbench.report.plot import SUFFIXES
from pykvbench.report.save import save
from pykvbench.report.sentence import span
from pykvbench.report.thin import thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _ROW, _DPI = 14.0, 4.9, 130  # inches, and dots an inch
_LEFT, _GAP, _RIGHT, _TOP, _BOTTOM = 0.8, 0.75, 0.25, 1.05, 0.6  # inches around and between panels
_SHARES = (0.5, 0.25, 0.25)  # of the width, for the three panels
_TALLEST = 480.0  # inches; Agg draws at most 65,536 pixels
_POINTS = 3000  # of one line
_NAMED = 8  # budgets named in the colour legend
_BY_LENGTH = ("spike", "regime", "periodic", "comb", "intermittent", "first-visit")
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def draw(run: Run, result: Result, path: str | os.PathLike[str]) -> None:
    """Draw a decode run's `result` to `path` (.png, .svg or .pdf), a row of panels for each cell and prompt.

    Left: step time against KV length, the median of repeats for each budget. Middle: total against budget, repeats as
    dots. Right: each trajectory's cost against when it was measured, lengths taken out. Raises UsageError when the
    suffix is unknown, there is nothing to draw, or `path` cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is not a kind of picture that can be drawn; let its name end in .png, .svg or .pdf.")
    rows = [(cell, arm) for index, cell in enumerate(result.cells) for arm in read_arms(run, index)[0]]
    if not rows:
        raise UsageError("There is nothing to draw, since no trajectory was measured; name a run of `decode`.")
    picture = _render(rows, suffix)
    save(picture, path)


def _render(rows: Sequence[tuple[CellResult, Arm]], suffix: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    # The user's own matplotlib settings must not change what a picture in a public issue looks like.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"font.size": 9.0, "svg.hashsalt": "pykvbench"})
        height = _ROW * len(rows)
        figure = Figure(figsize=(_WIDTH, height), dpi=min(_DPI, _DPI * _TALLEST / height))
        for number, (cell, arm) in enumerate(rows):
            _row(figure, cell, arm, height - _ROW * number, height)
        file = io.BytesIO()
        figure.savefig(file, format=suffix[1:], metadata=_METADATA[suffix])
    return file.getvalue()


def _row(figure: Figure, cell: CellResult, arm: Arm, top: float, height: float) -> None:
    """One cell after one prompt: its heading and three panels."""
    inner = _WIDTH - _LEFT - _RIGHT - 2 * _GAP
    left, axes = _LEFT, []
    for share in _SHARES:
        box = (left / _WIDTH, (top - _ROW + _BOTTOM) / height, share * inner / _WIDTH, (_ROW - _TOP - _BOTTOM) / height)
        axes.append(figure.add_axes(box))
        left += share * inner + _GAP
    rows = [row for row in cell.budgets if row.prompt == arm.prompt]
    _fan(axes[0], cell.findings, arm)
    _totals(axes[1], rows)
    _times(axes[2], arm)

    def write(text: str, below_top: float, size: float, **style: Any) -> None:
        figure.text(_LEFT / _WIDTH, (top - below_top) / height, text, fontsize=size, va="top", **style)

    simulated = "   SIMULATED DEVICE: programmed times, not a measurement" if cell.cell.startswith("simulated") else ""
    write(f"{cell.cell}, prompt {arm.prompt}{simulated}", 0.12, 11, weight="bold")
    said = textwrap.wrap(trajectory_table.verdict(cell), 175, max_lines=2, placeholder=" ...")
    write("\n".join(said), 0.38, 9.5)


def _fan(axes: Axes, findings: Sequence[Finding], arm: Arm) -> None:
    """Step time against KV length: one line a budget, and findings by length."""
    from matplotlib.lines import Line2D

    budgets = np.unique(arm.budget)
    lines = [(int(b), median_over_sweeps(arm.ns[arm.budget == b])) for b in budgets]
    unit = numbers.unit_for(np.concatenate([line[~np.isnan(line)] for _, line in lines]).tolist())
    for budget, line in reversed(lines):  # small budgets above: the large ones show beyond their end
        kept = thin(arm.lengths, line, _POINTS)
        axes.plot(arm.lengths[kept], line[kept] / unit.size, lw=1.0, color=_colour(budget, budgets), alpha=0.85)
    axes.set_yscale("log")
    for finding in findings:
        first, last = finding.lengths
        if finding.kind not in _BY_LENGTH or last < arm.lengths[0] or first > arm.lengths[-1]:
            continue
        if first < last and finding.kind in ("regime", "intermittent"):
            axes.axvspan(first - 0.5, last + 0.5, color=ALARM, alpha=0.15, lw=0, zorder=0)
        else:
            axes.axvline(first, color=ALARM, lw=0.7, ls=":", zorder=0)
        ratio = f": {numbers.ratio(finding.ratio)}" if finding.ratio else ""
        text = f" {finding.kind} {span(finding.lengths)}{ratio}"
        right = first > arm.lengths[0] + 0.6 * len(arm.lengths)
        place, across = (first, 0.985 - 0.05 * (findings.index(finding) % 5)), axes.get_xaxis_transform()
        side = "right" if right else "left"
        axes.annotate(text, place, xycoords=across, fontsize=8, color=ALARM, va="top", ha=side)
    shown = budgets[np.unique(np.linspace(0, len(budgets) - 1, _NAMED).round().astype(int))].tolist()
    handles = [Line2D([], [], color=_colour(b, budgets), lw=2, label=str(b)) for b in shown]
    reach = len(arm.lengths)
    axes.set_xlim(arm.lengths[0] - 0.02 * reach, arm.lengths[-1] + 0.15 * reach)  # the legend stands beyond the lines
    axes.legend(handles=handles, title="budget", fontsize=7.5, title_fontsize=8, loc="center right", framealpha=0.8)
    axes.set_xlabel("KV length (prompt + step)")
    axes.set_ylabel(f"time per step ({unit.name}), median of repeats")
    _ticks(axes)


def _totals(axes: Axes, rows: Sequence[BudgetRow]) -> None:
    """Total against budget: repeats as dots, medians as a line, slow budgets ringed, and the arm without a cache."""
    known = [row for row in rows if row.totals_ns]
    unit = numbers.unit_for([row.total_ns for row in known])
    budgets = np.array([row.budget for row in rows])
    for row in known:
        dots = np.array(row.totals_ns) / unit.size
        axes.plot([row.budget] * len(dots), dots, "o", ms=3.5, mew=0, alpha=0.7, color=_colour(row.budget, budgets))
    medians = [row.total_ns / unit.size for row in known]
    axes.plot([row.budget for row in known], medians, "-", lw=1.0, color="#222222", label="median of repeats")
    slow = [row for row in known if row.slow]
    if slow:
        at = [row.budget for row in slow], [row.total_ns / unit.size for row in slow]
        axes.plot(*at, "o", ms=10, mfc="none", mec=ALARM, mew=1.5, label="slow at the same lengths")
    off = [row for row in rows if row.off_ns is not None]
    if off:
        costs = [(row.off_ns or np.nan) / unit.size for row in off]
        axes.plot([row.budget for row in off], costs, "s--", ms=3.5, lw=1.0, color="#777777", label="without a cache")
    axes.set_yscale("log")
    axes.set_xlabel("budget (tokens generated)")
    axes.set_ylabel(f"total ({unit.name})")
    axes.legend(fontsize=7.5, framealpha=0.8)
    _ticks(axes)


def _times(axes: Axes, arm: Arm) -> None:
    """Each trajectory's cost, its lengths taken out, against when it ran: a slow half hour stands together here."""
    seconds = arm.middle_ns / 1e9
    minutes = bool(seconds.max() > 600)
    ratio = np.exp(decompose(arm, skip_first_visits=False, min_ratio=1.10).excess)
    budgets = np.unique(arm.budget)
    colours = [_colour(int(budget), budgets) for budget in arm.budget]
    axes.scatter(seconds / (60 if minutes else 1), ratio, s=16, lw=0, c=colours)
    axes.set_yscale("log")
    axes.set_xlabel(f"when it was measured ({'minutes' if minutes else 'seconds'} into the run)")
    axes.set_ylabel("trajectory / fast ones at its lengths (x)")
    _ticks(axes)


def _colour(budget: int, budgets: Any) -> tuple[float, float, float, float]:
    """A budget's colour, the same in all panels: through viridis without its pale end."""
    import matplotlib

    place = int(np.searchsorted(budgets, budget))
    red, green, blue, alpha = matplotlib.colormaps["viridis"](0.9 * place / max(1, len(budgets) - 1))
    return float(red), float(green), float(blue), float(alpha)


def _ticks(axes: Axes) -> None:
    """Plain numbers on a log axis with at least a factor of 1.5 from bottom to top, so that noise looks like noise."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axes.get_ylim()
    if high / low < 1.5:
        middle = (low * high) ** 0.5
        low, high = middle / 1.5**0.5, middle * 1.5**0.5
    axes.set_ylim(low, high * (high / low) ** 0.12)
    even = MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high / low > 8 else even)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_axisbelow(True)
    axes.grid(True, color="#E6E6E6", lw=0.6)
