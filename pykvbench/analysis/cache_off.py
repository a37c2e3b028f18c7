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
    known = [(row, row.off_ratio) for row in rows if row.off_ratio is not None and np.isfinite(row.off_ratio)]
    notes, best = [], None
    for row, ratio in known:
        if best is not None and ratio * COLLAPSE < best[1]:
            notes.append(
                f"without a cache budget {row.budget} takes {times(ratio)} as long, and budget {best[0].budget} "
                f"{times(best[1])}: what the cache saves collapses there."
            )
        elif best is None or ratio > best[1]:
            best = (row, ratio)
    if len(notes) > 3:
        return [*notes[:3], f"and so at {len(notes) - 3} larger budgets."]
    return notes
