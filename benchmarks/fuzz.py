"""What damaged files and odd options do: never a traceback, never another verdict for lost lines without a note.

    python benchmarks/fuzz.py [--count 10000] [--seed 0] [--pictures 100] [--stored]

Run files of `attn`, `decode` and `capacity` made on the simulated device and those in tests/reports (only these with
--stored), CSV tables, a safetensors file and option texts are damaged at random: bytes changed, put in or cut out,
lines lost, repeated or exchanged, the end cut off, and values anywhere in the JSON replaced by hostile ones. Every file
goes through `analyze`, `compare` and `report`, every --pictures-th through `plot`. Exit status 1, with what repeats the
failure, when anything but a PykvbenchError comes out, when lines were lost and the verdict changed without a note, or
when a hostile text became code in a reproducer.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench import kvfile
from pykvbench.analysis.file import analyze_file, describe
from pykvbench.analysis.finding import Result
from pykvbench.analysis.pairs import Named, compare_run, compare_runs
from pykvbench.analysis.reproduction import Reproduction
from pykvbench.dispatch.landmarks import landmarks_of_run
from pykvbench.drivers.program import parse_program
from pykvbench.errors import KVFileError, PykvbenchError
from pykvbench.experiment.inject import parse_injection
from pykvbench.experiment.plan import Plan
from pykvbench.geometry import Geometry, geometry
from pykvbench.kvfile import Label
from pykvbench.lengths import parse_lengths
from pykvbench.record import Run
from pykvbench.report import bundle, capacity_plot, capacity_text, comparison_text, fan, plot, text, trajectory_table
from pykvbench.report.repro import Reproducer
from pykvbench.sizes import parse_size

STORED = Path(__file__).resolve().parent.parent / "tests" / "reports"
SMALL = ["--backend", "simulated", "--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0"]
MEASURED = {
    "attn": ["--len", "400:420", "--samples", "3", "--simulate", "411=5x,noise=1%"],
    "decode": ["--budget", "20,40", "--prompt", "8"],
    "capacity": ["--context", "16,32", "--concurrency", "1,2", "--budget", "20KiB"],
}
CODE = "'''\n\"\"\"\nhostile_call()\n#\\"
HOSTILE = (
    None, True, -1, 0, 1, 2, 2**31, 2**63, -(2**64), 10**30, 1.5, -0.0, 1e308, -1e308, "", "x", "12", "nan", CODE,
    "\ud800", "\x1b[31m", "a\nb", "../../etc/passwd", "$(id)", "`id`", "{0}", "%s", "<b>", "|", "é" * 3, [], [[]],
    [1], [0, 0], [None], ["x"], {}, {"a": 1}, {"": None}, "0:9", "9:0", "1:1000000000000", "float32", "simulated",
)  # fmt: skip
BYTES = (
    b"0",
    b"9",
    b"-",
    b".",
    b"e",
    b",",
    b":",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"\n",
    b"\r",
    b"\\",
    b"\0",
    b"\xff",
    b"",
)
TERMS = (
    "421", "1", "0", "-", ":", ",", "=", "x", "%", "*", "k", "2", "1e9", "99999999999999999999", "nan", "inf", ".5",
    "@", "s", "first", "noise", "crash", "all", "host:", " ", "é", "\0", "GiB", "KiB", "even", "1/2", "+", "drift",
)  # fmt: skip
OPTIONS = {
    "len": ("380:530", "64:4096:*2", "128,256,1k", "380:530:2"),
    "size": ("20KiB", "1GiB", "1.5MiB", "4096"),
    "simulate": ("421=21x,noise=3%", "all=2x@0s-9s,noise=2%", "430-469=1.3x,first=8x", "crash=403,host:421=3x"),
    "inject": ("421:4x", "421:50%"),
    "geometry": ("gpt2", "llama-3-8b"),
    "plan": ("380:530",),
}
TOOK_TOO_LONG_S = 60.0


@dataclass(frozen=True)
class Failure:
    """What went wrong, and what repeats it."""

    base: str
    seed: int
    what: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--stored", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("error")
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        bases = dict(stored() if options.stored else (*stored(), *measured(Path(folder))))
        for seed in range(options.seed, options.seed + options.count):
            for outcome in one(bases, seed, Path(folder), options.pictures):
                if isinstance(outcome, Failure):
                    outcomes["failed"] += 1
                    print(f"{outcome.base}, --seed {outcome.seed} --count 1: {outcome.what}", flush=True)
                else:
                    outcomes[outcome] += 1
    print(f"{options.count} seeds: " + ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items())))
    sys.exit(1 if outcomes["failed"] else 0)


def stored() -> Iterator[tuple[str, bytes]]:
    """The files in the repository, and a table."""
    for path in sorted(STORED.glob("*.jsonl")):
        yield path.name, path.read_bytes()
    rows = "\n".join(f"{sweep},{length},{100 + length % 7}" for sweep in range(3) for length in range(1, 40))
    yield "table.csv", f"sweep,length,time_us\n{rows}\n".encode()


def measured(folder: Path) -> Iterator[tuple[str, bytes]]:
    """A run of each command, measured here."""
    for command, arguments in MEASURED.items():
        path = folder / f"{command}.jsonl"
        whole = [sys.executable, "-m", "pykvbench", command, *SMALL, *arguments, "-o", str(path)]
        subprocess.run(whole, check=True, capture_output=True)
        yield path.name, path.read_bytes()


def one(bases: dict[str, bytes], seed: int, folder: Path, pictures: int) -> Iterator[str | Failure]:
    """Damage one file, one safetensors file and one text, and say what became of each."""
    chance = random.Random(seed)
    name = chance.choice(sorted(bases))
    path = folder / ("damaged" + Path(name).suffix)
    how, data = damaged(bases[name], chance)
    path.write_bytes(data)
    whole = folder / name
    whole.write_bytes(bases[name])
    for what, act in (
        (name, lambda: read(path, whole, how, picture=seed % pictures == 0)),
        ("safetensors", lambda: stored_kv(folder, chance)),
        ("options", lambda: option(chance)),
    ):
        began = time.monotonic()
        try:
            outcome = act()
        except PykvbenchError as error:
            outcome = f"{what} refused"
            said = str(error)
            if "\n" in said.strip() and "\n" not in str(path) and not said.strip().endswith("."):
                outcome = f"not a sentence: {said!r}"
        except Exception:
            yield Failure(what, seed, f"{how}\n{traceback.format_exc()}")
            continue
        took = time.monotonic() - began
        if took > TOOK_TOO_LONG_S:
            yield Failure(what, seed, f"{how}: {took:.0f} s")
        elif outcome.startswith(("silent", "not a sentence", "code")):
            yield Failure(what, seed, f"{how}: {outcome}")
        else:
            yield outcome


def damaged(data: bytes, chance: random.Random) -> tuple[str, bytes]:
    """What was done, and what came of it."""
    how = chance.choice(("bytes", "values", "values", "values", "lines", "cut", "hole", "header"))
    lines = data.splitlines(keepends=True)
    if how == "bytes":
        changed = bytearray(data)
        for _ in range(chance.choice((1, 3, 30))):
            place = chance.randrange(len(changed))
            changed[place : place + chance.randrange(3)] = chance.choice(BYTES)
        return how, bytes(changed)
    if how in ("values", "header"):
        try:
            for _ in range(chance.choice((1, 2, 10))):
                index = 0 if how == "header" else chance.randrange(len(lines))
                lines[index] = json.dumps(_replaced(json.loads(lines[index]), chance)).encode() + b"\n"
        except ValueError:  # a table
            index = chance.randrange(len(lines))
            cells = lines[index].decode("latin-1").rstrip("\n").split(",")
            cells[chance.randrange(len(cells))] = str(chance.choice(HOSTILE))
            lines[index] = ",".join(cells).encode(errors="replace") + b"\n"
        return how, b"".join(lines)
    if how == "lines":
        for _ in range(chance.choice((1, 5, 50))):
            a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
            what = chance.choice(("lose", "repeat", "exchange"))
            if what == "lose" and len(lines) > 1:
                del lines[a]
            elif what == "repeat":
                lines.insert(b, lines[a])
            else:
                lines[a], lines[b] = lines[b], lines[a]
        return how, b"".join(lines)
    place = chance.randrange(len(data))
    return how, data[:place] if how == "cut" else data[:place] + data[place + chance.randrange(1, 4000) :]


def _replaced(value: Any, chance: random.Random) -> Any:
    """The same document with one value, anywhere in it, replaced, lost or added."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        action = chance.random()
        if action < 0.05:
            return {name: one for name, one in value.items() if name != key}
        if action < 0.1:
            return {**value, str(chance.choice(HOSTILE)): chance.choice(HOSTILE)}
        return {**value, key: _replaced(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        index = chance.randrange(len(value))
        return [*value[:index], _replaced(value[index], chance), *value[index + 1 :]]
    return chance.choice(HOSTILE)


def read(path: Path, whole: Path, how: str, picture: bool) -> str:
    """What the reading commands do with a file; `whole` is what it was."""
    run, result = analyze_file(path)
    json.dumps(result.to_json(), allow_nan=False).encode()
    pages = {"decode": trajectory_table.render, "capacity": capacity_text.render}
    render = pages.get(str(run.header.get("command")), text.render) if run is not None else text.render
    _printable(render(result, header=describe(run), width=80, colour=False))
    if run is not None:
        _printable(text.render_events(run.events, width=80))
        _compare(run, whole)
    if picture:
        _draw(run, result, path.with_suffix(".png"))
    if run is not None and (said := _report(run, result, path)):
        return said
    first, before = _undamaged(whole)
    lost = run is not None and first is not None and len(run.visits) < len(first.visits)
    noted = _notes(result) - _notes(before)
    if lost and how != "lines" and result.verdict != before.verdict and not noted:
        return f"silent: {before.verdict} became {result.verdict}"
    return "read"


@functools.cache
def _undamaged(path: Path) -> tuple[Run | None, Result]:
    return analyze_file(path)


def _notes(result: Result) -> set[str]:
    return {*result.notes, *(note for cell in result.cells for note in cell.notes)}


def _compare(run: Run, whole: Path) -> None:
    other, _ = _undamaged(whole)
    assert other is not None
    for make in (lambda: compare_run(run), lambda: compare_runs([Named("a", other), Named("b", run)], anyway=True)):
        try:
            report = make()
        except PykvbenchError:
            continue
        json.dumps(comparison_text.to_json(report), allow_nan=False)
        _printable(comparison_text.text(report, 80))
        _printable(comparison_text.markdown(report))


def _draw(run: Run | None, result: Result, out: Path) -> None:
    if run is not None and run.is_capacity:
        capacity_plot.draw(run, result, out)
    elif run is not None and run.is_decode:
        fan.draw(run, result, out)
    else:
        plot.draw(run, result, out, landmarks_of_run(run) if run is not None else ())


def _report(run: Run, result: Result, path: Path) -> str | None:
    def reproduce(script: str, what: Reproducer) -> Reproduction:
        return Reproduction(reason="not here.")

    try:
        bundle.check(path, run, path.with_name("new"))
        made = bundle.prepare(run, result, reproduce)
    except PykvbenchError:
        return None
    _printable(made.text)
    if made.script is not None:
        names = {node.id for node in ast.walk(ast.parse(made.script)) if isinstance(node, ast.Name)}
        if "hostile_call" in names:
            return "code: a hostile text is called in the reproducer"
    return None


def _printable(page: str) -> None:
    """Raises UnicodeEncodeError for a lone surrogate and ValueError for what would steer a terminal."""
    page.encode()
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in page):
        raise ValueError(f"a control character is printed: {page!r}")


def stored_kv(folder: Path, chance: random.Random) -> str:
    """A damaged file of KV is refused, or what it holds is what was written."""
    path = folder / "kv.safetensors"
    label = Label("gpt2", "model", Geometry(1, 1, 1, 1, 4, "float32"), 3, 0)
    rows = [(np.ones((1, 1, 3, 4), np.float32), np.zeros((1, 1, 3, 4), np.float32))]
    path.unlink(missing_ok=True)
    kvfile.write(path, rows, label)
    how, data = damaged(path.read_bytes(), chance)
    path.write_bytes(data)
    try:
        found = kvfile.read(path, label).layers
    except KVFileError:
        return "safetensors refused"
    same = all(a.tobytes() == b.tobytes() for one, other in zip(found, rows) for a, b in zip(one, other))
    return "safetensors read" if same else f"silent: {how} changed KV"


def option(chance: random.Random) -> str:
    """An odd text in an option."""
    reader = chance.choice(sorted(OPTIONS))
    pieces = re.findall(r"\d+|[a-zA-Z]+|.", chance.choice(OPTIONS[reader]))
    for _ in range(chance.randrange(3)):
        place = chance.randrange(len(pieces))
        pieces[place : place + chance.randrange(3)] = [chance.choice(TERMS)]
    words = "".join(pieces)
    if reader == "geometry":
        _geometry(chance, words)
    elif reader == "plan":
        _plan(chance, words)
    else:
        {"len": parse_lengths, "size": parse_size, "simulate": parse_program, "inject": parse_injection}[reader](words)
    return "options read"


def _geometry(chance: random.Random, words: str) -> None:
    numbers = [chance.choice((None, -1, 0, 1, 3, 12, 2**40)) for _ in range(5)]
    geometry(chance.choice(("gpt2", words)), chance.choice(("float32", "float16", words)), *numbers)  # type: ignore[arg-type]


def _plan(chance: random.Random, words: str) -> None:
    odd = (-1, 0, 1, 5, 10**12)
    lengths = parse_lengths(chance.choice(("380:383", words)))
    times = [chance.choice((-1.0, 0.0, 1.0, float("nan"), float("inf"), 1e300)) for _ in range(2)]
    Plan((), lengths, chance.choice(odd), chance.choice(odd), chance.choice(odd), *times, simulate=words)


if __name__ == "__main__":
    main()
