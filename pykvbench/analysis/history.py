"""Which of several runs has which finding: where one appeared, and where it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pykvbench.analysis.finding import CellResult, Finding
from pykvbench.analysis.side_by_side import KINDS, missing, same_finding

_STATES = {"absent": "no", "unseen": "cannot tell", "unmeasured": "not measured"}


@dataclass(frozen=True)
class Row:
    """One finding over the runs: its ratio in each, or why there is none."""

    cell: str
    kind: str
    lengths: tuple[int, int]
    entries: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {"cell": self.cell, "kind": self.kind, "lengths": list(self.lengths), "runs": list(self.entries)}


def history(cells: Sequence[Sequence[CellResult | None]]) -> tuple[Row, ...]:
    """A row for each finding of each cell; `cells` holds one cell's results in all runs, None where a run lacks it."""
    rows = []
    for results in cells:
        label = next(result.cell for result in results if result is not None)
        rows += [_row(label, finding, results) for finding in _distinct(results)]
    return tuple(rows)


def _distinct(results: Sequence[CellResult | None]) -> list[Finding]:
    found: list[Finding] = []
    for result in results:
        for finding in result.findings if result is not None else ():
            if finding.kind in KINDS and not any(same_finding(finding, other) for other in found):
                found.append(finding)
    return sorted(found, key=lambda finding: finding.lengths)


def _row(label: str, finding: Finding, results: Sequence[CellResult | None]) -> Row:
    return Row(label, finding.kind, finding.lengths, tuple(_entry(finding, result) for result in results))


def _entry(finding: Finding, result: CellResult | None) -> str:
    if result is None:
        return _STATES["unmeasured"]
    for other in result.findings:
        if same_finding(finding, other):
            return f"{other.ratio:.2f}x" if other.ratio is not None else "yes"
    return _STATES[missing(finding, result)]
