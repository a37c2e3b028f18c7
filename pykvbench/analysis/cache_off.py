"""The arm without a cache beside those with one: how much a cache saves at each budget, and where that collapses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pykvbench.analysis.finding import BudgetRow, CellResult
from pykvbench.analysis.sentences import times
from pykvbench.cell import NO_CACHE, Cell

COLLAPSE = 1.5  # times below a smaller budget's ratio; the ratio of quadratic to linear work only rises


def with_cache_off(cells: Sequence[Cell], results: Sequence[CellResult]) -> tuple[CellResult, ...]:
    """The results with each budget's time without a cache beside it, and a note where the ratio collapses.

    A cell's partner differs from it in nothing but its cache, which is `none`.
    """
    joined = []
    for cell, result in zip(cells, results, strict=True):
        partner = next((r for c, r in zip(cells, results, strict=True) if _is_off(c, cell)), None)
        joined.append(result if partner is None else _join(result, partner))
    return tuple(joined)


def _is_off(other: Cell, cell: Cell) -> bool:
    return other.cache == NO_CACHE != cell.cache and replace(other, cache=cell.cache) == cell


def _join(result: CellResult, partner: CellResult) -> CellResult:
    off = {(row.prompt, row.budget): row.total_ns for row in partner.budgets}
    rows = tuple(replace(row, off_ns=off.get((row.prompt, row.budget))) for row in result.budgets)
    notes = tuple(
        f"{result.cell}: {note}"
        for prompt in sorted({row.prompt for row in rows})
        for note in _collapses([row for row in rows if row.prompt == prompt])
    )
    return replace(result, budgets=rows, notes=result.notes + notes)


def _collapses(rows: Sequence[BudgetRow]) -> list[str]:
    """A note for each budget whose fastest repeat has a lower ratio than the slowest repeat of a smaller budget."""
    notes: list[str] = []
    best: BudgetRow | None = None
    for row in rows:
        if row.off_ratio is None or row.off_ns is None or not np.isfinite(row.off_ratio):
            continue
        least = 0.0 if best is None or best.off_ns is None else best.off_ns / max(best.totals_ns)
        if best is not None and COLLAPSE * row.off_ns / min(row.totals_ns) < least:
            notes.append(
                f"without a cache budget {row.budget} takes {times(row.off_ratio)} as long, and budget {best.budget} "
                f"{times(best.off_ratio or 0.0)}: what the cache saves collapses there."
            )
        elif best is None or row.off_ratio > (best.off_ratio or 0.0):
            best = row
    return [*notes[:3], f"and so at {len(notes) - 3} larger budgets."] if len(notes) > 3 else notes
