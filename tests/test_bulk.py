"""Reading in bulk gives exactly what reading line by line gives, whatever the lines look like."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import cell, lines, write

from pykvbench import bulk, record
from pykvbench.record import Run


def strictly(path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The run as read line by line."""
    with monkeypatch.context() as patch:
        patch.setattr(bulk.Bulk, "kind", lambda self, look, line: -1)
        return record.read(path)


def check_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    fast, strict = record.read(path), strictly(path, monkeypatch)
    for name in strict.visits.__dataclass_fields__:
        if name != "memory":
            np.testing.assert_array_equal(getattr(fast.visits, name), getattr(strict.visits, name), err_msg=name)
    assert fast.visits.memory.keys() == strict.visits.memory.keys()
    for name, values in strict.visits.memory.items():
        np.testing.assert_array_equal(fast.visits.memory[name], values, err_msg=name)
    assert (fast.notes, fast.events, fast.end) == (strict.notes, strict.events, strict.end)
    return fast


def test_most_lines_are_read_in_bulk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "run.jsonl", lines(cell("mps"), cell("mlx"), wrong=(415,)))
    read_strictly: list[bytes] = []
    original = bulk.Bulk.lines

    def spy(self: bulk.Bulk, file: Any) -> Any:
        for line in original(self, file):
            read_strictly.append(line)
            yield line

    monkeypatch.setattr(bulk.Bulk, "lines", spy)
    run = record.read(path)
    assert len(run.visits) == 2 * 5 * 17
    assert sum(b'"visit"' in line for line in read_strictly) == 1
    check_same(path, monkeypatch)


def test_chunks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "run.jsonl", lines(cell("mps"), slow={421: 3.0}))
    for size in (1, 400, 1000, 5000):
        monkeypatch.setattr(bulk, "CHUNK", size)
        assert len(check_same(path, monkeypatch).visits) == 5 * 17
    path.write_bytes(path.read_bytes()[:-30])
    assert check_same(path, monkeypatch).notes[0].startswith("The last line was cut off")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("error", None),
        ("error", 0),
        ("error", 12),
        ("error", 2e-06),
        ("error", 0.00012),
        ("error", -1.5),
        ("error", "0.5"),
        ("gap", -17),
        ("gap", 0),
        ("at", 1.5e3),
        ("at", "12"),
        ("at", True),
        ("cell", 7),
        ("cell", -1),
        ("length", 0),
        ("length", 10**19),
        ("order", 10**18),
        ("total", [1, 2, 0]),
        ("total", [1, 2]),
        ("total", [1, 2, 3, 4]),
        ("total", [10**17, 10**18, 2**62]),
        ("dispatch", [1, -2, 3]),
        ("first", [1]),
        ("correct", 1),
        ("correct", "false"),
        ("memory", {}),
        ("memory", None),
        ("memory", {"heap7": 5}),
        ("memory", {"live": 1.5, "rss": 7}),
        ("memory", {"live": -3}),
        ("unknown", {"v1": ["007", 1.50, None]}),
    ],
)
def test_a_line_unlike_the_others_is_read_as_the_strict_reader_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    written = lines(cell("mps"), sweeps=3)
    for index, line in enumerate(written):
        if line["kind"] == "visit" and index % 3 == 0:
            line[name] = value
    check_same(write(tmp_path / "run.jsonl", written), monkeypatch)


def test_numbers_that_json_does_not_allow_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "run.jsonl", lines(cell("mps"), sweeps=3))
    text = path.read_bytes().split(b"\n")
    text[5] = text[5].replace(b'"gap":1000', b'"gap":0010')
    text[6] = text[6].replace(b'"error":2.1e-06', b'"error":02.1e-06')
    text[7] = text[7].replace(b'"gap":1000', b'"gap":')
    text[8] = text[8].replace(b'"gap":1000', b'"gap":-')
    path.write_bytes(b"\n".join(text))
    run = check_same(path, monkeypatch)
    assert len(run.visits) == 3 * 17 - 4
    assert "4 damaged lines could not be read and are left out." in run.notes


@pytest.mark.parametrize("seed", range(30))
def test_bytes_changed_anywhere_make_no_difference_between_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    path = write(tmp_path / "run.jsonl", lines(cell("mps"), cell("mlx"), sweeps=3))
    data = bytearray(path.read_bytes())
    begin = data.index(b"\n") + 1
    for _ in range(40):
        place = chance.randrange(begin, len(data))
        what = chance.choice([b"0", b"9", b"-", b".", b"e", b",", b'"', b"\n", b"\r", b"\\", b"\x00", b"\xff", b""])
        data[place : place + chance.randrange(2)] = what
    path.write_bytes(data)
    check_same(path, monkeypatch)


def test_values_survive_exactly(tmp_path: Path) -> None:
    written = lines(cell("mps"))
    rng = np.random.default_rng(0)
    visits = [line for line in written if line["kind"] == "visit"]
    for line in visits:
        line["error"] = float(np.exp(rng.normal(-12, 4)))
        line["at"] = int(rng.integers(10**17))
    run = record.read(write(tmp_path / "run.jsonl", written))
    assert run.visits.error.tolist() == [line["error"] for line in visits]
    assert run.visits.at.tolist() == [line["at"] for line in visits]
