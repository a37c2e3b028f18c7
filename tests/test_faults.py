"""Runs that are killed, find no room or are held up: some of what benchmarks/faults.py does 200 of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_disturbed_runs_keep_what_they_promise() -> None:
    command = [sys.executable, str(BENCHMARKS / "faults.py"), "--count", "12"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(sys.platform != "linux", reason="preloads the sanitizers' libraries")
def test_the_extension_is_clean_under_the_sanitizers() -> None:
    done = subprocess.run([sys.executable, str(BENCHMARKS / "sanitizers.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
