"""A reuse run on a terminal: a row for each length and tier, and from which length restoring pays."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from pykvbench.analysis.finding import CellResult, Result
from pykvbench.analysis.reuse_table import ELSEWHERE, PUBLISHED, RECOMPUTE, BreakEven, ReuseRow, ReuseTable, Span
from pykvbench.analysis.sentences import counted
from pykvbench.report import numbers, sentence

_BOLD, _PLAIN = "\033[1m", "\033[0m"


def render(result: Result, *, header: Sequence[str] = (), width: int = 80, colour: bool = False) -> str:
    """The tables of all cells, their break-even lengths, findings and verdicts, ending in a newline.

    Text is no wider than `width`, tables as wide as they are. Colour (ANSI, on the verdict) only when asked.
    """
    width = max(40, width)
    blocks = [_wrap(line, width) for line in header]
    for cell in result.cells:
        blocks += [[""], *_cell(cell, width)]
    rows = [
        f"{row.length} tokens: {row.recompute_s:.2f} s recomputed, {row.restore_s:.2f} s restored, "
        f"{numbers.ratio(row.speedup)}."
        for row in PUBLISHED
    ]
    blocks += [[""], _wrap(f"{ELSEWHERE}:", width), *(_wrap(row, width, indent=2) for row in rows)]
    blocks += [[""]] + [_wrap(f"Note: {note}", width) for note in result.notes] if result.notes else []
    first, *rest = result.cells
    last = _wrap(f"Verdict: {verdict(first) if not rest else 'see each cell.'}", width)
    blocks += [[""], [_BOLD + last[0] + _PLAIN, *last[1:]] if colour else last]
    if rest:
        blocks += [_wrap(f"{cell.cell}: {verdict(cell)}", width, indent=2) for cell in result.cells]
    return "\n".join(line for block in blocks for line in block).lstrip("\n") + "\n"


def table(rows: Sequence[ReuseRow]) -> list[str]:
    """One cell's rows under a head of two lines; lengths that were measured to find the break-even have a `*`."""
    unit = numbers.unit_for([row.span.value for row in rows])
    size = numbers.unit_for([row.bytes for row in rows], numbers.SIZES)
    spans = [row.span for row in rows]
    columns = [
        ("prompt", "tokens", [f"{'* ' if row.searched else ''}{row.length}" for row in rows]),
        ("K and V", size.name, [_number(row.bytes / size.size) for row in rows]),
        ("", "from", [row.tier for row in rows]),
        ("first token", unit.name, [_number(span.value / unit.size) for span in spans]),
        ("of processes", unit.name, [_range(span.low / unit.size, span.high / unit.size) for span in spans]),
        ("speed-up", "", [_speedup(row, row.speedup.value) for row in rows]),
        ("of processes", "", [_range(row.speedup.low, row.speedup.high, row) for row in rows]),
        ("read", unit.name, [_part(row.read_ns, unit.size) for row in rows]),
        ("filling", unit.name, [_part(row.restore_ns, unit.size) for row in rows]),
        ("step", unit.name, [_part(row.step_ns, unit.size) for row in rows]),
        ("disk", "GB/s", [numbers.MISSING if row.bandwidth is None else _number(row.bandwidth) for row in rows]),
    ]
    filled = [column for column in columns if any(text not in ("", numbers.MISSING) for text in column[2])]
    widths = [max(len(text) for text in (top, name, *values)) for top, name, values in filled]
    lines = zip(*[(top, name, *values) for top, name, values in filled], strict=True)
    return ["  " + "  ".join(text.rjust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in lines]


def break_even(value: BreakEven) -> str:
    """From which length restoring from a tier pays, and how that is known."""
    where = f"From {_place(value.tier)}"
    if value.found == "confirmed":
        return (
            f"{where} restoring pays from about {value.length:.0f} tokens, confirmed on both sides: "
            f"{_side(value.below)}, {_side(value.above)}."
        )
    if value.found == "interpolated":
        return (
            f"{where} restoring pays from about {value.length:.0f} tokens, interpolated and not confirmed: "
            f"{_side(value.below)}, {_side(value.above)}; more repeats or a quieter machine would tell."
        )
    if value.found == "below":
        return f"{where} restoring is faster at every length measured: {_side(value.above)}."
    if value.found == "extrapolated":
        return (
            f"{where} restoring is slower at every length measured ({_side(value.below)}); extrapolated, not measured: "
            f"it would pay from about {value.length:.0f} tokens."
        )
    return f"{where} restoring is slower at every length measured, and no length follows from them from which it pays."


def verdict(cell: CellResult) -> str:
    """One cell's verdict: how much faster the first token comes at the longest prompt, and what was wrong."""
    wrong = [finding for finding in cell.findings if finding.kind == "wrong-result"]
    tail = (
        f" The result was wrong at {', '.join(sentence.span(finding.lengths) for finding in wrong)}." if wrong else ""
    )
    rows = cell.reuse.rows if cell.reuse is not None else ()
    longest = max((row.length for row in rows if row.speedup.count), default=None)
    gains = [
        f"{numbers.ratio(row.speedup.value)} as fast from {_place(row.tier)}"
        for row in rows
        if row.length == longest and row.tier != RECOMPUTE and row.speedup.count
    ]
    if not gains:
        return f"nothing was restored, so nothing can be said.{tail}"
    return f"at {longest} tokens the first token comes {', '.join(gains)}, compared with recomputing.{tail}"


def write_speed(known: ReuseTable) -> str:
    """How fast the longest file was written, flushed to the disk; empty without one."""
    written = [row for row in known.rows if row.write_ns is not None]
    if not written:
        return ""
    row = written[-1]
    assert row.write_ns is not None
    return (
        f"Writing {numbers.byte_count(row.bytes)} took {numbers.duration(row.write_ns)} "
        f"({numbers.bandwidth(row.bytes, row.write_ns)}), flushed to the disk; it is in no time above."
    )


def _cell(cell: CellResult, width: int) -> list[list[str]]:
    known = cell.reuse
    if known is None or not known.rows:
        return [[f"{cell.cell}: nothing measured"]]
    processes = max(len(row.ttft) for row in known.rows)
    over = counted(processes, "process")
    blocks = [_wrap(f"{cell.cell}: first token, median and range of {over}", width), table(known.rows)]
    if any(row.searched for row in known.rows):
        blocks.append(_wrap("* measured to find from where restoring pays", width, indent=2))
    blocks.append([""])
    blocks += [_wrap(break_even(value), width) for value in known.break_even]
    read = next((row for row in reversed(known.rows) if row.tier == "disk" and row.how), None)
    if read is not None:
        cache = "past the page cache" if read.cold else "perhaps from the page cache"
        blocks.append(_wrap(f"The disk was read {cache} ({read.how}). {write_speed(known)}", width))
    blocks += [_wrap(sentence.finding(value), width) for value in cell.findings]
    blocks += [_wrap(f"Note: {note.removeprefix(f'{cell.cell}: ')}", width) for note in cell.notes]
    return blocks


def _place(tier: str) -> str:
    return "the disk" if tier == "disk" else f"{tier} memory"


def _side(at: tuple[int, Span] | None) -> str:
    assert at is not None  # every kind that has a side has this one
    length, span = at
    return f"{numbers.ratio(span.value)} at {length} ({_range(span.low, span.high)})"


def _speedup(row: ReuseRow, value: float) -> str:
    return numbers.MISSING if row.tier == RECOMPUTE else numbers.ratio(value)


def _range(low: float, high: float, row: ReuseRow | None = None) -> str:
    if not np.isfinite(low) or (row is not None and row.tier == RECOMPUTE):
        return numbers.MISSING
    return f"{_number(low)}..{_number(high)}"


def _part(ns: float, size: float) -> str:
    return _number(ns / size) if np.isfinite(ns) and ns > 0 else numbers.MISSING


def _number(value: float) -> str:
    if not np.isfinite(value):
        return numbers.MISSING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.001 else "0"


def _wrap(text: str, width: int, indent: int = 0) -> list[str]:
    hang = " " * (indent + 2)
    return textwrap.wrap(
        text, width, initial_indent=" " * indent, subsequent_indent=hang, break_on_hyphens=False, break_long_words=False
    )
