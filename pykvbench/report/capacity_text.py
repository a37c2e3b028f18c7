"""A capacity run on a terminal: a row for each load and policy, the knees, what fits, and what it all means."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from pykvbench.analysis.capacity_table import CapacityRow, CapacityTable, Knee, middle
from pykvbench.analysis.finding import CellResult, Result
from pykvbench.analysis.resample import MIN_SWEEPS
from pykvbench.report import numbers, sentence

_COUNTERS = ("caches", "live", "pooled", "driver", "rss")
_BOLD, _PLAIN = "\033[1m", "\033[0m"
_UNLIMITED = "none"


def render(result: Result, *, header: Sequence[str] = (), width: int = 80, colour: bool = False) -> str:
    """The tables of all cells, their knees, findings and verdicts, ending in a newline; text no wider than `width`.

    Tables are as wide as they are. Colour (ANSI, on the verdict) only when asked.
    """
    width = max(40, width)
    blocks = [_wrap(line, width) for line in header]
    for cell in result.cells:
        blocks += [[""], *_cell(cell, width)]
    blocks += [[""]] + [_wrap(f"Note: {note}", width) for note in result.notes] if result.notes else []
    last = _wrap(f"Verdict: {run_verdict(result)}", width)
    blocks += [[""], [_BOLD + last[0] + _PLAIN, *last[1:]] if colour else last]
    if len(result.cells) > 1:
        blocks += [_wrap(f"{cell.cell}: {verdict(cell)}", width, indent=2) for cell in result.cells]
    return "\n".join(line for block in blocks for line in block).lstrip("\n") + "\n"


def table(rows: Sequence[CapacityRow]) -> list[str]:
    """One cell's rows under a head of two lines; columns that no row fills are left out."""
    size = numbers.unit_for([row.needed for row in rows], numbers.SIZES)
    time = numbers.unit_for([middle(row.p50_ns) for row in rows])
    columns = [
        ("context", "", [str(row.context) for row in rows]),
        ("sequences", "", [str(row.concurrency) for row in rows]),
        ("policy", "", [row.policy for row in rows]),
        ("K and V", size.name, [_number(row.kv / size.size) for row in rows]),
        ("needed", size.name, [_number(row.needed / size.size) for row in rows]),
        ("predicted", size.name, [_number(row.held / size.size) for row in rows]),
    ]
    for name in _COUNTERS:
        values = [row.memory.get(name, np.nan) / size.size for row in rows]
        columns.append((name, size.name, [_number(value) for value in values]))
    for name, attribute in (("p50", "p50_ns"), ("p95", "p95_ns"), ("p99", "p99_ns"), ("max", "max_ns")):
        columns.append((name, time.name, [_number(middle(getattr(row, attribute)) / time.size) for row in rows]))
    spread = [
        f"{_number(min(row.p99_ns) / time.size)}..{_number(max(row.p99_ns) / time.size)}"
        if row.served
        else numbers.MISSING
        for row in rows
    ]
    columns.append(("p99 from", "to", spread))
    columns.append(("tokens", "a second", [_number(middle(row.tokens_per_s)) for row in rows]))
    columns.append(("p99 to", "no limit", [numbers.ratio(row.p99_cost) for row in rows]))
    columns.append(("moved", "out", [f"{row.moves:.0f}" if row.moves else numbers.MISSING for row in rows]))
    columns.append(("refused", "", [str(row.rejected) if row.rejected else numbers.MISSING for row in rows]))
    columns.append(("room for", "sequences", [_more(row.more_sequences) for row in rows]))
    columns.append(("or tokens", "in each", [_more(row.more_tokens) for row in rows]))
    columns.append(("", "", [row.outcome for row in rows]))
    filled = [column for column in columns if any(text not in ("", numbers.MISSING) for text in column[2])]
    widths = [max(len(text) for text in (top, name, *values)) for top, name, values in filled]
    lines = zip(*[(top, name, *values) for top, name, values in filled], strict=True)
    return ["  " + "  ".join(text.rjust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in lines]


def knee(value: Knee) -> str:
    """One knee, or that there is none, with what it was predicted to be."""
    under = "Without a limit" if value.policy == _UNLIMITED else f"Under {value.policy}"
    predicted = "" if value.predicted is None else f"; the budget is too small from {value.predicted} on"
    if value.at is None:
        size = numbers.ratio(value.ratio.value)
        if np.isfinite(value.ratio.low):
            size += f", {numbers.ratio(value.ratio.low)} to {numbers.ratio(value.ratio.high)}"
        none = f"p99 stays within {numbers.ratio(value.limit)} p50 ({size} at the most sequences)"
        return f"{under}, {value.context} tokens: {none}{predicted}."
    span = f"interval {value.low} to {'more than measured' if value.high is None else value.high}"
    if value.votes[1] < MIN_SWEEPS:
        span = f"no interval below {MIN_SWEEPS} repeats"
    size = f"{numbers.ratio(value.ratio.value)} there"
    if np.isfinite(value.ratio.low):
        size += f", {numbers.ratio(value.ratio.low)} to {numbers.ratio(value.ratio.high)}"
    return f"{under}, {value.context} tokens: p99 leaves p50 at {value.at} sequences ({span}; {size}){predicted}."


def verdict(cell: CellResult) -> str:
    """One cell's verdict: its word, a colon, and what it means."""
    wrong = [finding for finding in cell.findings if finding.kind == "wrong-result"]
    if wrong:
        return f"{cell.verdict}: {wrong[0].note}"
    sure = [finding for finding in cell.findings if finding.confidence == "confirmed"]
    if cell.verdict == "state":
        return f"state: {sure[0].note}"
    if cell.verdict == "smooth":
        return "smooth: p99 stays near p50 in every load and policy."
    if cell.findings:
        return f"unresolved: {cell.findings[0].note}"
    return "unresolved: too few repeats to tell whether p99 leaves p50; at least 3 are needed."


def run_verdict(result: Result) -> str:
    """The verdict over all cells: the only cell's own, or the word that decides and the cells that say it."""
    return verdict(result.cells[0]) if len(result.cells) == 1 else sentence.run_verdict(result)


def fits(value: CapacityTable) -> list[str]:
    """A sentence for each context: how many sequences fit, and in what."""
    limit = value.budget if value.budget is not None else value.memory
    if limit is None:
        return []
    what = "The budget" if value.budget is not None else "This device's memory"
    told = []
    for context, count in value.fits.items():
        several = "no sequence" if count == 0 else f"{count} sequence{'s' if count > 1 else ''}"
        due = "and those they are due" if count > 1 else "and those it is due" if count else "and those it would be due"
        told.append(f"{what} of {numbers.byte_count(limit)} holds {several} of {context} tokens {due}.")
    return told


def _cell(cell: CellResult, width: int) -> list[list[str]]:
    value = cell.capacity
    if value is None or not value.rows:
        return [[f"{cell.cell}: nothing measured"]]
    repeats = max(len(row.p50_ns) for row in value.rows)
    told = "1 repeat" if repeats == 1 else f"medians of {repeats} repeats"
    blocks = [_wrap(f"{cell.cell}: {told}", width), table(value.rows), [""]]
    blocks += [_wrap(knee(one), width) for one in value.knees]
    blocks += [_wrap(line, width) for line in fits(value)]
    blocks += [_wrap(f"{finding.kind}: {finding.note}", width) for finding in cell.findings if finding.kind != "knee"]
    blocks += [_wrap(f"Note: {note.removeprefix(f'{cell.cell}: ')}", width) for note in cell.notes]
    return blocks


def _number(value: float) -> str:
    """Three digits, `-` where there is none."""
    if not np.isfinite(value):
        return numbers.MISSING
    size = abs(value)
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def _more(value: int | None) -> str:
    return numbers.MISSING if value is None else f"+{value}"


def _wrap(text: str, width: int, indent: int = 0) -> list[str]:
    hang = " " * (indent + 2)
    return textwrap.wrap(
        text, width, initial_indent=" " * indent, subsequent_indent=hang, break_on_hyphens=False, break_long_words=False
    )
