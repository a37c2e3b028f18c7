"""The run file: append-only JSON lines with raw nanoseconds; everything after measuring is a function of it.

Schema 1, one object a line, told apart by "kind":

header      schema, pykvbench, command, argv, seed, plan, cells, machine, clock, notes
visit       cell, sweep, process, order, length, at (ns since the run began), gap (ns since the previous visit ended),
            first and second ([dispatch, total]), dispatch and total (ns a sample), error (numerics, against the float64
            reference), correct, memory (bytes by name), cpu (ns), switches ([voluntary, involuntary]), and on CUDA
            device (ns a sample between two events)
contrast    the same step with one thing changed, after the sweeps: cell, variant (what is changed: whole, part:pv,
            capacity:other, backend:mlx-cpu, ...), length, round, process, order, at, first and second ([dispatch,
            total]), dispatch and total (ns a sample), error and correct (null where the variant has no whole output)
serving     one load served under one policy (`capacity`): cell, context, concurrency, policy, repeat, process, order,
            tokens, at and wall (ns of the run), took (ns of serving time: steps and moves), done (for each sequence
            when it had each token, in serving time), rejected (their numbers), out and into (ns a move), resident and
            held (most sequences in memory, and their predicted bytes), predicted (bytes of a sequence at its end),
            before and peak (bytes by counter), outputs and alone (digests of each sequence's outputs, among the
            others and alone), error and correct (of the first sequence's last token)
reuse       the first token after a prompt, recomputed or restored (`reuse`): cell, length, tier (recompute, device,
            host, disk), repeat, process, order (of the prompt in the run), place (in it), search (whether measured to
            find the break-even length), at, and for each sample in ns: read (from the disk), check, restore (computing
            the prompt, or putting its rows into the caches) and step; first (ns of computing it first of all), bytes
            (of K and V, or of the file), write (ns, null if the file was there), how and cold (of reading), recomputed
            (whether the file was refused), equal (to the output of the KV that was saved), error, correct, memory
event       event (its name), at, and what it is about: cell, sweep, process, length, detail
end         status: complete, interrupted or incomplete; a second one, after the contrasts, replaces the first

Readers ignore keys they do not know, and leave out lines of unknown kinds with a note. No host name, user name, path
or serial number is ever written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pykvbench.bulk import Bulk
from pykvbench.cell import Cell
from pykvbench.errors import RunFileError, UsageError
from pykvbench.header import intact, loads
from pykvbench.visits import Columns, Visit, durations
from pykvbench.visits import Visits as Visits

SCHEMA = 1


@dataclass(frozen=True)
class Run:
    """A run file, read."""

    header: dict[str, Any]
    cells: tuple[Cell, ...]
    visits: Visits
    trajectories: tuple[dict[str, Any], ...]
    events: tuple[dict[str, Any], ...]
    end: dict[str, Any] | None
    notes: tuple[str, ...]
    contrasts: tuple[dict[str, Any], ...] = ()
    servings: tuple[dict[str, Any], ...] = ()
    reuses: tuple[dict[str, Any], ...] = ()

    @property
    def is_decode(self) -> bool:
        """Whether it holds trajectories instead of visits."""
        return self.header.get("command") == "decode"

    @property
    def is_capacity(self) -> bool:
        """Whether it holds servings of many sequences instead of visits."""
        return self.header.get("command") == "capacity"

    @property
    def is_reuse(self) -> bool:
        """Whether it holds times to first token instead of visits."""
        return self.header.get("command") == "reuse"

    @property
    def plan(self) -> dict[str, Any]:
        """The plan as the header states it: lengths, sweeps, samples, warm-up."""
        plan = self.header.get("plan")
        return plan if isinstance(plan, dict) else {}


class RunWriter:
    """Appends to a run file; each line is handed to the system before the call returns."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @classmethod
    def create(cls, path: Path) -> RunWriter:
        """Start a new run file; refuses to touch one that exists."""
        try:
            if path.is_dir():
                raise UsageError(f"{path} is a folder; name a file with -o, such as {path / 'run.jsonl'}.")
            if path.exists():
                raise UsageError(
                    f"{path} exists; name another file with -o, or finish it with pykvbench attn --resume {path}."
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(open(path, "xb", buffering=0))
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror}); name another file with -o.") from None

    @classmethod
    def append(cls, path: Path) -> RunWriter:
        """Go on with a run file that was cut off, dropping an unfinished last line."""
        try:
            file = open(path, "r+b", buffering=0)  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise UsageError(f"{path} cannot be continued ({error.strerror}); start a new run with -o.") from None
        size = file.seek(0, os.SEEK_END)
        file.truncate(_end_of_last_line(file, size))
        file.seek(0, os.SEEK_END)
        return cls(file)

    def write(self, kind: str, values: Mapping[str, Any]) -> None:
        """Append one line."""
        self.write_lines(encode(kind, values))

    def write_lines(self, lines: bytes) -> None:
        """Append lines that `encode` made, a worker's for example."""
        view = memoryview(lines)
        while view:
            view = view[self._file.write(view) :]

    def write_header(self, values: Mapping[str, Any]) -> None:
        """Write the first line, or leave no file behind and raise UsageError: a full disk is said before measuring."""
        try:
            self.write("header", values)
        except OSError as error:
            path = Path(self._file.name)
            self.close()
            path.unlink(missing_ok=True)
            raise UsageError(f"{path} cannot be written ({error.strerror}); name another file with -o.") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def encode(kind: str, values: Mapping[str, Any]) -> bytes:
    """One line of a run file."""
    return json.dumps({"kind": kind, **values}, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def read(path: str | os.PathLike[str]) -> Run:
    """Read a run file, also one that was cut off in its last line or has damaged lines, with a note for each loss.

    Raises RunFileError when the file cannot be read or does not begin with a run's header.
    """
    try:
        with open(path, "rb") as file:
            return _read_lines(file, str(path))
    except OSError as error:
        raise RunFileError(f"{path} cannot be read ({error.strerror}); name a run file or a CSV table.") from None


def is_run(first_line: bytes) -> bool:
    """Whether a file that begins with this line is a run file (and not, say, a CSV table)."""
    return first_line.lstrip().startswith(b"{")


def _read_lines(file: IO[bytes], name: str) -> Run:
    header, cells, lost = _read_header(file.readline(), name)
    columns = Columns()
    trajectories: list[dict[str, Any]] = []
    contrasts: list[dict[str, Any]] = []
    servings: list[dict[str, Any]] = []
    reuses: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    end: dict[str, Any] | None = None
    notes = [*lost]
    damaged = 0
    for line in Bulk(columns, len(cells)).lines(file):
        if not line.endswith(b"\n"):
            notes.append("The last line was cut off and is left out; the run was interrupted while writing.")
            break
        try:
            value = loads(line)
            kind = value["kind"]
            if kind == "visit":
                columns.add(Visit.from_json(value, len(cells)))
            elif kind == "trajectory":
                trajectories.append(value)
            elif kind == "serving":
                servings.append({**value, **_serving(value, len(cells))})
            elif kind == "reuse":
                reuses.append({**value, **_reuse(value, len(cells))})
            elif kind == "contrast":
                contrasts.append({**value, **_contrast(value, len(cells))})
            elif kind == "event":
                events.append({**value, "event": str(value["event"])})
            elif kind == "end":
                end = value
            else:
                raise ValueError("unknown kind")
        except (ValueError, KeyError, TypeError, OverflowError, AttributeError, RecursionError):
            damaged += 1
    if damaged:
        lines_are = "line could not be read and is" if damaged == 1 else "lines could not be read and are"
        notes.append(f"{damaged} damaged {lines_are} left out.")
    if end is None:
        notes.append("The run has no end line: it was killed or is still going on; what was measured is analysed.")
    visits, told = columns.visits(), (tuple(trajectories), tuple(events), end, tuple(notes))
    return Run(header, cells, visits, *told, tuple(contrasts), tuple(servings), tuple(reuses))


def _serving(line: dict[str, Any], cells: int) -> dict[str, Any]:
    """What analysis reads of a serving line; raises KeyError, TypeError or ValueError when it is not one."""
    numbers = {
        name: int(line[name])
        for name in ("cell", "context", "concurrency", "repeat", "tokens", "took", "held", "resident")
    }
    done = [durations(moments) for moments in line["done"]]
    if not 0 <= numbers["cell"] < cells or len(done) != numbers["concurrency"] or numbers["took"] < 0:
        raise ValueError("out of range")
    if any(later < earlier for times in done for earlier, later in zip(times, times[1:])):
        raise ValueError("time goes back")
    memory = {
        name: {str(counter): int(value) for counter, value in dict(line[name]).items()}
        for name in ("before", "peak", "predicted")
    }
    moves = {name: durations(line[name]) for name in ("out", "into")}
    digests = {name: [str(digest) for digest in line[name]] for name in ("outputs", "alone")}
    rejected = [int(number) for number in line["rejected"]]
    return {**numbers, **memory, **moves, **digests, "done": done, "rejected": rejected, "policy": str(line["policy"])}


def _reuse(line: dict[str, Any], cells: int) -> dict[str, Any]:
    """What analysis reads of a reuse line; raises KeyError, TypeError or ValueError when it is not one."""
    numbers = {name: int(line[name]) for name in ("cell", "length", "repeat", "bytes")}
    times = {name: durations(line[name]) for name in ("read", "check", "restore", "step")}
    samples = {len(values) for values in times.values()}
    if not 0 <= numbers["cell"] < cells or numbers["length"] < 1 or numbers["repeat"] < 0:
        raise ValueError("out of range")
    if len(samples) != 1 or not times["step"] or not all(value > 0 for value in (*times["step"], *times["restore"])):
        raise ValueError("samples")
    if line["tier"] == "disk" and not line["recomputed"] and not all(value > 0 for value in times["read"]):
        raise ValueError("samples")
    write = None if line["write"] is None else int(line["write"])
    flags = {name: bool(line[name]) for name in ("search", "recomputed")}
    told = {name: line[name] for name in ("equal", "correct", "cold", "how")}
    return {**numbers, **times, **flags, **told, "tier": str(line["tier"]), "write": write}


def _contrast(line: dict[str, Any], cells: int) -> dict[str, Any]:
    """What analysis reads of a contrast line; raises KeyError, TypeError or ValueError when it is not one."""
    numbers = {name: int(line[name]) for name in ("cell", "length", "round", "process", "order")}
    times = {name: durations(line[name]) for name in ("first", "second", "dispatch", "total")}
    if not 0 <= numbers["cell"] < cells or numbers["length"] < 1 or len(times["first"]) != 2:
        raise ValueError("out of range")
    if not times["total"] or len(times["total"]) != len(times["dispatch"]) or not all(times["total"]):
        raise ValueError("samples")
    return {**numbers, **times, "variant": str(line["variant"])}


def _read_header(line: bytes, name: str) -> tuple[dict[str, Any], tuple[Cell, ...], tuple[str, ...]]:
    if not line.strip():
        raise RunFileError(
            f"{name} is empty; name a run file that pykvbench wrote, or a CSV table of lengths and times."
        )
    try:
        header = loads(line)
        if header["kind"] != "header":
            raise ValueError
        schema = int(header["schema"])
        cells = tuple(Cell.from_json(value) for value in header["cells"])
        if not cells:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RunFileError(
            f"{name} is not a pykvbench run file; name one that `pykvbench attn` or `decode` wrote."
        ) from None
    if schema > SCHEMA:
        raise RunFileError(f"{name} has schema {schema} and this pykvbench reads up to {SCHEMA}; upgrade pykvbench.")
    header, notes = intact(header)
    return header, cells, notes


def _end_of_last_line(file: IO[bytes], size: int) -> int:
    file.seek(max(0, size - (1 << 20)))
    tail = file.read(1 << 20)
    return size - len(tail) + tail.rfind(b"\n") + 1
