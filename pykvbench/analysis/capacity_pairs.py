"""Capacity runs against each other: how latency at each number of sequences differs between cells, or between runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from pykvbench.analysis import fairness
from pykvbench.analysis.capacity import analyze_capacity
from pykvbench.analysis.capacity_table import CapacityRow, middle
from pykvbench.analysis.comparison import Comparison, Side, compare
from pykvbench.analysis.finding import CellResult, Curve
from pykvbench.analysis.pairs import Named, Report, counterpart, names_of, refuse_unless
from pykvbench.errors import UsageError
from pykvbench.record import Run

METRICS = ("p50_ns", "p99_ns")
_WORDS = "Here a length is a number of sequences served at once, and a sweep is a repeat."


def compare_capacity(named: Sequence[Named], anyway: bool = False) -> Report:
    """Every pair of cells of one run, or each cell of the first run against its counterpart in each other run.

    Each context, policy and percentile is a comparison of its own, over the numbers of sequences that both served.
    Raises UsageError when the runs are not all of `capacity`, when their times cannot be compared (unless `anyway`),
    and when they have nothing in common.
    """
    if not all(item.run.is_capacity for item in named):
        raise UsageError("A run of `pykvbench capacity` can only be compared with another; name runs of one command.")
    results = [analyze_capacity(item.run).cells for item in named]
    found: list[Comparison] = []
    notes: list[str] = [_WORDS]
    if len(named) == 1:
        run = named[0].run
        if len(run.cells) < 2:
            raise UsageError(
                "The run has one cell, so there is nothing to compare; measure two, such as --cache concat,chunked, or "
                "name a second run."
            )
        for pair in combinations(range(len(run.cells)), 2):
            sides = [(run, index, results[0][index], results[0][index].cell) for index in pair]
            found += _pair(sides[0], sides[1])
        return _report(found, (), notes)
    names = names_of(named)
    for index, cell in enumerate(named[0].run.cells):
        for item, result, name in zip(named[1:], results[1:], names[1:]):
            twin = counterpart(named[0].run, index, item.run)
            if twin is None:
                notes.append(f"{name} has no cell {cell.label}.")
                continue
            differing = fairness.unlike(named[0].run, item.run, (index, twin))
            notes += refuse_unless(anyway, differing, (names[0], name))
            first = (named[0].run, index, results[0][index], f"{cell.label}, {names[0]}")
            found += _pair(first, (item.run, twin, result[twin], f"{item.run.cells[twin].label}, {name}"))
    return _report(found, names, notes)


def _report(found: Sequence[Comparison], names: tuple[str, ...], notes: Sequence[str]) -> Report:
    if not found:
        told = " ".join(notes[1:])
        raise UsageError(f"The runs have no load that both served. {told} Measure the same contexts and concurrencies.")
    return Report(tuple(found), names, (), tuple(dict.fromkeys(notes)))


_Named = tuple[Run, int, CellResult, str]


def _pair(first: _Named, second: _Named) -> Iterable[Comparison]:
    """One comparison for each context, policy and percentile that both have."""
    tables = [_curves(result) for _, _, result, _ in (first, second)]
    shown = fairness.shown(first[0], second[0], (first[1], second[1]))
    for key in (key for key in tables[0] if key in tables[1]):
        one, other = ({row.concurrency: row for row in table[key]} for table in tables)
        both = sorted(set(one) & set(other))
        repeats = {len(row.p50_ns) for side in (one, other) for row in (side[number] for number in both)}
        for metric in METRICS if both else ():
            what = f", {key[0]} tokens, {'no limit' if key[1] == 'none' else key[1]}, {metric.removesuffix('_ns')}"
            sides = [
                _side(name + what, result, [rows[number] for number in both], metric)
                for (_, _, result, name), rows in ((first, one), (second, other))
            ]
            paired = first[0] is second[0] and len(repeats) == 1
            yield compare(sides[0], sides[1], paired, shown)


def _curves(result: CellResult) -> dict[tuple[int, str], list[CapacityRow]]:
    """Rows that were served, by context and policy."""
    found: dict[tuple[int, str], list[CapacityRow]] = {}
    for row in result.capacity.rows if result.capacity is not None else ():
        if row.served:
            found.setdefault((row.context, row.policy), []).append(row)
    return found


def _side(name: str, result: CellResult, rows: Sequence[CapacityRow], metric: str) -> Side:
    most = max(len(row.p50_ns) for row in rows)
    sweeps = np.full((most, len(rows)), np.nan)
    for column, row in enumerate(rows):
        values = getattr(row, metric)
        sweeps[: len(values), column] = values
    median = np.array([middle(getattr(row, metric)) for row in rows])
    lengths = np.array([row.concurrency for row in rows], dtype=np.int64)
    curve = Curve(lengths, sweeps, median, median, None, None)
    counters = {counter for row in rows for counter in row.memory}
    return Side(
        name=name,
        result=CellResult(name, result.verdict, (), None, None, (), curve),
        median_ns=median,
        sweeps_ns=sweeps,
        rates=np.full(len(rows), np.nan),
        ceiling=None,
        memory={counter: max(row.memory.get(counter, 0.0) for row in rows) for counter in sorted(counters)},
    )
