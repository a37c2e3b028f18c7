"""Reading many visit lines at once: those that differ from one that was read strictly in nothing but their digits.

Most of a run file is such lines. The first of a kind is read strictly and tells in which places its numbers stand; the
numbers of the others are then taken out of the bytes in one go, about 10 times faster than line by line. What looks
different, or holds a number that is out of range, is left to the strict reader, which alone says what is damaged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from pykvbench.visits import MOST, SCALARS, Columns, Ints, Visit

CHUNK = 4 << 20  # bytes; the arrays made of one take ten times as much
_ZERO, _NEWLINE = ord("0"), ord("\n")
_DIGITS = frozenset(b"0123456789")
_ZEROED = bytes(_ZERO if byte in _DIGITS else byte for byte in range(256))
_NUMBERS = bytes(byte if byte in _DIGITS else ord(" ") for byte in range(256))
_RUN = re.compile(rb"[0-9]+")
_MOST_DIGITS = 18  # 10^18 ns are 31 years; beyond, int64 may overflow
_MOST_KINDS = 256  # a file that pykvbench wrote has a few: by how the error is written and by the gap's sign
_MAY_BE_NEGATIVE = ("process", "order", "at", "gap")


@dataclass(frozen=True)
class _Decimal:
    """A number with a point or an exponent: its first and last run of digits in the line."""

    first: int
    last: int


@dataclass(frozen=True)
class _Kind:
    """Where the values stand in lines that look alike: the place of their run of digits, from 0."""

    places: Ints  # of SCALARS and times
    signs: Ints  # of the same
    samples: int
    error: int | _Decimal | None
    correct: bool
    memory: dict[str, int | _Decimal]
    whole: npt.NDArray[np.bool_]  # by place; a whole number must not begin with a 0


@dataclass
class Bulk:
    """Reads a file's visits into columns; `cells` is how many the header names."""

    columns: Columns
    cells: int
    _kinds: list[_Kind] = field(default_factory=list)
    known: dict[bytes, int] = field(default_factory=dict)  # kind by a line with 0 for every run of digits; -1 for none

    def lines(self, file: IO[bytes]) -> Iterator[bytes]:
        """Every line that is left to the strict reader, in order, after the visits before it were added."""
        while chunk := file.read(CHUNK):
            chunk += file.readline()
            start = 0
            while not self.columns.samples and start < len(chunk):  # the first visit says how many samples all have
                stop = (chunk.find(b"\n", start) + 1) or len(chunk)
                yield chunk[start:stop]
                start = stop
            stop = chunk.rfind(b"\n") + 1
            if stop > start:
                yield from _Chunk(chunk[start:stop], self).lines()
            if stop < len(chunk) and start < len(chunk):
                yield chunk[max(start, stop) :]

    def kind(self, look: bytes, line: bytes) -> int:
        """The number of the kind of lines that look like this one, -1 if they are left to the strict reader."""
        number = self.known.get(look)
        if number is None:
            if len(self.known) == _MOST_KINDS:
                return -1
            kind = _learn(line, self.cells)
            number = self.known[look] = -1 if kind is None else len(self._kinds)
            if kind is not None:
                self._kinds.append(kind)
        return number

    def __getitem__(self, number: int) -> _Kind:
        return self._kinds[number]


