"""Which finding of a run a bug report is about, and the lengths that show it: the slow ones and those beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.finding import CellResult, Curve, Finding, Ints, Result

KINDS = ("wrong-result", "spike", "regime", "periodic", "comb", "intermittent", "step")  # worth reporting, most first
_SLOW = 5  # lengths that a reproducer steps through; of a wider stretch the dearest
_BESIDE = 12  # lengths beside them, together


@dataclass(frozen=True)
class Case:
    """One finding with the lengths that show it.

    `slow` are lengths that it is about, `others` lengths of the same run that no finding covers, the nearest ones and
    at least one longer than any slow one, against which the slow ones are judged. `ratio` is what was claimed, at
    least 1; None where a ratio means nothing (wrong-result).
    """

    cell: int  # index into the run's cells
    finding: Finding
    slow: tuple[int, ...]
    others: tuple[int, ...]
    ratio: float | None


def case_of(result: Result) -> Case | None:
    """The case that a report of this result is about, None when no length is slow or wrong.

    A wrong result comes before any time, a confirmed finding before an apparent one, what is in every process before
    what is in some, and the largest before others. Rises are none: a range that goes on may explain them.
    """
    found = [
        (index, finding) for index, cell in enumerate(result.cells) for finding in cell.findings if _is_case(finding)
    ]
    if not found:
        return None
    index, finding = min(found, key=lambda one: _rank(one[1]))
    cell = result.cells[index]
    slow = _slow(cell.curve, finding)
    others = _others(cell, slow)
    return Case(index, finding, slow, others, _claim(finding)) if slow and others else None


def _is_case(finding: Finding) -> bool:
    drop = finding.kind == "step" and finding.ratio is not None and finding.ratio < 1
    return finding.kind in KINDS and (finding.kind != "step" or drop)


def _rank(finding: Finding) -> tuple[bool, bool, bool, float]:
    return (
        finding.kind != "wrong-result",
        finding.confidence != "confirmed",
        finding.kind == "intermittent",
        -(_claim(finding) or 0.0),
    )


def _claim(finding: Finding) -> float | None:
    """How many times too much the slow lengths cost; a drop's ratio is new over old, so its inverse."""
    return finding.ratio if finding.ratio is None or finding.ratio >= 1 else 1 / finding.ratio


def _slow(curve: Curve, finding: Finding) -> tuple[int, ...]:
    """The dearest lengths of a finding, those that carry at least half of its excess (as a logarithm), ascending.

    A comb's or a periodic finding's span holds ordinary lengths too. An intermittent excess, or a wrong result, does
    not show in the median; then all of the span counts.
    """
    first, last = finding.lengths
    if finding.kind == "step":
        before = curve.lengths[curve.lengths <= first]
        return tuple(int(length) for length in before[-_SLOW:])
    inside = (curve.lengths >= first) & (curve.lengths <= last)
    excess = np.where(inside, _excess(curve), np.nan)
    if finding.kind in ("intermittent", "wrong-result") or finding.ratio is None:
        return tuple(int(length) for length in _spread(curve.lengths[inside]))
    dear = np.flatnonzero(excess >= math.log(finding.ratio) / 2)
    dear = dear if len(dear) else np.flatnonzero(inside)
    dearest = dear[np.argsort(-np.nan_to_num(excess[dear]), kind="stable")][:_SLOW]
    return tuple(sorted(int(curve.lengths[at]) for at in dearest))


def _others(cell: CellResult, slow: tuple[int, ...]) -> tuple[int, ...]:
    """The nearest measured lengths that no finding covers, ascending, one of them longer than every slow one."""
    curve = cell.curve
    if not slow:
        return ()
    free = np.isfinite(curve.median_ns) & ~np.isin(curve.lengths, slow)
    excess = _excess(curve)
    for finding in cell.findings:
        if not _is_case(finding) or finding.lengths[1] - finding.lengths[0] > len(curve.lengths) // 2:
            continue
        covered = (curve.lengths >= finding.lengths[0]) & (curve.lengths <= finding.lengths[1])
        free &= ~covered if finding.kind != "step" else curve.lengths > finding.lengths[0]
    free &= ~(excess > 0.5 * _least(cell))
    candidates = curve.lengths[free]
    longer = candidates[candidates > max(slow)]
    if not len(longer):
        return ()
    distance = np.abs(candidates[:, None] - np.array(slow)).min(axis=1)
    near = candidates[np.argsort(distance, kind="stable")][:_BESIDE]
    if not (near > max(slow)).any():
        near = np.append(near[:-1], longer[0])
    return tuple(sorted(int(length) for length in near))


def _least(cell: CellResult) -> float:
    """The logarithm of the smallest claim among the cell's findings, infinity without any."""
    claims = [_claim(finding) for finding in cell.findings if _is_case(finding)]
    return min((math.log(claim) for claim in claims if claim is not None and claim > 1), default=math.inf)


def _excess(curve: Curve) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The logarithm of cost over baseline: [n], NaN where nothing was measured."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(curve.median_ns / curve.baseline_ns), dtype=np.float64)


def _spread(lengths: Ints) -> Ints:
    """At most _SLOW of some lengths, the first and the last among them."""
    if len(lengths) <= _SLOW:
        return lengths
    return np.asarray(lengths[np.linspace(0, len(lengths) - 1, _SLOW).astype(np.int64)], dtype=np.int64)
