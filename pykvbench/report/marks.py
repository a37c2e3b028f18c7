"""What is drawn onto a curve: findings circled or shaded, their labels, and numbered landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pykvbench.analysis.finding import CellResult, Finding, Floats
from pykvbench.report import numbers
from pykvbench.report.labels import Spot, spots
from pykvbench.report.sentence import span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALARM, LANDMARK = "#D55E00", "#0072B2"  # Okabe and Ito's vermilion and blue, which colour-blind readers tell apart
ROW = 0.07  # the height of a row of labels, as a share of the axis
_CIRCLED = ("spike", "intermittent", "first-visit", "wrong-result")
_SHADED = ("regime", "intermittent", "wrong-result")
_LABELLED, _ROWS = 12, 5  # labels at most, and their rows
_SHADES = 200  # shaded spans at most; more could not be told apart
_CHARACTER = 5.4  # points that a character of an 8-point label takes, rounded up


def findings(axes: Axes, cell: CellResult, unit: numbers.Unit, points: float) -> int:
    """Circle and shade what was found, label the largest; the number of label rows used."""
    circled = [finding for finding in cell.findings if is_circled(finding)]
    shaded = [finding for finding in cell.findings if is_shaded(finding)]
    heights = {id(finding): _height(cell, finding) / unit.size for finding in circled}
    at = [_place(finding) for finding in circled]
    axes.plot(at, list(heights.values()), "o", ms=10, mfc="none", mec=ALARM, mew=1.6, zorder=6)
    for finding in shaded[:_SHADES]:
        axes.axvspan(finding.lengths[0], finding.lengths[1], color=ALARM, alpha=0.15, lw=0, zorder=0)
    largest = sorted(circled + shaded, key=lambda finding: -(finding.ratio or np.inf))[:_LABELLED]
    largest.sort(key=lambda finding: finding.lengths)
    texts = [_text(finding) for finding in largest]
    fractions = _fractions(axes, np.array([_place(finding) for finding in largest], dtype=np.float64))
    placed = spots(fractions.tolist(), [len(text) * _CHARACTER / points for text in texts], _ROWS)
    for finding, text, spot in zip(largest, texts, placed, strict=True):
        if spot is not None:
            _label(axes, text, spot, _place(finding), heights.get(id(finding), np.nan))
    return max((spot.row + 1 for spot in placed if spot is not None), default=0)


def _label(axes: Axes, text: str, spot: Spot, x: float, y: float) -> None:
    """Write a label into its row, with a thin line down to (x, y), or to the axis when y is missing."""
    across, top = axes.get_xaxis_transform(), 1 - ROW * spot.row - 0.01
    words, side = (text, "left") if spot.right else (f"{text.strip()} ", "right")
    # A landmark's line may pass behind the words; on a shaded stretch a white plate would be worse than that.
    plate = {"facecolor": "white", "alpha": 0.7 if np.isfinite(y) else 0.0, "lw": 0, "pad": 0.5}
    axes.text(x, top, words, transform=across, ha=side, va="top", fontsize=8, color=ALARM, bbox=plate, zorder=7)
    if np.isfinite(y):
        line = {"arrowstyle": "-", "color": ALARM, "lw": 0.7, "shrinkA": 0, "shrinkB": 5}
        axes.annotate("", xy=(x, y), xytext=(x, top), textcoords=across, arrowprops=line, zorder=3)
    else:
        axes.axvline(x, ymax=top, color=ALARM, lw=0.7, zorder=3)


def landmark_lines(axes: Axes, landmarks: Sequence[tuple[int, int]], points: float) -> None:
    """Thin lines with their numbers above the axis; numbers that would touch are joined with commas."""
    for length in {length for length, _ in landmarks}:
        axes.axvline(length, color=LANDMARK, lw=0.7, ls=":", zorder=1)
    fractions = _fractions(axes, np.array([length for length, _ in landmarks], dtype=np.float64))
    groups: list[tuple[float, list[int]]] = []
    for fraction, (_, number) in zip(fractions.tolist(), landmarks, strict=True):
        if groups and (fraction - groups[-1][0]) * points < 7 * len(",".join(map(str, groups[-1][1]))) + 7:
            if number not in groups[-1][1]:
                groups[-1][1].append(number)
        else:
            groups.append((fraction, [number]))
    for fraction, joined in groups:
        text = ",".join(map(str, joined))
        axes.text(fraction, 1.01, text, transform=axes.transAxes, ha="left", va="bottom", fontsize=7.5, color=LANDMARK)


def undrawn(cell: CellResult) -> tuple[str, ...]:
    """Kind and ratio of every finding that has no place in a picture, such as drift."""
    others = [finding for finding in cell.findings if not is_circled(finding) and not is_shaded(finding)]
    return tuple(dict.fromkeys(f"{finding.kind}{_ratio(finding)}" for finding in others))


def is_circled(finding: Finding) -> bool:
    """Whether a finding is about one length, and gets a circle there."""
    return (finding.kind in _CIRCLED and finding.lengths[0] == finding.lengths[1]) or finding.kind == "step"


def is_shaded(finding: Finding) -> bool:
    """Whether a finding is about a stretch of lengths, and gets a shade over them."""
    return finding.kind in _SHADED and finding.lengths[0] != finding.lengths[1]


def _place(finding: Finding) -> int:
    """The length a finding is drawn at: its first, and for a step the one after it."""
    return finding.lengths[1] if finding.kind == "step" else finding.lengths[0]


def _text(finding: Finding) -> str:
    """A label that begins with the gap to its line: ` 421: 21.3x`, ` step 470: 0.80x`."""
    where = str(_place(finding)) if finding.kind == "step" else span(finding.lengths)
    kind = "" if finding.kind == "spike" else f"{finding.kind} "
    return f" {kind}{where}" + (f":{_ratio(finding)}" if finding.ratio is not None else "")


def _height(cell: CellResult, finding: Finding) -> float:
    """Where a finding's circle goes, in ns: what was dear there."""
    curve = cell.curve
    index = min(int(np.searchsorted(curve.lengths, _place(finding))), len(curve.lengths) - 1)
    if finding.kind == "first-visit" and curve.first_ns is not None:
        return float(curve.first_ns[index])
    if finding.kind == "intermittent" and np.isfinite(curve.sweeps_ns[:, index]).any():
        return float(np.nanmax(curve.sweeps_ns[:, index]))
    return float(curve.median_ns[index])


def _ratio(finding: Finding) -> str:
    return "" if finding.ratio is None else f" {numbers.ratio(finding.ratio)}"


def _fractions(axes: Axes, lengths: Floats) -> Floats:
    """Where lengths stand on the x axis, as fractions of it."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "log":
        return np.asarray(np.log(lengths / low) / np.log(high / low))
    return np.asarray((lengths - low) / (high - low))
