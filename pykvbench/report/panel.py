"""The two panels of a cell's picture: cost against length, and cost against time of measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pykvbench.analysis.finding import CellResult, Floats, Ints
from pykvbench.record import Visits
from pykvbench.report import marks, numbers
from pykvbench.report.thin import thin

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

MEDIAN, BASELINE, FIRST = "#222222", "#777777", "#9A9A9A"
_FLATTEST = 1.5  # the least ratio of top to bottom, so that noise of a percent looks like one
_OFF_SCALE = 2.0  # first calls above this many times the dearest visit are told, not shown
_RASTERISE = 2000  # dots beyond which .svg and .pdf hold them as an image


def against_length(
    axes: Axes, cell: CellResult, unit: numbers.Unit, landmarks: Sequence[tuple[int, int]], points: float
) -> None:
    """Visits, medians, baseline, first calls and findings over length; `points` is the panel's width.

    `landmarks` are (length, number); the number is written above a thin line.
    """
    curve, lengths = cell.curve, cell.curve.lengths
    set_lengths(axes, lengths)
    axes.set_axisbelow(True)
    _dots_by_sweep(axes, lengths, curve.sweeps_ns / unit.size)
    drawn = [curve.median_ns, curve.sweeps_ns]
    if curve.first_ns is not None and not first_off_scale(cell):
        drawn.append(curve.first_ns)
        kept = thin(lengths, curve.first_ns, 2000)
        axes.plot(lengths[kept], curve.first_ns[kept] / unit.size, "x", color=FIRST, ms=3.5, mew=0.7, zorder=1)
    kept = thin(lengths, curve.median_ns)
    dotted = "o-" if len(lengths) <= 40 else "-"
    axes.plot(lengths[kept], curve.median_ns[kept] / unit.size, dotted, color=MEDIAN, lw=1.1, ms=3, zorder=4)
    axes.plot(lengths[kept], curve.baseline_ns[kept] / unit.size, "--", color=BASELINE, lw=1.2, zorder=5)
    axes.set_yscale("log")
    axes.set_ylabel(f"time per step ({unit.name})")
    axes.grid(True, color="#E6E6E6", lw=0.6)
    low, high = _extent(drawn, unit)
    used = marks.findings(axes, cell, unit, points)
    # The labels' rows stand above the data: stretch the axis so that the data end below them.
    share = 1 - marks.ROW * used - 0.04
    axes.set_ylim(low, low * (high / low) ** (1 / share))
    tick_costs(axes)
    marks.landmark_lines(axes, landmarks, points)


def against_time(axes: Axes, visits: Visits, sweeps: int, unit: numbers.Unit) -> None:
    """The same visits over the time at which they were made, to show drift; one colour for each of `sweeps`."""
    seconds = visits.at / 1e9
    minutes = bool(len(seconds)) and seconds.max() > 600
    values = np.where(visits.correct, np.median(visits.total, axis=1) / unit.size, np.nan)
    kept = thin(seconds, values)
    _dots(axes, seconds[kept] / (60 if minutes else 1), values[kept], visits.sweep[kept], sweeps)
    axes.set_xlabel(f"when it was measured ({'minutes' if minutes else 'seconds'} since the run began)")
    axes.tick_params(labelleft=False)
    axes.set_axisbelow(True)
    axes.grid(True, color="#E6E6E6", lw=0.6)


def legend(cells: Sequence[CellResult]) -> list[Artist]:
    """What the marks mean; only those that are used."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    found = [finding for cell in cells for finding in cell.findings]
    single = all(len(cell.curve.sweeps_ns) == 1 for cell in cells)
    visit = "visit" if single else "visit (a colour each sweep)"
    handles: list[Artist] = [
        Line2D([], [], ls="", marker="o", ms=4, color=_colours(np.array([0 if single else 1]), 3)[0], label=visit),
        Line2D([], [], color=MEDIAN, lw=1.1, label="median over sweeps"),
        Line2D([], [], color=BASELINE, ls="--", lw=1.2, label="baseline: cheapest of this length and all longer"),
    ]
    if any(cell.curve.first_ns is not None and not first_off_scale(cell) for cell in cells):
        handles.append(Line2D([], [], ls="", marker="x", ms=4, color=FIRST, label="first call"))
    if any(marks.is_circled(finding) for finding in found):
        handles.append(Line2D([], [], ls="", marker="o", ms=9, mfc="none", mec=marks.ALARM, label="finding"))
    if any(marks.is_shaded(finding) for finding in found):
        handles.append(Patch(color=marks.ALARM, alpha=0.15, lw=0, label="lengths of a finding"))
    return handles


