"""Which cells are compared with which: all pairs of one run, or each cell of a run with its counterpart in others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from pykvbench.analysis import fairness
from pykvbench.analysis.ceiling import bandwidth, ceiling_of
from pykvbench.analysis.comparison import Comparison, Side, compare
from pykvbench.analysis.finding import CellResult, Curve, Floats, Ints
from pykvbench.analysis.history import Row, history
from pykvbench.analysis.verdict import analyze_run
from pykvbench.errors import UsageError
from pykvbench.record import Run


@dataclass(frozen=True)
class Named:
    """A run and what it is called."""

    name: str
    run: Run


@dataclass(frozen=True)
class Report:
    """All comparisons, and for three or more runs which of them has which finding."""

    comparisons: tuple[Comparison, ...]
    runs: tuple[str, ...]  # names, of a comparison across runs
    history: tuple[Row, ...]
    notes: tuple[str, ...]

    def is_slower_by(self, share: float) -> bool:
        """Whether any second is certainly slower than its first by more than `share`."""
        return any(comparison.is_slower_by(share) for comparison in self.comparisons)


def compare_run(run: Run, min_ratio: float = 1.10) -> Report:
    """Every pair of cells of one run, the later against the earlier."""
    _check(run, "the run")
    if len(run.cells) < 2:
        raise UsageError(
            "The run has one cell, so there is nothing to compare; measure two, such as --backend cpu --backend mlx, "
            "or name a second run."
        )
    result = analyze_run(run, min_ratio)
    found, notes = [], list(result.notes)
    for pair in combinations(range(len(run.cells)), 2):
        names = tuple(run.cells[index].label for index in pair)
        made = _compare((run, run), pair, (result.cells[pair[0]], result.cells[pair[1]]), names, True)
        if made is None:
            notes.append(f"{names[0]} and {names[1]} have no length in common that was measured in both.")
        else:
            found.append(made)
    return Report(tuple(found), (), (), tuple(notes))


def compare_runs(named: Sequence[Named], anyway: bool = False, min_ratio: float = 1.10) -> Report:
    """Each cell of the first run against its counterpart in each other run.

    Raises UsageError naming the keys that differ when the times of two cells cannot be compared, unless `anyway`.
    """
    for item in named:
        _check(item.run, item.name)
    results = [analyze_run(item.run, min_ratio) for item in named]
    names = names_of(named)
    found, columns, notes = [], [], [f"{n}: {note}" for n, r in zip(names, results) for note in r.notes]
    for index, cell in enumerate(named[0].run.cells):
        column: list[CellResult | None] = [results[0].cells[index]]
        for other, result, name in zip(named[1:], results[1:], names[1:]):
            twin = counterpart(named[0].run, index, other.run)
            column.append(None if twin is None else result.cells[twin])
            if twin is None:
                notes.append(f"{name} has no cell {cell.label}.")
                continue
            runs, pair = (named[0].run, other.run), (index, twin)
            notes += _fair(runs, pair, (names[0], name), anyway)
            labels = (f"{cell.label}, {names[0]}", f"{other.run.cells[twin].label}, {name}")
            made = _compare(runs, pair, (results[0].cells[index], result.cells[twin]), labels, False)
            if made is None:
                notes.append(f"{labels[0]} and {labels[1]} have no length in common that was measured in both.")
            else:
                found.append(made)
        columns.append(tuple(column))
    if not found:
        raise UsageError(f"The runs have nothing to compare: {' '.join(notes)} Measure the same cells and lengths.")
    rows = history(columns) if len(named) > 2 else ()
    return Report(tuple(found), names, rows, tuple(dict.fromkeys(notes)))


def _compare(
    runs: tuple[Run, Run],
    pair: tuple[int, int],
    results: tuple[CellResult, CellResult],
    names: tuple[str, ...],
    paired: bool,
) -> Comparison | None:
    lengths = _common(results[0].curve, results[1].curve, paired)
    if not len(lengths):
        return None
    sides = [_side(run, i, r, name, lengths) for run, i, r, name in zip(runs, pair, results, names, strict=True)]
    notes = tuple(
        f"{name}: {note.removeprefix(f'{result.cell}: ')}"
        for result, name in zip(results, names)
        for note in result.notes
    )
    return compare(sides[0], sides[1], paired, fairness.shown(*runs, pair), tuple(dict.fromkeys(notes)))


def _common(first: Curve, second: Curve, paired: bool) -> Ints:
    """Lengths with a visit in both; for a pair within one run in the same sweep of both."""
    lengths = np.intersect1d(first.lengths, second.lengths)
    if not len(lengths):
        return lengths
    a, b = (curve.sweeps_ns[:, np.searchsorted(curve.lengths, lengths)] for curve in (first, second))
    if paired:
        seen = (~np.isnan(a) & ~np.isnan(b)).any(axis=0)
    else:
        seen = (~np.isnan(a)).any(axis=0) & (~np.isnan(b)).any(axis=0)
    return lengths[seen]


def _side(run: Run, index: int, result: CellResult, name: str, lengths: Ints) -> Side:
    curve = result.curve
    at = np.searchsorted(curve.lengths, lengths)

    def cut(values: Floats | None) -> Floats | None:
        return None if values is None else values[..., at]

    same = Curve(
        lengths, curve.sweeps_ns[:, at], curve.median_ns[at], curve.baseline_ns[at], cut(curve.first_ns),
        cut(curve.dispatch_ns),
    )  # fmt: skip
    visits = run.visits.of_cell(index)
    memory = {key: float(np.nanmax(values)) for key, values in visits.memory.items() if not np.isnan(values).all()}
    return Side(
        name=name,
        result=replace(result, curve=same),
        median_ns=same.median_ns,
        sweeps_ns=same.sweeps_ns,
        rates=bandwidth(same, run.cells[index].geometry),
        ceiling=ceiling_of(run, index),
        memory=memory,
    )


def _check(run: Run, name: str) -> None:
    if run.is_decode:
        raise UsageError(
            f"{name} holds whole generations of `pykvbench decode`; compare takes runs of `pykvbench attn`."
        )


def counterpart(first: Run, index: int, other: Run) -> int | None:
    """The cell of the other run with the same backend, kernel, cache and dtype; the only one where both have one."""

    def key(run: Run, cell: int) -> tuple[Any, ...]:
        known = run.cells[cell]
        return known.backend, known.kernel, known.cache, known.geometry.dtype, known.interpreter

    same = [cell for cell in range(len(other.cells)) if key(other, cell) == key(first, index)]
    return same[0] if same else 0 if len(first.cells) == len(other.cells) == 1 else None


def _fair(runs: tuple[Run, Run], pair: tuple[int, int], names: tuple[str, str], anyway: bool) -> list[str]:
    return refuse_unless(anyway, fairness.unfair(*runs, pair), names)


def refuse_unless(anyway: bool, differing: Sequence[fairness.Difference], names: tuple[str, str]) -> list[str]:
    """Raise UsageError naming what differs, or say it in a note when compared `anyway`; nothing where nothing does."""
    if not differing:
        return []
    keys = "; ".join(f"{d.key} ({_value(d.first)} and {_value(d.second)})" for d in differing)
    said = f"{names[0]} and {names[1]} were not measured alike: they differ in {keys}"
    if not anyway:
        raise UsageError(f"{said}. Measure again with the same, or compare them with --anyway.")
    return [f"{said}. What follows may be due to that."]


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)


def names_of(named: Sequence[Named]) -> tuple[str, ...]:
    """What the runs are called: their frameworks' versions where those tell them apart, else the names given."""
    told = [[fairness.version(item.run, index) for index in range(len(item.run.cells))] for item in named]
    versions = tuple(" and ".join(dict.fromkeys(name for name in names if name)) for names in told)
    if len(set(versions)) == len(named) and all(all(names) for names in told):
        return versions
    given = tuple(item.name for item in named)
    return given if len(set(given)) == len(named) else tuple(f"{name} ({i})" for i, name in enumerate(given, 1))
