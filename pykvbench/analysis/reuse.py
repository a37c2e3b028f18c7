"""What a reuse run says: the time to first token by recomputing against restoring, and from which length that pays.

Restoring is compared with recomputing within each process, so that a slow process slows both. The verdict is always
`unresolved`: whether a length is slow is not asked here; findings are results that were wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pykvbench.analysis.break_even import break_even
from pykvbench.analysis.finding import CellResult, Curve, Finding, Result
from pykvbench.analysis.reuse_table import RECOMPUTE, TIERS, ReuseRow, ReuseTable, Span
from pykvbench.analysis.sentences import counted
from pykvbench.cell import Cell
from pykvbench.record import Run

_SAME_MEMORY = ("cpu", "mlx-cpu", "mps", "mlx")  # the host's memory is the device's
Line = dict[str, Any]


def analyze_reuse(run: Run) -> Result:
    """Everything a `reuse` run says, cell by cell."""
    cells = tuple(_cell(run, index) for index in range(len(run.cells)))
    return Result(cells, (*run.notes, *(str(note) for note in run.header.get("notes") or ())))


def tabulate(cell: Cell, lines: Sequence[Line]) -> ReuseTable:
    """The table of one cell's lines."""
    lengths = sorted({line["length"] for line in lines})
    rows = [row for length in lengths for row in _rows(cell, length, [n for n in lines if n["length"] == length])]
    found = []
    for tier in TIERS:
        speedups = {row.length: row.speedup for row in rows if row.tier == tier}
        if speedups:
            found.append(break_even(tier, speedups))
    return ReuseTable(tuple(rows), tuple(found))


def curve_of(table: ReuseTable, tier: str) -> Curve:
    """One tier's time to first token as a curve: a row a repeat, NaN where a length was not measured."""
    rows = [row for row in table.rows if row.tier == tier and row.ttft]
    repeats = max((repeat for row in rows for repeat in row.ttft), default=-1) + 1
    grid = np.full((repeats, len(rows)), np.nan)
    for column, row in enumerate(rows):
        for repeat, value in row.ttft.items():
            grid[repeat, column] = value
    median = np.array([row.span.value for row in rows])
    baseline = np.minimum.accumulate(median[::-1])[::-1]
    return Curve(np.array([row.length for row in rows], dtype=np.int64), grid, median, baseline, None, None)


def _cell(run: Run, index: int) -> CellResult:
    cell = run.cells[index]
    lines = [line for line in run.reuses if line["cell"] == index]
    table = tabulate(cell, lines)
    return CellResult(
        cell=cell.label,
        verdict="unresolved",
        findings=tuple(_wrong(cell, lines)),
        limit_of_detection=None,
        smallest_p=None,
        notes=tuple(f"{cell.label}: {note}" for note in _notes(run, index, table, lines)),
        curve=curve_of(table, RECOMPUTE),
        reuse=table,
    )


def _rows(cell: Cell, length: int, lines: Sequence[Line]) -> Iterable[ReuseRow]:
    """One length's rows, recomputing first."""
    base = {line["repeat"]: _ttft(line) for line in lines if line["tier"] == RECOMPUTE and line["correct"] is not False}
    for tier in (RECOMPUTE, *TIERS):
        mine = [line for line in lines if line["tier"] == tier]
        if not mine:
            continue
        good = [line for line in mine if not line["recomputed"] and line["correct"] is not False]
        ttft = {line["repeat"]: _ttft(line) for line in good}
        disk = [line for line in good if tier == "disk"]
        writes = [line["write"] for line in mine if line["write"] is not None]
        yield ReuseRow(
            length=length,
            tier=tier,
            ttft=ttft,
            read_ns=_middle([np.median(np.add(line["read"], line["check"])) for line in good]),
            restore_ns=_middle([np.median(line["restore"]) for line in good]),
            step_ns=_middle([np.median(line["step"]) for line in good]),
            speedup=Span.of([base[repeat] / value for repeat, value in ttft.items() if repeat in base]),
            bytes=cell.geometry.kv_bytes(length),
            write_ns=_middle(writes) if writes else None,
            bandwidth=_middle([line["bytes"] / np.median(line["read"]) for line in disk]) if disk else None,
            how=str(disk[0]["how"]) if disk else "",
            cold=all(line["cold"] for line in disk) if disk else None,
            recomputed=sum(bool(line["recomputed"]) for line in mine),
            searched=all(line["search"] for line in mine),
        )


def _ttft(line: Line) -> float:
    """One process's time to first token: the median of its samples."""
    parts = [line[name] for name in ("read", "check", "restore", "step")]
    return float(np.median(np.sum(parts, axis=0)))


def _middle(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def _wrong(cell: Cell, lines: Sequence[Line]) -> Iterable[Finding]:
    """A finding for each length and tier whose output was not that of the KV that was saved, or not right."""
    for length, tier in sorted({(line["length"], line["tier"]) for line in lines}):
        mine = [line for line in lines if (line["length"], line["tier"]) == (length, tier)]
        unequal = [line for line in mine if line["equal"] is False and tier != RECOMPUTE]
        wrong = [line for line in mine if line["correct"] is False]
        for these, what in (
            (unequal, f"KV restored from the {tier} gave another output than the KV that was saved."),
            (wrong, f"The output after {tier} is off against the float64 reference: its times are left out."),
        ):
            if these:
                votes = f"{len(these)}/{len(mine)}"
                yield Finding("wrong-result", (length, length), None, votes, None, "confirmed", what, cell=cell.label)


def _notes(run: Run, index: int, table: ReuseTable, lines: Sequence[Line]) -> Iterable[str]:
    cell = run.cells[index]
    if not lines:
        yield "nothing was measured."
        return
    tiers = {row.tier for row in table.rows}
    if cell.backend in _SAME_MEMORY and {"device", "host"} <= tiers:
        yield "the device's memory is the host's here: both tiers are a copy within it."
    warm = [row for row in table.rows if row.cold is False]
    if warm:
        names = ", ".join(str(row.length) for row in warm)
        how = warm[0].how
        yield (
            f"the page cache could not be dropped or bypassed for certain (read with {how}) at {names} tokens: "
            "these times may be of memory, not of the disk."
        )
    refused = sum(row.recomputed for row in table.rows)
    if refused:
        yield f"a file of KV was refused {counted(refused, 'time')}; what computing again took is in no time here."
    planned = int(run.plan.get("repeats", 0) or 0)
    fewest = min(len(row.ttft) for row in table.rows)
    if fewest < planned and not refused:
        yield f"{fewest} of {planned} processes were measured at some length."
    if cell.body != "attention":
        yield "outputs are compared with those of the KV that was saved; a float64 reference would take too long."