def first_off_scale(cell: CellResult) -> bool:
    """Whether first calls are so dear that showing them would flatten the curve; never when one is a finding."""
    first = cell.curve.first_ns
    if first is None or not np.isfinite(first).any() or any(finding.kind == "first-visit" for finding in cell.findings):
        return False
    return bool(np.nanmedian(first) > _OFF_SCALE * np.nanmax(cell.curve.sweeps_ns))


def _dots_by_sweep(axes: Axes, lengths: Ints, values: Floats) -> None:
    sweeps, count = values.shape
    flat = values.ravel()
    kept = thin(np.tile(lengths, sweeps), flat)
    _dots(axes, lengths[kept % count], flat[kept], kept // count, sweeps)


def _dots(axes: Axes, x: npt.NDArray[Any], y: Floats, sweep: Ints, sweeps: int) -> None:
    size = 9 if len(x) <= 2000 else 3
    colours = _colours(sweep, sweeps)
    axes.scatter(x, y, s=size, c=colours, lw=0, alpha=0.75, zorder=2, rasterized=len(x) > _RASTERISE)


def _colours(sweep: Ints, sweeps: int) -> npt.NDArray[Any]:
    """A colour for each sweep's number, through viridis without its pale end."""
    import matplotlib

    return np.asarray(matplotlib.colormaps["viridis"](0.85 * sweep / max(1, sweeps - 1)))


def _geometric(lengths: Ints) -> bool:
    """Whether the lengths are spaced by ratio rather than by difference, over more than a decade."""
    if len(lengths) < 3 or lengths[-1] <= 10 * lengths[0]:
        return False
    gaps, ratios = np.diff(lengths.astype(np.float64)), np.diff(np.log(lengths.astype(np.float64)))
    return bool(ratios.std() / ratios.mean() < gaps.std() / gaps.mean())


def set_lengths(axes: Axes, lengths: Ints) -> None:
    """A horizontal axis for these lengths, logarithmic where they are spaced by ratio, with round ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    if _geometric(lengths):
        axes.set_xscale("log")
    first, last = float(lengths[0]), float(lengths[-1])
    if axes.get_xscale() == "log":
        axes.set_xlim(first / (last / first) ** 0.02, last * (last / first) ** 0.02)
        axes.xaxis.set_major_locator(FixedLocator(lengths[:: -(-len(lengths) // 12)].tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        margin = max(1.0, 0.02 * (last - first))
        axes.set_xlim(first - margin, last + margin)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))


def tick_costs(axes: Axes) -> None:
    """Round numbers as ticks: a decade's 1, 2 and 5 when there are several decades, else evenly spaced ones."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axes.get_ylim()
    several = high / low > 8
    even = MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if several else even)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _extent(arrays: Sequence[Floats], unit: numbers.Unit) -> tuple[float, float]:
    """Bottom and top of what is drawn, with a little air."""
    known = [array[np.isfinite(array) & (array > 0)] for array in arrays]
    low = min(float(array.min()) for array in known if len(array)) / unit.size
    high = max(float(array.max()) for array in known if len(array)) / unit.size
    middle, half = np.sqrt(low * high), max(high / low, _FLATTEST) ** 0.5
    air = half**0.08
    return float(middle / half / air), float(middle * half * air)
