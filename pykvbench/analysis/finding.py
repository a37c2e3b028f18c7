"""What analysis returns: findings, one result a cell, and the document that every command prints as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pykvbench.analysis.reuse_table import ReuseTable, published

if TYPE_CHECKING:
    from pykvbench.analysis.attribution import Attribution
    from pykvbench.analysis.capacity_table import CapacityTable

KINDS = (
    "spike",
    "regime",
    "intermittent",
    "periodic",
    "step",
    "comb",
    "first-visit",
    "state",
    "drift",
    "unstable",
    "wrong-result",
    "memory-growth",
    "knee",
)
VERDICTS = ("smooth", "unresolved", "state", "non-monotonic")  # least to most telling; a run takes its cells' last

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be, with the lengths it covers and how sure we are.

    `lengths` is (first, last), inclusive. `ratio` is cost over the cost expected there (None where a ratio means
    nothing). For a `step`, `lengths` are the last of the old side and the first of the new, and `ratio` is new over
    old: above 1 an unexplained rise, below 1 a lasting drop. `votes` is "5/5" where sweeps voted. `confidence` is
    "confirmed" or "apparent". `cause` is filled in by attribution. `note` is one plain sentence.
    """

    kind: str
    lengths: tuple[int, int]
    ratio: float | None
    votes: str | None
    p: float | None
    confidence: str
    note: str
    cause: str | None = None
    cell: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The finding as it stands in the JSON document."""
        return {
            "kind": self.kind,
            "lengths": list(self.lengths),
            "ratio": self.ratio,
            "votes": self.votes,
            "p": self.p,
            "confidence": self.confidence,
            "cause": self.cause,
            "note": self.note,
            "cell": self.cell,
        }


@dataclass(frozen=True)
class Detection:
    """What one cell's sweeps, or one table, say about its lengths: findings, the curve they were read off, and limits.

    `median_ns` and `baseline_ns` run over the lengths given, NaN where nothing was measured.
    """

    findings: tuple[Finding, ...]
    median_ns: Floats  # [n] median over sweeps, whole processes' levels removed
    baseline_ns: Floats  # [n] the cheapest cost of this length or any longer one
    limit_of_detection: float | None  # smallest ratio at one length that would have been confirmed; None: nothing would
    smallest_p: float | None  # smallest p-value all sweeps agreeing could have reached; None below 3 sweeps
    notes: tuple[str, ...]
    verdict: str


@dataclass(frozen=True)
class Curve:
    """One cell's cost at every length, in ns: what tables and plots are made of. Arrays run over `lengths`."""

    lengths: Ints  # [n]
    sweeps_ns: Floats  # [sweeps, n] visit medians, NaN where a visit is missing
    median_ns: Floats  # [n] over sweeps
    baseline_ns: Floats  # [n] the cheapest cost of this length or any longer one
    first_ns: Floats | None  # [n] median over sweeps of the first call, None for a plain table
    dispatch_ns: Floats | None  # [n] median host time until the step's call returned


@dataclass(frozen=True)
class BudgetRow:
    """What whole generations of one budget after one prompt took: a row of the table of a decode run."""

    prompt: int
    budget: int
    totals_ns: tuple[float, ...]  # of every repeat that came to its end
    slow: bool  # in most repeats, against the same lengths in other budgets
    memory: dict[str, float]  # bytes by counter after the last step, median over repeats
    off_ns: float | None = None  # the same budget without a cache

    @property
    def total_ns(self) -> float:
        """The median over repeats, NaN where none came to its end."""
        return float(np.median(self.totals_ns)) if self.totals_ns else float("nan")

    @property
    def off_ratio(self) -> float | None:
        """How many times longer the budget takes without a cache."""
        return None if self.off_ns is None else self.off_ns / self.total_ns

    def to_json(self) -> dict[str, Any]:
        """The row as it stands in the JSON document, None where nothing was measured."""
        return {
            "prompt": self.prompt,
            "budget": self.budget,
            "total_ns": self.total_ns if self.totals_ns else None,
            "totals_ns": list(self.totals_ns),
            "slow": self.slow,
            "memory": self.memory,
            "off_ns": self.off_ns if self.off_ns is not None and np.isfinite(self.off_ns) else None,
        }


@dataclass(frozen=True)
class CellResult:
    """What one cell's visits say."""

    cell: str
    verdict: str
    findings: tuple[Finding, ...]
    limit_of_detection: float | None  # smallest ratio this run would have confirmed; None when it could not have
    smallest_p: float | None  # smallest p-value all sweeps agreeing could have reached
    notes: tuple[str, ...]
    curve: Curve
    budgets: tuple[BudgetRow, ...] = ()  # of a decode run
    capacity: CapacityTable | None = None  # of a capacity run
    reuse: ReuseTable | None = None  # of a reuse run
    axis: str = "length"  # what the curve runs over: "budget" in a table of whole generations


@dataclass(frozen=True)
class Result:
    """What a run or a table says, over all its cells."""

    cells: tuple[CellResult, ...]
    notes: tuple[str, ...] = ()
    attributions: tuple[Attribution, ...] = ()

    @property
    def verdict(self) -> str:
        """The most telling verdict among the cells."""
        return max((cell.verdict for cell in self.cells), key=VERDICTS.index, default="unresolved")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All cells' findings in order."""
        return tuple(finding for cell in self.cells for finding in cell.findings)

    def to_json(self) -> dict[str, Any]:
        """The document of `analyze --json`, `attn --json` and `decode --json`, schema 1.

        With several cells the limit is that of the least sensitive one, and each cell's own stands under "cells".
        """
        limits = [cell.limit_of_detection for cell in self.cells]
        ps = [cell.smallest_p for cell in self.cells]
        return {
            "schema": 1,
            "verdict": self.verdict,
            "findings": [finding.to_json() for finding in self.findings],
            "limit_of_detection": _largest(limits),
            "smallest_p": _largest(ps),
            "notes": list(self.notes) + [note for cell in self.cells for note in cell.notes],
            "cells": [
                {
                    "cell": cell.cell,
                    "verdict": cell.verdict,
                    "limit_of_detection": cell.limit_of_detection,
                    "smallest_p": cell.smallest_p,
                    **({"budgets": [row.to_json() for row in cell.budgets]} if cell.budgets else {}),
                }
                for cell in self.cells
            ],
            **({"capacity": tables} if (tables := self._capacity()) else {}),
            **({"attributions": [one.to_json() for one in self.attributions]} if self.attributions else {}),
            **({"reuse": {"cells": tables, "published": published()}} if (tables := self._reuse()) else {}),
        }

    def _capacity(self) -> list[dict[str, Any]]:
        """The tables of a capacity run, one a cell."""
        return [{"cell": cell.cell, **cell.capacity.to_json()} for cell in self.cells if cell.capacity is not None]

    def _reuse(self) -> list[dict[str, Any]]:
        """The tables of a reuse run, one a cell."""
        return [{"cell": cell.cell, **cell.reuse.to_json()} for cell in self.cells if cell.reuse is not None]


def _largest(values: list[float | None]) -> float | None:
    """The largest, or None when any is None: one cell that cannot tell makes the run unable to tell."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
