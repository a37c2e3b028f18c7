"""The device check on a stand-in device: a sound one passes, a wrong result and a sync that does not wait are seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent / "benchmarks"
# The checks as they are, on few lengths and a small shape.
SMALL = """
import json, device_check as check
from pykvbench.geometry import Geometry
check.SHORT, check.LONG, check.FEW, check.MANY = (341, 342), (343,), 64, 8192
check.LARGE = Geometry(1, 4, 2, 2, 64, "float32")
print(json.dumps([[row.check, row.measured, row.passed] for row in (*check.timing("mps"), *check.numerics("mps"))]))
"""


def rows(tmp_path: Path, program: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{HERE / 'standin'}{os.pathsep}{BENCHMARKS}",
        "STANDIN_MPS": json.dumps(program),
        "STANDIN_FOLDER": str(tmp_path),
    }
    command = [sys.executable, "-c", SMALL, "--in-this-process"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return {check: (measured, passed) for check, measured, passed in json.loads(done.stdout.splitlines()[-1])}


def test_a_sound_device_passes_and_counters_that_do_not_move_are_seen(tmp_path: Path) -> None:
    found = rows(tmp_path, {})
    failed = [check for check, (_, passed) in found.items() if not passed]
    assert failed == ["memory live", "memory driver"]  # the stand-in's stand still
    assert len([check for check in found if check.startswith("numerics ")]) == 6
    assert found.keys() > {"sync leaves nothing", "the call returns before", "work", "bandwidth"}


def test_wrong_results_and_a_sync_that_does_not_wait_fail(tmp_path: Path) -> None:
    found = rows(tmp_path, {"wrong": {"length": 342, "how": "transposed", "ratio": 1}, "early": True})
    assert not found["sync leaves nothing"][1]
    numerics = {check: row for check, row in found.items() if check.startswith("numerics ")}
    assert len(numerics) == 6
    for measured, passed in numerics.values():
        assert measured.endswith("L = 342")
        assert not passed


def test_a_backend_that_is_missing_is_a_row_and_a_failure() -> None:
    missing = "mps" if sys.platform != "darwin" else "cuda"
    command = [sys.executable, BENCHMARKS / "device_check.py", "--backend", missing]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"\n| {missing} | all | Use --backend " in done.stdout
    assert done.stdout.endswith(" | available | **FAIL** |\n")
