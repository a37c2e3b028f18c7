"""Anyone's table of lengths and times: a CSV read into arrays, or one sentence about the line that is wrong."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pykvbench.analysis.finding import Floats, Ints
from pykvbench.errors import RunFileError

UNITS_NS = {"time_ns": 1.0, "time_us": 1e3, "time_ms": 1e6, "time_s": 1e9}
AXES = ("length", "budget")
_SHORTEST_NS, _LONGEST_NS = 1e-3, 3.2e18  # their ratio and all sums stay far from overflow
_EXAMPLE = "a header such as length,time_ms and a line such as 421,1.25 for each measurement"


@dataclass(frozen=True)
class Table:
    """Rows in file order: x is a KV length, or a budget of new tokens whose whole generation was timed."""

    kind: str  # "length" or "budget"
    x: Ints  # [rows]
    time_ns: Floats  # [rows]
    sweep: Ints | None  # [rows]
    order: Ints | None  # [rows] position in time, within the sweep or within the whole run
    notes: tuple[str, ...] = ()  # what of the table was not used


def read_table(source: str | os.PathLike[str]) -> Table:
    """Read a CSV from a path (or a str without a line break) or from its text.

    Columns, by comma, tab or semicolon: `length` or `budget`; one of time_s, time_ms, time_us, time_ns; optionally
    `sweep` and `order`; others are ignored. Raises RunFileError naming the line and the remedy.
    """
    rows = _rows(_text(source))
    if not rows:
        raise RunFileError(f"the table is empty; write {_EXAMPLE}.")
    _, header = rows[0]
    names = [name.strip().lower() for name in header]
    axis, unit = (
        _one_of(names, AXES, "which lengths were timed"),
        _one_of(names, tuple(UNITS_NS), "the times and their unit"),
    )
    if len(rows) == 1:
        raise RunFileError(f"the table has a header and no rows; write {_EXAMPLE}.")
    columns = {name: names.index(name) for name in (axis, unit, "sweep", "order") if name in names}
    values = {
        name: [_number(fields, column, line, name) for line, fields in rows[1:]] for name, column in columns.items()
    }
    lines = [line for line, _ in rows[1:]]
    for line, time in zip(lines, values[unit], strict=True):
        if not (time > 0 and math.isfinite(time)):
            raise RunFileError(
                f"line {line}: {unit} is {time:g}; times must be finite and above 0, so correct or delete the line."
            )
        if not _SHORTEST_NS <= time * UNITS_NS[unit] <= _LONGEST_NS:
            raise RunFileError(
                f"line {line}: {unit} is {time:g}; no step takes less than a picosecond or more than a century, so "
                "correct the line or the column's unit."
            )
    return Table(
        kind=axis,
        x=_whole(values[axis], lines, axis, least=0),
        time_ns=np.array(values[unit]) * UNITS_NS[unit],
        sweep=_whole(values["sweep"], lines, "sweep") if "sweep" in values else None,
        order=_whole(values["order"], lines, "order") if "order" in values else None,
        notes=_prompts(names, [fields for _, fields in rows[1:]]),
    )


def _prompts(names: list[str], rows: list[list[str]]) -> tuple[str, ...]:
    """A note when rows differ in a prompt's length, which is not used and would look like spread."""
    if "prompt" not in names:
        return ()
    column = names.index("prompt")
    prompts = sorted({fields[column].strip() for fields in rows if column < len(fields)})
    if len(prompts) < 2:
        return ()
    return (
        f"rows after {len(prompts)} different prompts were taken as repeats; give a table for each prompt to tell them "
        "apart.",
    )


def _text(source: str | os.PathLike[str]) -> str:
    if isinstance(source, str) and ("\n" in source or "\r" in source or not source.strip()):
        return source
    try:
        return Path(source).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise RunFileError(f"{source} is not text in UTF-8; save the table as CSV in UTF-8.") from None
    except OSError as error:
        raise RunFileError(f"{source} cannot be read ({error.strerror}); name a readable CSV file.") from None


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """Line number and fields of every line that holds something: blank lines and # comments are skipped.

    Fields are separated as in the first such line: by tabs or semicolons where it has no comma, as spreadsheets write.
    """
    lines = text.lstrip("\ufeff").splitlines()
    header = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    delimiter = next((mark for mark in ",\t;" if mark in header), ",")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    try:
        return [
            (reader.line_num, fields)
            for fields in reader
            if any(f.strip() for f in fields) and not fields[0].lstrip().startswith("#")
        ]
    except csv.Error as error:
        raise RunFileError(f"line {reader.line_num}: not CSV ({error}); write {_EXAMPLE}.") from None


def _one_of(names: list[str], wanted: tuple[str, ...], what: str) -> str:
    present = [name for name in wanted if name in names]
    if len(present) == 1:
        if names.count(present[0]) > 1:
            raise RunFileError(f"the table has two columns named {present[0]}; rename or delete one of them.")
        return present[0]
    choice = ", ".join(wanted[:-1]) + " or " + wanted[-1]
    if not present:
        raise RunFileError(f"the table has no column {choice} for {what}; write {_EXAMPLE}.")
    raise RunFileError(f"the table has the columns {' and '.join(present)}; keep one of {choice}.")


def _number(fields: list[str], column: int, line: int, name: str) -> float:
    field = fields[column].strip() if column < len(fields) else ""
    if not field:
        raise RunFileError(f"line {line}: {name} is missing; fill it in or delete the line.")
    try:
        return float(field)
    except ValueError:
        raise RunFileError(
            f"line {line}: {name} is {field[:40]!r}, not a number; write digits with a point, such as 1.25."
        ) from None


def _whole(values: list[float], lines: list[int], name: str, least: int = -(2**53)) -> Ints:
    for line, value in zip(lines, values, strict=True):
        if not math.isfinite(value) or value != int(value) or not least <= value <= 2**53:
            raise RunFileError(f"line {line}: {name} is {value:g}; write a whole number, such as 421.")
    return np.array(values, dtype=np.float64).astype(np.int64)
