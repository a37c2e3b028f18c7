"""KV that was taken out of a cache and put back is the same KV, for every policy, dtype, kernel, body and framework."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pykvbench.drivers.numpy_driver import TOLERANCE

SCRIPT = Path(__file__).parent / "kept.py"


@cache
def kept(backend: str) -> dict[str, dict[str, Any]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), backend]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("backend", ["cpu", "mlx-cpu"])
@pytest.mark.parametrize(
    "what", ["shape", "rows", "host", "device", "disk", "used", "reset", "computed rows", "computed", "none"]
)
def test_what_is_put_back_is_what_was_taken_out(backend: str, what: str) -> None:
    asked = {case: said[what] for case, said in kept(backend).items() if what in said}
    assert asked
    assert [case for case, right in asked.items() if not right] == []


@pytest.mark.parametrize("backend", ["cpu", "mlx-cpu"])
@pytest.mark.parametrize("what", ["last error", "error"])
def test_a_prompt_computed_by_chunks_agrees_with_the_float64_reference(backend: str, what: str) -> None:
    errors = {case: said[what] for case, said in kept(backend).items() if what in said}
    assert errors
    assert {
        case: e for case, e in errors.items() if e > next(TOLERANCE[d] for d in TOLERANCE if f" {d} " in case)
    } == {}
