"""Which findings of a run are contrasted, at which lengths, and against which neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pykvbench.analysis.finding import CellResult, Finding, Result
from pykvbench.record import Run
from pykvbench.target import NEAR, REACH, Target

FINDINGS = 3  # a cell; each adds up to 11 lengths, and a process must stay short
LENGTHS = 3  # of one finding: its dearest, and those furthest from it
KINDS = ("spike", "regime", "periodic", "comb", "intermittent", "step", "first-visit")
WIDE = 0.5  # share of the lengths measured beyond which a finding has no neighbours to be contrasted with


@dataclass(frozen=True)
class Targets:
    """What will be contrasted, and a sentence on what will not, one each."""

    chosen: tuple[Target, ...]
    left_out: tuple[str, ...]


def targets(run: Run, result: Result) -> Targets:
    """The largest confirmed findings of each cell, with the lengths to contrast."""
    chosen: list[Target] = []
    left_out: list[str] = []
    capacity = int(run.visits.length.max()) if len(run.visits) else 0
    for index, cell in enumerate(result.cells):
        able = [finding for finding in cell.findings if _can(finding, cell)]
        largest = sorted(able, key=lambda finding: -_size(finding))[:FINDINGS]
        if len(able) > FINDINGS:
            left_out.append(f"{cell.cell}: the {FINDINGS} largest of {len(able)} findings are attributed.")
        for finding in sorted(largest, key=lambda one: one.lengths):
            found = _target(index, finding, cell, capacity)
            if found is not None:
                chosen.append(found)
    return Targets(tuple(chosen), tuple(left_out))


def _can(finding: Finding, cell: CellResult) -> bool:
    """Confirmed, of a kind that contrasts explain, and not of nearly every length, which leaves no neighbours."""
    first, last = finding.lengths
    inside = int(((cell.curve.lengths >= first) & (cell.curve.lengths <= last)).sum())
    wide = finding.kind == "first-visit" and inside > WIDE * len(cell.curve.lengths) and inside > 1
    return (
        finding.confidence == "confirmed" and finding.kind in KINDS and bool(finding.ratio) and not wide and inside > 0
    )


def _size(finding: Finding) -> float:
    return abs(float(np.log(finding.ratio or 1.0)))


def _target(index: int, finding: Finding, cell: CellResult, capacity: int) -> Target | None:
    slow = _slow(finding, cell)
    if finding.kind == "step":
        flagged, controls = _sides(finding, cell)
    else:
        flagged = _spread(slow, finding, cell)
        taken = {length for other in cell.findings if _covers(other) for length in _slow(other, cell)} | set(slow)
        around = {length + offset for length in flagged for offset in range(-REACH, REACH + 1)}
        controls = sorted(length for length in around - taken if 1 <= length <= capacity)
    near = tuple(length for length in controls if min(abs(length - one) for one in flagged) <= NEAR) or tuple(
        sorted(controls, key=lambda length: min(abs(length - one) for one in flagged))[: 2 * NEAR + 2]
    )
    if not flagged or not near:
        return None
    ratio = float(finding.ratio or 1.0)
    ratio = max(ratio, 1 / ratio)
    return Target(index, finding.kind, finding.lengths, ratio, tuple(flagged), tuple(controls), near)


def _covers(finding: Finding) -> bool:
    return finding.kind in KINDS and finding.kind != "first-visit"


def _slow(finding: Finding, cell: CellResult) -> list[int]:
    """The lengths of a finding that are slow themselves: of teeth, those that exceed half the finding's height."""
    first, last = finding.lengths
    inside = (cell.curve.lengths >= first) & (cell.curve.lengths <= last)
    if finding.kind in ("periodic", "comb"):
        with np.errstate(invalid="ignore"):
            height = np.log(cell.curve.median_ns / cell.curve.baseline_ns)
        inside &= height > np.log(finding.ratio or 1.0) / 2
    return [int(length) for length in cell.curve.lengths[inside]]


def _spread(slow: Sequence[int], finding: Finding, cell: CellResult) -> list[int]:
    """At most LENGTHS of the slow ones: the first, the dearest and the last."""
    if len(slow) <= LENGTHS:
        return list(slow)
    cost = {int(length): float(ns) for length, ns in zip(cell.curve.lengths, cell.curve.median_ns, strict=True)}
    middle = max(slow[1:-1], key=lambda length: cost[length])
    return [slow[0], middle, slow[-1]]


def _sides(finding: Finding, cell: CellResult) -> tuple[list[int], list[int]]:
    """A step's dear side and its cheap side, the measured lengths next to the edge."""
    lengths = [int(length) for length in cell.curve.lengths]
    old, new = finding.lengths
    before = [length for length in lengths if length <= old][-REACH:]
    after = [length for length in lengths if length >= new][:REACH]
    return (after[:LENGTHS], before) if (finding.ratio or 1.0) > 1 else (before[-LENGTHS:], after)
