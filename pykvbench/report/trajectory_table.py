"""A decode run on a terminal: a row a budget, as whole generations are usually published, and what they mean."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from pykvbench.analysis.finding import BudgetRow, CellResult, Finding, Result
from pykvbench.report import numbers, sentence

_BY_BUDGET = ("state", "drift", "unstable")  # kinds whose lengths are budgets
_COUNTERS = ("live", "driver")
_SHOWN = 20  # findings a cell
_BOLD, _PLAIN = "\033[1m", "\033[0m"


def render(result: Result, *, header: Sequence[str] = (), width: int = 80, colour: bool = False) -> str:
    """The tables of all cells, their findings, limits and verdicts, ending in a newline; text no wider than `width`.

    A row's total is the median over its repeats; `*` marks budgets that are slow at lengths where others are not.
    Columns that no row fills are left out. Colour (ANSI, on verdicts) only when asked.
    """
    width = max(40, width)
    blocks = [_wrap(line, width) for line in header]
    for cell in result.cells:
        blocks += [[""], *_cell(cell, width)]
    blocks += [[""]] + [_wrap(f"Note: {note}", width) for note in result.notes] if result.notes else []
    blocks.append([""])
    last = _wrap(f"Verdict: {run_verdict(result)}", width)
    blocks.append([_BOLD + last[0] + _PLAIN, *last[1:]] if colour else last)
    if len(result.cells) > 1:
        blocks += [_wrap(f"{cell.cell}: {verdict(cell)}", width, indent=2) for cell in result.cells]
    return "\n".join(line for block in blocks for line in block).lstrip("\n") + "\n"


def table(rows: Sequence[BudgetRow]) -> list[str]:
    """The budgets of one cell after one prompt, a line each under a head of two lines."""
    unit, totals = _durations([row.total_ns for row in rows])
    token_unit, tokens = _durations([row.total_ns / row.budget for row in rows])
    columns = [("", "budget", [f"{'* ' if row.slow else ''}{row.budget}" for row in rows])]
    columns += [("total", unit, totals), ("a token", token_unit, tokens)]
    if any(row.off_ns is not None for row in rows):
        off_unit, off = _durations([np.nan if row.off_ns is None else row.off_ns for row in rows])
        saved = [numbers.ratio(row.off_ratio) for row in rows]
        columns += [("no cache", off_unit, off), ("ratio", "off/on", saved)]
    counters = [name for name in _COUNTERS if any(name in row.memory for row in rows)]
    for name in counters or [name for name in ("rss",) if any(name in row.memory for row in rows)]:
        columns.append((name, "MiB", _texts([row.memory.get(name, np.nan) / 2**20 for row in rows])))
    fewest = min(len(row.totals_ns) for row in rows)
    if fewest < max(len(row.totals_ns) for row in rows):
        columns.append(("whole", "runs", [str(len(row.totals_ns)) for row in rows]))
    widths = [max(len(text) for text in (top, name, *values)) for top, name, values in columns]
    lines = [
        "  ".join(text.rjust(w) for text, w in zip(line, widths, strict=True)).rstrip()
        for line in zip(*[(top, name, *values) for top, name, values in columns], strict=True)
    ]
    return [f"  {line}" for line in lines]


def verdict(cell: CellResult) -> str:
    """One cell's verdict: its word, a colon, and what it means for lengths and budgets."""
    if cell.verdict == "state":
        found = next(f for f in cell.findings if f.kind == "state" and f.confidence == "confirmed")
        return f"state: {found.note}"
    if cell.verdict == "smooth" and cell.curve.lengths.size:
        ends = f"{cell.curve.lengths[0]} to {cell.curve.lengths[-1]}"
        return (
            f"smooth: no length from {ends} costs more than a longer one beyond "
            f"{numbers.ratio(cell.limit_of_detection)}, and it costs the same in every budget."
        )
    doubtful = [f for f in cell.findings if f.kind in ("state", "unstable") or f.confidence == "apparent"]
    if cell.verdict == "unresolved" and doubtful:
        return f"unresolved: {doubtful[0].note}"
    return sentence.verdict(cell)


def run_verdict(result: Result) -> str:
    """The verdict over all cells: the only cell's own, or the word that decides and the cells that say it."""
    return verdict(result.cells[0]) if len(result.cells) == 1 else sentence.run_verdict(result)


def _cell(cell: CellResult, width: int) -> list[list[str]]:
    blocks = []
    for prompt in sorted({row.prompt for row in cell.budgets}):
        rows = [row for row in cell.budgets if row.prompt == prompt]
        repeats = max(len(row.totals_ns) for row in rows)
        count = f"{len(rows)} budget{'s' if len(rows) > 1 else ''}, {repeats} repeat{'s' if repeats != 1 else ''}"
        blocks += [_wrap(f"{cell.cell}, prompt {prompt}: {count}", width), table(rows), [""]]
    if not blocks:
        blocks.append([f"{cell.cell}: nothing measured"])
    shown = sorted(cell.findings, key=lambda f: f.confidence != "confirmed")[:_SHOWN]
    blocks += [_wrap(finding(value), width) for value in shown]
    if len(shown) < len(cell.findings):
        blocks.append([f"And {len(cell.findings) - len(shown)} findings more; --json lists all."])
    blocks += [_wrap(f"Note: {note.removeprefix(f'{cell.cell}: ')}", width) for note in cell.notes]
    blocks.append(_wrap(sentence.limit(cell), width))
    return blocks


def finding(value: Finding) -> str:
    """One finding: kind, where, ratio, votes, p, confidence; then its note."""
    what = "budget" if value.kind in _BY_BUDGET else "length"
    first, last = value.lengths
    where = f"at {what} {first}" if first == last else f"at {what}s {first} to {last}"
    evidence = [
        numbers.ratio(value.ratio) if value.ratio is not None and np.isfinite(value.ratio) else "",
        value.votes or "",
        f"p = {numbers.p_value(value.p)}".replace("= below", "<") if value.p is not None else "",
        value.confidence,
    ]
    note = value.note[:1].upper() + value.note[1:]
    return f"{value.kind} {where}: {', '.join(part for part in evidence if part)}. {note}"


def _durations(values_ns: Sequence[float]) -> tuple[str, list[str]]:
    unit = numbers.unit_for(values_ns)
    return unit.name, _texts([value / unit.size for value in values_ns])


def _texts(values: Sequence[float]) -> list[str]:
    """Numbers with equally many decimals, so many that the smallest shows two digits."""
    smallest = min((value for value in values if np.isfinite(value) and value > 0), default=1.0)
    decimals = 0 if smallest >= 9.95 else 1 if smallest >= 0.995 else 2 if smallest >= 0.0995 else 3
    return [f"{value:.{decimals}f}" if np.isfinite(value) else numbers.MISSING for value in values]


def _wrap(text: str, width: int, indent: int = 0) -> list[str]:
    hang = " " * (indent + 2)
    return textwrap.wrap(
        text, width, initial_indent=" " * indent, subsequent_indent=hang, break_on_hyphens=False, break_long_words=False
    )
