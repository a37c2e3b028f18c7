"""The picture of a comparison: both curves with the bands of their sweeps, the ratio below, crossovers marked."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pykvbench.analysis.comparison import FLOOR, Comparison, Side
from pykvbench.analysis.pairs import Report
from pykvbench.errors import UsageError
from pykvbench.report import marks, numbers
from pykvbench.report.comparison_text import headline, verdict
from pykvbench.report.panel import set_lengths, tick_costs
from pykvbench.report.plot import METADATA, SUFFIXES
from pykvbench.report.save import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00")  # Okabe and Ito's blue and vermilion
_LINES, _MARKERS = ("-", "--"), ("o", "s")  # told apart without colour as well
_CROSSING = "#009E73"
_WIDTH, _DPI, _HEIGHT = 10.0, 130, 6.6  # inches a comparison
_MOST = 40  # comparisons in one picture; Agg draws at most 65,536 pixels


def draw(report: Report, path: str | os.PathLike[str]) -> None:
    """Draw every comparison to `path` (.png, .svg or .pdf), one below the other; replaces a file that is there.

    Raises UsageError when the suffix is unknown, there are too many, or `path` cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path} is not a kind of picture that can be drawn; let its name end in .png, .svg or .pdf.")
    if len(report.comparisons) > _MOST:
        raise UsageError(
            f"{len(report.comparisons)} comparisons do not fit one picture of {_MOST}; compare fewer cells."
        )
    picture = _render(report.comparisons, suffix)
    save(picture, path)


def _render(comparisons: Sequence[Comparison], suffix: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():  # the user's own settings must not change a picture in a public issue
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"font.size": 9.0, "svg.hashsalt": "pykvbench"})
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(comparisons)), dpi=_DPI)
        for place, comparison in enumerate(comparisons):
            _one(figure, comparison, place, len(comparisons))
        file = io.BytesIO()
        figure.savefig(file, format=suffix[1:], metadata=METADATA[suffix])
    return file.getvalue()


def _one(figure: Figure, comparison: Comparison, place: int, places: int) -> None:
    def box(bottom: float, height: float) -> tuple[float, float, float, float]:
        return 0.08, (places - 1 - place + bottom) / places, 0.895, height / places

    times = figure.add_axes(box(0.40, 0.46))
    below = figure.add_axes(box(0.08, 0.27), sharex=times)
    _curves(times, comparison)
    _ratio(below, comparison)
    for crossing in comparison.crossovers:
        for axes in (times, below):
            axes.axvspan(crossing.low, crossing.high, color=_CROSSING, alpha=0.15, lw=0)
            axes.axvline(crossing.length, color=_CROSSING, lw=1.2)
        at = times.get_xaxis_transform()
        times.text(crossing.length, 0.02, f" crossover {crossing.length}", transform=at, color=_CROSSING, fontsize=8)
    top = (places - place - 0.02) / places
    simulated = any(side.name.startswith("simulated") for side in (comparison.first, comparison.second))
    title = f"{comparison.second.name} against {comparison.first.name}"
    figure.text(0.08, top, title, fontsize=11, weight="bold", va="top")
    said = [verdict(comparison), *(headline(c, comparison) for c in comparison.contrasts if c.is_headline)]
    lines = textwrap.wrap(" ".join(said), 125, max_lines=2, placeholder=" ...")
    figure.text(0.08, top - 0.045 / places, "\n".join(lines), va="top")
    if simulated:
        text = "SIMULATED DEVICE: programmed times"
        figure.text(0.975, top, text, color=marks.ALARM, weight="bold", va="top", ha="right")


def _curves(axes: Axes, comparison: Comparison) -> None:
    sides = (comparison.first, comparison.second)
    unit = numbers.unit_for([value for side in sides for value in side.median_ns.tolist()])
    for side, colour, line, marker in zip(sides, _COLOURS, _LINES, _MARKERS, strict=True):
        low, high = _band(side)
        axes.fill_between(comparison.lengths, low / unit.size, high / unit.size, color=colour, alpha=0.2, lw=0)
        dotted = marker + line if len(comparison.lengths) <= 40 else line
        axes.plot(comparison.lengths, side.median_ns / unit.size, dotted, color=colour, lw=1.2, ms=3.5, label=side.name)
    for contrast in comparison.contrasts:
        if contrast.is_headline:
            middle = sum(contrast.finding.lengths) / 2
            axes.axvline(middle, color=_COLOURS[contrast.first is None], lw=0.8, ls=":")
    set_lengths(axes, comparison.lengths)
    axes.set_yscale("log")
    axes.set_ylabel(f"time per step ({unit.name})")
    axes.tick_params(labelbottom=False)
    axes.grid(True, color="#E6E6E6", lw=0.6)
    axes.legend(
        loc="upper left",
        framealpha=0.8,
        edgecolor="none",
        title="median, and the range of the sweeps",
        title_fontsize=8,
    )
    tick_costs(axes)


def _ratio(axes: Axes, comparison: Comparison) -> None:
    known = np.isfinite(comparison.low)
    axes.fill_between(
        comparison.lengths, comparison.low, comparison.high, where=known, color="#555555", alpha=0.25, lw=0
    )
    axes.plot(comparison.lengths, comparison.ratio, color="#222222", lw=1.1)
    axes.axhspan(1 / (1 + FLOOR), 1 + FLOOR, color="#BBBBBB", alpha=0.35, lw=0)
    axes.axhline(1.0, color="#777777", lw=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("second / first")
    axes.set_xlabel("KV length (keys attended, the new one included)")
    axes.grid(True, color="#E6E6E6", lw=0.6)
    tick_costs(axes)


def _band(side: Side) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most of any sweep at each length."""
    return np.nanmin(side.sweeps_ns, axis=0), np.nanmax(side.sweeps_ns, axis=0)
