"""Both curves' findings side by side: a spike in one and not in the other at the same length is the headline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pykvbench.analysis.finding import CellResult, Finding

KINDS = ("spike", "regime", "periodic", "comb", "intermittent", "step", "wrong-result")
DEAR = ("spike", "regime", "periodic", "comb")  # lengths that cost more than longer ones


@dataclass(frozen=True)
class Contrast:
    """A finding of one cell or of both at the same lengths.

    `missing` says of the cell without it: "absent" (it would have been seen), "unseen" (it could not have been seen) or
    "unmeasured"; it is empty where both have it.
    """

    first: Finding | None
    second: Finding | None
    missing: str

    @property
    def finding(self) -> Finding:
        """The finding, the first cell's where both have it."""
        found = self.first or self.second
        assert found is not None
        return found

    @property
    def is_headline(self) -> bool:
        """Whether one cell has it and the other certainly not."""
        return self.missing == "absent"

    def to_json(self) -> dict[str, Any]:
        """Plain values for the JSON document."""
        return {
            "first": self.first.to_json() if self.first else None,
            "second": self.second.to_json() if self.second else None,
            "missing": self.missing or None,
        }


def side_by_side(first: CellResult, second: CellResult) -> tuple[Contrast, ...]:
    """Every finding of both cells once, by length; of the same group and overlapping lengths, they are one."""
    ours, theirs = ([f for f in cell.findings if f.kind in KINDS] for cell in (first, second))
    contrasts, matched = [], set()
    for finding in ours:
        twins = [index for index, other in enumerate(theirs) if same_finding(finding, other)]
        matched.update(twins)
        twin = theirs[twins[0]] if twins else None
        contrasts.append(Contrast(finding, twin, "" if twin else missing(finding, second)))
    contrasts += [Contrast(None, f, missing(f, first)) for index, f in enumerate(theirs) if index not in matched]
    return tuple(sorted(contrasts, key=lambda contrast: contrast.finding.lengths))


def missing(finding: Finding, cell: CellResult) -> str:
    """Why a cell lacks a finding: "absent", "unseen" or "unmeasured"."""
    inside = (cell.curve.lengths >= finding.lengths[0]) & (cell.curve.lengths <= finding.lengths[1])
    if not inside.any():
        return "unmeasured"
    if finding.kind == "wrong-result":
        return "absent"
    size = max(finding.ratio or 1.0, 1 / (finding.ratio or 1.0))
    return "absent" if cell.limit_of_detection is not None and cell.limit_of_detection < size else "unseen"


def same_finding(one: Finding, other: Finding) -> bool:
    """Whether two findings are of one group and overlap in length."""
    group = one.kind == other.kind or (one.kind in DEAR and other.kind in DEAR)
    return group and one.lengths[0] <= other.lengths[1] and other.lengths[0] <= one.lengths[1]
