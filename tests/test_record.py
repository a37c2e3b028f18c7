import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykvbench.cell import Cell
from pykvbench.errors import PykvbenchError, RunFileError, UsageError
from pykvbench.geometry import geometry
from pykvbench.record import RunWriter, encode, read

CELL = Cell("cpu", "manual", "prealloc", geometry("gpt2", num_layers=1))
HEADER = {"schema": 1, "seed": 0, "plan": {"sweeps": 2, "samples": 3}, "cells": [CELL.to_json()]}


def visit(**changes: Any) -> dict[str, Any]:
    return {
        "cell": 0,
        "sweep": 0,
        "process": 1,
        "order": 0,
        "length": 380,
        "at": 10,
        "gap": 5,
        "first": [40, 100],
        "second": [20, 60],
        "dispatch": [10, 11, 12],
        "total": [50, 51, 52],
        "error": 1e-7,
        "correct": True,
        "memory": {"rss": 1000},
        **changes,
    }


def written(tmp_path: Path, *lines: bytes) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"
    writer = RunWriter.create(path)
    writer.write("header", HEADER)
    writer.write("visit", visit())
    writer.write("visit", visit(sweep=1, length=381, error=None, correct=False, memory={"live": 7}))
    writer.write("event", {"event": "crashed", "length": 382})
    writer.write("end", {"status": "complete"})
    writer.close()
    run = read(path)
    assert run.cells == (CELL,)
    assert run.visits.length.tolist() == [380, 381]
    assert run.visits.total.tolist() == [[50, 51, 52], [50, 51, 52]]
    assert run.visits.first.tolist() == [[40, 100], [40, 100]]
    assert run.visits.correct.tolist() == [True, False]
    np.testing.assert_array_equal(run.visits.error, [1e-7, np.nan])
    np.testing.assert_array_equal(run.visits.memory["rss"], [1000, np.nan])
    np.testing.assert_array_equal(run.visits.memory["live"], [np.nan, 7])
    assert run.events[0]["event"] == "crashed"
    assert run.end == {"kind": "end", "status": "complete"}
    assert run.notes == ()
    assert run.visits.of_cell(0).length.tolist() == [380, 381]


def contrast(**changes: Any) -> dict[str, Any]:
    line = {"cell": 0, "variant": "part:pv", "length": 421, "round": 0, "process": 6, "order": 3, "at": 10}
    spans = {"first": [40, 100], "second": [20, 60], "dispatch": [10, 11, 12], "total": [50, 51, 52]}
    return {**line, **spans, "error": None, "correct": None, **changes}


def test_contrasts_are_read_and_the_end_after_them_stands(tmp_path: Path) -> None:
    ends = [encode("end", {"status": status}) for status in ("complete", "interrupted")]
    damaged = encode("contrast", contrast(cell=1)), encode("contrast", contrast(total=[50, 51]))
    lines = encode("header", HEADER), ends[0], encode("contrast", contrast()), *damaged, ends[1]
    run = read(written(tmp_path, *lines))
    assert [(line["variant"], line["length"], line["total"]) for line in run.contrasts] == [
        ("part:pv", 421, [50, 51, 52])
    ]
    assert run.end == {"kind": "end", "status": "interrupted"}
    assert run.notes == ("2 damaged lines could not be read and are left out.",)


def test_a_cut_off_last_line_is_left_out_with_a_note(tmp_path: Path) -> None:
    whole = encode("header", HEADER) + encode("visit", visit())
    run = read(written(tmp_path, whole, encode("visit", visit(length=381))[:-20]))
    assert run.visits.length.tolist() == [380]
    assert run.notes == (
        "The last line was cut off and is left out; the run was interrupted while writing.",
        "The run has no end line: it was killed or is still going on; what was measured is analysed.",
    )


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b"{}\n",
        b"7\n",
        encode("visit", visit(total=[1, 2])),
        encode("visit", visit(total=[0, 1, 2])),
        encode("visit", visit(cell=3)),
        encode("visit", visit(length=0)),
        encode("visit", visit(length="x")),
        encode("visit", visit(total=None)),
        encode("visit", visit(at=2**70)),
        encode("visit", visit(first=[1])),
        encode("event", {}),
    ],
)
def test_a_damaged_line_is_left_out_with_a_note(tmp_path: Path, line: bytes) -> None:
    run = read(
        written(
            tmp_path,
            encode("header", HEADER),
            encode("visit", visit()),
            line,
            encode("visit", visit(length=381)),
            encode("end", {}),
        )
    )
    assert run.visits.length.tolist() == [380, 381]
    assert len(run.visits.memory["rss"]) == 2
    assert run.notes == ("1 damaged line could not be read and is left out.",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; name a run file that pykvbench wrote, or a CSV table of lengths and times."),
        (b"{}\n", "is not a pykvbench run file; name one that `pykvbench attn` or `decode` wrote."),
        (b'{"kind":"visit"}\n', "is not a pykvbench run file; name one that `pykvbench attn` or `decode` wrote."),
        (
            encode("header", {**HEADER, "schema": 99}),
            "has schema 99 and this pykvbench reads up to 1; upgrade pykvbench.",
        ),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(RunFileError) as error:
        read(path)
    assert str(error.value) == f"{path} {message}"


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="No such file or directory"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(RunFileError, match="Is a directory"):
        read(tmp_path)


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path, b"precious")
    with pytest.raises(
        UsageError, match="exists; name another file with -o, or finish it with pykvbench attn --resume"
    ):
        RunWriter.create(path)
    assert path.read_bytes() == b"precious"


def test_a_header_that_does_not_fit_leaves_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = RunWriter.create(path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(UsageError, match="cannot be written .No space left"):
        patch.setattr(writer, "write_lines", full)
        writer.write_header(HEADER)
    assert not path.exists()


def full(lines: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_header_without_cells_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="is not a pykvbench run file"):
        read(written(tmp_path, encode("header", {**HEADER, "cells": []})))


def test_going_on_drops_the_unfinished_line(tmp_path: Path) -> None:
    path = written(tmp_path, encode("header", HEADER), encode("visit", visit()), b'{"kind":"vis')
    writer = RunWriter.append(path)
    writer.write("visit", visit(length=381))
    writer.close()
    assert read(path).visits.length.tolist() == [380, 381]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_no_changed_byte_makes_a_traceback(tmp_path_factory: pytest.TempPathFactory, place: int, value: int) -> None:
    content = bytearray(
        encode("header", HEADER) + encode("visit", visit()) + encode("event", {"event": "x"}) + encode("end", {})
    )
    content[place % len(content)] = value
    path = tmp_path_factory.mktemp("mutated") / "run.jsonl"
    path.write_bytes(content)
    try:
        run = read(path)
    except PykvbenchError:
        return
    assert len(run.visits) == 1 or run.notes


def test_lines_hold_no_nan() -> None:
    with pytest.raises(ValueError):
        encode("visit", {"error": float("nan")})
    assert json.loads(encode("visit", {"a": 1})) == {"kind": "visit", "a": 1}