class _Chunk:
    """Whole lines and the runs of digits in them."""

    def __init__(self, text: bytes, bulk: Bulk) -> None:
        self.text, self.bulk = text, bulk
        data = np.frombuffer(text, dtype=np.uint8)
        digit = np.concatenate(([False], (data - _ZERO) < 10, [False]))  # below 0 wraps to above 10
        begins = digit[1:-1] & ~digit[:-2]
        self.starts = np.flatnonzero(begins)
        self.stops = np.flatnonzero(digit[1:-1] & ~digit[2:]) + 1
        ends = np.flatnonzero(data == _NEWLINE) + 1
        self.edges = np.concatenate(([0], ends))
        self.first_run = np.searchsorted(self.starts, self.edges)
        zeroed = np.frombuffer(text.translate(_ZEROED), dtype=np.uint8)
        looks = zeroed[begins | ~digit[1:-1]].tobytes().split(b"\n")[:-1]
        numbers = list(map(bulk.known.get, looks))
        for line, number in enumerate(numbers):
            if number is None:
                numbers[line] = bulk.kind(looks[line], self.line(line))
        self.kinds = np.array(numbers, dtype=np.int64)
        width = self.stops - self.starts
        odd = np.flatnonzero((width > _MOST_DIGITS) | ((width > 1) & (data[self.starts] == _ZERO)))
        self.odd_line = np.searchsorted(self.first_run, odd, side="right") - 1
        self.odd_place = odd - self.first_run[self.odd_line]

    def line(self, number: int) -> bytes:
        """One of the lines, whole."""
        return self.text[self.edges[number] : self.edges[number + 1]]

    def lines(self) -> Iterator[bytes]:
        """Add the visits to the columns, and yield what is left between them."""
        columns, count = self.bulk.columns, len(self.kinds)
        fast = np.zeros(count, dtype=np.bool_)
        block = np.zeros((count, len(SCALARS) + 4 + 2 * columns.samples), dtype=np.int64)
        error, correct = np.full(count, np.nan), np.zeros(count, dtype=np.bool_)
        memory: dict[str, npt.NDArray[np.float64]] = {}
        some = [number for number in np.unique(self.kinds).tolist() if number >= 0]
        numbers = (
            np.fromstring(self.text.translate(_NUMBERS), dtype=np.int64, sep=" ") if some else np.zeros(0, np.int64)
        )
        for number in some:
            kind, rows = self.bulk[number], np.flatnonzero(self.kinds == number)
            if kind.samples != columns.samples:
                continue
            runs = self.first_run[rows]
            block[rows] = numbers[runs[:, None] + kind.places] * kind.signs
            correct[rows] = kind.correct
            if kind.error is not None:
                error[rows] = self._floats(kind.error, runs, numbers)
            for name, where in kind.memory.items():
                memory.setdefault(name, np.full(count, np.nan))[rows] = self._floats(where, runs, numbers)
            fast[rows] = True
            suspects = self.kinds[self.odd_line] == number
            lines = self.odd_line[suspects]
            fast[lines[kind.whole[self.odd_place[suspects]]]] = False
        fast &= (block[:, 0] < self.bulk.cells) & (block[:, SCALARS.index("length")] >= 1)
        fast &= block[:, SCALARS.index("sweep")] < MOST
        width = len(SCALARS)
        totals = [width + 1, width + 3, *range(block.shape[1] - columns.samples, block.shape[1])]
        fast &= (block[:, totals] > 0).all(axis=1)
        begun = 0
        for left in (*np.flatnonzero(~fast).tolist(), count):
            if left > begun:
                here = slice(begun, left)
                counters = {name: values[here] for name, values in memory.items()}
                columns.extend(block[here], error[here], correct[here], counters)
            if left < count:
                yield self.line(left)
            begun = left + 1

    def _floats(self, where: int | _Decimal, runs: Ints, numbers: Ints) -> npt.NDArray[np.float64]:
        if isinstance(where, int):
            return numbers[runs + where].astype(np.float64)
        starts, stops = self.starts[runs + where.first].tolist(), self.stops[runs + where.last].tolist()
        return np.array([float(self.text[start:stop]) for start, stop in zip(starts, stops)])


def _learn(line: bytes, cells: int) -> _Kind | None:
    """What lines that look like this visit hold where; None when it is none or looks unlike those pykvbench writes.

    The line is read once more with the number of each run of digits, from 1, in its place.
    """
    runs: list[int] = []
    whole: list[int] = []

    def integer(text: str) -> int:
        runs.append(abs(int(text)))
        whole.append(abs(int(text)))
        return int(text)

    def decimal(text: str) -> _Decimal | str:
        inside = [int(run) for run in re.findall("[0-9]+", text)]
        runs.extend(inside)
        whole.append(inside[0])
        return text if text.startswith("-") else _Decimal(inside[0] - 1, inside[-1] - 1)

    place = iter(range(1, len(line) + 1))
    numbered = _RUN.sub(lambda run: str(next(place)).encode(), line)
    try:
        value = json.loads(line)
        if value["kind"] != "visit":
            return None
        visit = Visit.from_json(value, cells)
        marked: dict[str, Any] = json.loads(numbered, parse_int=integer, parse_float=decimal)
        scalars = [marked[name] for name in SCALARS]
        times = [mark for name in ("first", "second", "dispatch", "total") for mark in marked[name]]
        memory: dict[str, Any] = marked.get("memory") or {}
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError, RecursionError):
        return None
    count = next(place) - 1
    # A run of digits that is in no number is in a string, a name for example, and would differ unseen.
    if sorted(runs) != list(range(1, count + 1)) or marked["correct"] is not visit.correct:
        return None
    if not all(type(mark) is int for mark in (*scalars, *times)):
        return None
    if any(mark < 0 for mark in times) or any(
        mark < 0 for name, mark in zip(SCALARS, scalars) if name not in _MAY_BE_NEGATIVE
    ):
        return None
    others = {name: _place(mark) for name, mark in memory.items()}
    error = None if marked["error"] is None else _place(marked["error"])
    if None in others.values() or (error is None) != (marked["error"] is None):
        return None
    marks = np.array([*scalars, *times], dtype=np.int64)
    is_whole = np.zeros(count, dtype=np.bool_)
    is_whole[np.array(whole) - 1] = True
    known = {name: where for name, where in others.items() if where is not None}
    return _Kind(np.abs(marks) - 1, np.sign(marks), visit.samples, error, visit.correct, known, is_whole)


def _place(mark: Any) -> int | _Decimal | None:
    if isinstance(mark, _Decimal):
        return mark
    return mark - 1 if type(mark) is int and mark > 0 else None
