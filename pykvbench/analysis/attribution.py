"""What caused a finding, as far as the contrasts in its run file tell: a pure function of the run.

The contrast lines of a run file are the same step with one thing changed, at the flagged lengths and their neighbours.
A cause is named only where the contrasts single it out; what none explains is said to be unexplained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pykvbench.analysis.contrast import Contrast, Row
from pykvbench.record import Run

__all__ = ["Attribution", "Contrast", "Row", "attributions"]


@dataclass(frozen=True)
class Attribution:
    """The contrasts of one finding and what they come to.

    `cell` is an index into the run's cells, `lengths` and `kind` are the finding's own, `measured` are those of its
    lengths that were contrasted, `controls` the neighbours they were contrasted with. `ratio` is the whole step's in
    the contrasting processes. `added_up` is the sum of the parts' excesses over the whole's, None where the parts were
    not measured. `cause` is None where nothing singles one out; `sentence` says all of it, in one line. `workaround`
    is a change under which the excess is gone, if one was found.
    """

    cell: int
    kind: str
    lengths: tuple[int, int]
    measured: tuple[int, ...]
    controls: tuple[int, ...]
    ratio: float | None
    votes: str | None
    contrasts: tuple[Contrast, ...]
    added_up: float | None
    cause: str | None
    sentence: str
    workaround: str | None
    rows: tuple[Row, ...]

    def contrast(self, name: str) -> Contrast | None:
        """The contrast of this name, if it was asked for."""
        return next((one for one in self.contrasts if one.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """The attribution as it stands in the JSON document."""
        return {
            "cell": self.cell,
            "kind": self.kind,
            "lengths": list(self.lengths),
            "measured": list(self.measured),
            "controls": list(self.controls),
            "ratio": self.ratio,
            "votes": self.votes,
            "cause": self.cause,
            "sentence": self.sentence,
            "added_up": self.added_up,
            "workaround": self.workaround,
            "contrasts": [one.to_json() for one in self.contrasts],
            "rows": [row.to_json() for row in self.rows],
        }


def attributions(run: Run) -> tuple[Attribution, ...]:
    """One attribution for each finding that was contrasted, in the order of the run file."""
    return ()
