"""Workers under other Pythons: stand-ins that are this Python with another numpy's version in front of it."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import pykvbench as pykvbench_package
from pykvbench import record
from pykvbench.cell import Cell
from pykvbench.cli import main
from pykvbench.experiment.interpreter import interpreters, under
from pykvbench.geometry import geometry

TINY = ["attn", "--backend", "simulated", "--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0"]
SHORT = ["--len", "40:42", "--sweeps", "3", "--samples", "1", "--simulate", "noise=1%"]
CELL = Cell("simulated", "manual", "prealloc", geometry("gpt2"))


def stand_in(folder: Path, version: str) -> str:
    """A program that is this Python, in which numpy says that it is of another version."""
    folder.mkdir()
    info = folder / f"numpy-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: numpy\nVersion: {version}\n")
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return str(program)


def pykvbench(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_two_pythons_are_interleaved_in_one_run_and_labelled_by_their_versions(tmp_path: Path) -> None:
    programs = [stand_in(tmp_path / name, version) for name, version in (("a", "7.1.0"), ("b", "7.2.0"))]
    path = tmp_path / "run.jsonl"
    pythons = [word for program in programs for word in ("--python", program)]
    result = pykvbench(*TINY, *SHORT, *pythons, "-o", str(path))
    assert result.exit_code == 0, result.output
    run = record.read(path)
    assert [cell.label for cell in run.cells] == [
        "simulated manual prealloc float32 numpy 7.1.0",
        "simulated manual prealloc float32 numpy 7.2.0",
    ]
    assert [python["packages"]["numpy"]["version"] for python in run.header["interpreters"]] == ["7.1.0", "7.2.0"]
    started = [event["cell"] for event in run.events if event["event"] == "worker-started"]
    assert started == [0, 1, 1, 0, 0, 1]
    assert str(tmp_path) not in path.read_text()
    compared = json.loads(pykvbench("compare", str(path), "--json").stdout)
    assert compared["comparisons"][0]["second"]["name"] == "simulated manual prealloc float32 numpy 7.2.0"


def test_a_run_is_resumed_only_under_the_same_pythons(tmp_path: Path) -> None:
    one, other = stand_in(tmp_path / "a", "7.1.0"), stand_in(tmp_path / "b", "7.2.0")
    path = tmp_path / "run.jsonl"
    assert pykvbench(*TINY, *SHORT, "--python", one, "-o", str(path)).exit_code == 0
    whole = path.read_text()
    for options in ([], ["--python", other]):
        result = pykvbench("attn", "--resume", str(path), *options)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: The run was measured under other Pythons (CPython ")
        assert path.read_text() == whole
    assert pykvbench("attn", "--resume", str(path), "--python", one).exit_code == 0


def test_one_version_twice_is_told_apart_by_number(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "a", "7.1.0")
    with interpreters([program, program], ["simulated"]) as pythons:
        labels = [cell.label for cell in under([CELL], pythons)]
    assert labels == [
        "simulated manual prealloc float32 numpy 7.1.0 (python 1)",
        "simulated manual prealloc float32 numpy 7.1.0 (python 2)",
    ]


def test_without_pythons_cells_stay_as_they_are() -> None:
    with interpreters([], ["simulated"]) as pythons:
        assert under([CELL], pythons) == (CELL,)
    assert Cell.from_json(CELL.to_json()) == CELL
    assert "interpreter" not in CELL.to_json()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "exit 1",
            " cannot run pykvbench's workers: it lacks numpy, or its version of Python does not fit the compiled",
        ),
        ("echo nothing", " cannot run pykvbench's workers: it lacks numpy, or its version of Python does not fit"),
    ],
)
def test_a_python_that_cannot_run_workers_is_one_sentence(tmp_path: Path, body: str, message: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    result = pykvbench(*TINY, *SHORT, "--python", str(program), "-o", str(tmp_path / "run.jsonl"))
    assert result.exit_code == 2
    assert f"Error: --python {program}{message}" in result.stderr
    assert "install pykvbench 0" in result.stderr
    assert not (tmp_path / "run.jsonl").exists()


def test_where_the_compiled_modules_do_not_fit_the_same_version_installed_there_is_run(tmp_path: Path) -> None:
    program = tmp_path / "python"
    home = Path(pykvbench_package.__file__).parent.parent
    refuse = 'case "$PWD" in */ours) exit 1;; esac'
    program.write_text(f'#!/bin/sh\n{refuse}\nPYTHONPATH="{home}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    path = tmp_path / "run.jsonl"
    result = pykvbench(*TINY, *SHORT, "--python", str(program), "-o", str(path))
    assert result.exit_code == 0, result.output
    assert len(record.read(path).visits) == 9


def test_a_program_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    result = pykvbench(*TINY, *SHORT, "--python", missing, "-o", str(tmp_path / "run.jsonl"))
    assert result.exit_code == 2
    assert (
        result.stderr == f"Error: --python {missing} cannot be started (No such file or directory); "
        "name a Python's program.\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="says what Linux lacks")
def test_a_backend_that_a_python_lacks_is_said_with_its_remedy(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "a", "7.1.0")
    result = pykvbench("attn", "--backend", "mps", "--len", "4:6", "--python", program)
    assert result.exit_code == 2
    assert f"Error: --python {program}: mps needs macOS on Apple silicon; this is Linux" in result.stderr
