"""What caused a finding, as far as the contrasts in its run file tell: a pure function of the run.

The contrast lines of a run file are the same step with one thing changed, at the flagged lengths and their neighbours.
A cause is named only where the contrasts single it out; what none explains is said to be unexplained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pykvbench.analysis.cause import cause, sentence, workaround
from pykvbench.analysis.contrast import Contrast, Row
from pykvbench.analysis.evidence import gather
from pykvbench.analysis.excess import Line, first, steady, steady_dispatch
from pykvbench.analysis.finding import Finding, Result
from pykvbench.dispatch.environment import environment_of_cell
from pykvbench.dispatch.layout import fixed_capacity
from pykvbench.dispatch.predict import predict
from pykvbench.dispatch.route import difference
from pykvbench.record import Run
from pykvbench.target import Target

__all__ = ["Attribution", "Contrast", "Row", "attributions", "with_causes"]


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
    return tuple(_attribute(run, target) for target in recorded_targets(run))


def with_causes(run: Run, result: Result) -> Result:
    """The result with causes in its findings, a sentence in their notes, and the attributions beside them."""
    found = attributions(run)
    if not found:
        return result
    by_finding = {(one.cell, one.kind, one.lengths): one for one in found}

    def explained(index: int, finding: Finding) -> Finding:
        one = by_finding.get((index, finding.kind, finding.lengths))
        if one is None:
            return finding
        return replace(finding, cause=one.cause, note=f"{finding.note} {one.sentence}")

    cells = tuple(
        replace(cell, findings=tuple(explained(index, finding) for finding in cell.findings))
        for index, cell in enumerate(result.cells)
    )
    attributing = [event for event in run.events if event["event"] == "attributing"]
    left_out = tuple(str(text) for text in attributing[-1].get("left_out") or ())
    return replace(result, cells=cells, notes=(*result.notes, *left_out), attributions=found)


def recorded_targets(run: Run) -> tuple[Target, ...]:
    """What the run's contrasts are of, as its last attribution recorded it."""
    for event in reversed(run.events):
        if event["event"] == "attributing":
            try:
                found = tuple(Target.from_json(value) for value in event["targets"])
            except (KeyError, TypeError, ValueError):
                return ()
            return tuple(target for target in found if 0 <= target.cell < len(run.cells))
    return ()


def _attribute(run: Run, target: Target) -> Attribution:
    cell = run.cells[target.cell]
    lines = [line for line in run.contrasts if line["cell"] == target.cell]
    evidence = gather(lines, target, cell)
    whole = evidence.whole
    ratio = None
    if whole is not None:
        ratio = float(np.median((whole.only(evidence.slow) if evidence.slow else whole).ratio))
    return Attribution(
        cell=target.cell,
        kind=target.kind,
        lengths=target.lengths,
        measured=target.flagged,
        controls=target.controls,
        ratio=ratio,
        votes=None if whole is None else f"{len(evidence.slow)}/{len(whole.processes)}",
        contrasts=evidence.contrasts,
        added_up=evidence.added_up,
        cause=cause(evidence),
        sentence=sentence(evidence, _route(run, target)),
        workaround=workaround(evidence),
        rows=_rows(lines, target),
    )


def _rows(lines: Sequence[Line], target: Target) -> tuple[Row, ...]:
    """The whole step at every length of the target that was visited, against the neighbours' median."""
    whole = [line for line in lines if line["variant"] == "whole"]
    near = [steady(line) for line in whole if line["length"] in target.controls]
    if not near:
        return ()
    control = float(np.median(near))
    rows = []
    for length in sorted({*target.flagged, *target.controls}):
        here = [line for line in whole if line["length"] == length]
        if here:
            median_ns = float(np.median([steady(line) for line in here]))
            first_ns = float(np.median([first(line) for line in here if line["round"] == 0] or [np.nan]))
            dispatch_ns = float(np.median([steady_dispatch(line) for line in here]))
            flagged = length in target.flagged
            rows.append(Row(length, flagged, median_ns, median_ns / control, first_ns, dispatch_ns, len(here)))
    return tuple(rows)


def _route(run: Run, target: Target) -> str | None:
    """Whether the rules predict another kernel at the flagged lengths than next to them; None where they know none."""
    here, cell = environment_of_cell(run, target.cell), run.cells[target.cell]
    capacity = fixed_capacity(int(run.visits.length.min()), int(run.visits.length.max())) if len(run.visits) else 0
    lengths = (target.flagged[0], *target.near)
    flagged, *beside = (predict(cell, here, length, max(capacity, length + 1)) for length in lengths)
    if not flagged.known or not all(route.known for route in beside):
        return None
    changes = dict.fromkeys(change for route in beside if (change := difference(route, flagged)))
    return f"route {'; '.join(changes)} here" if changes else f"route {flagged.name} on both sides"
