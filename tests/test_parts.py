"""The parts of a step compute what the step computes, under every kernel and cache policy of both frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pykvbench.cell import Cell
from pykvbench.drivers.opening import open_parts
from pykvbench.drivers.parts import names_of, padded_length
from pykvbench.geometry import Geometry

SHAPE = Geometry(1, 2, 4, 4, 16, "float32")


@pytest.mark.parametrize("backend", ["cpu", "mlx-cpu"])
def test_every_part_gives_what_the_whole_step_gives(backend: str) -> None:
    pytest.importorskip("torch" if backend == "cpu" else "mlx.core")
    program = [sys.executable, str(Path(__file__).parent / "parted.py"), backend]
    done = subprocess.run(program, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 16
    for label, errors in found.items():
        kernel, cache, _ = label.split()
        assert set(errors) == set(names_of(Cell(backend, kernel, cache, SHAPE)))
        assert max(errors.values()) < 1e-5, (label, errors)


def test_only_parts_that_change_something_are_there() -> None:
    alone = ("part:append", "part:qk", "part:softmax", "part:pv", "whole:manual", "kernel:fused")
    padded = ("padded:32", "padded:64")
    assert names_of(Cell("cpu", "manual", "prealloc", SHAPE)) == (
        *alone,
        "layout:contiguous",
        *padded,
        "outputs:preallocated",
    )
    assert names_of(Cell("mlx-cpu", "manual", "concat", SHAPE)) == (*alone, *padded)
    assert names_of(Cell("cpu", "fused", "padded", SHAPE)) == alone


def test_padding_goes_to_the_next_multiple_also_from_a_multiple() -> None:
    assert [padded_length(length, 32) for length in (1, 31, 32, 421, 448)] == [32, 32, 64, 448, 480]


def test_injected_work_goes_where_its_operation_runs() -> None:
    parts = open_parts(Cell("simulated", "manual", "prealloc", SHAPE), 40, 0)
    holding = [name for name, part in parts.items() if "pv" in part.holds]
    assert holding == ["part:pv", "whole:manual", "layout:contiguous", "outputs:preallocated"]
