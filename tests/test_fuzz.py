"""Damaged files and odd options: a few hundred of what benchmarks/fuzz.py does ten thousand of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent.parent / "benchmarks" / "fuzz.py"


def test_nothing_damaged_ends_in_a_traceback_or_an_unfounded_verdict() -> None:
    command = [sys.executable, str(FUZZ), "--stored", "--count", "120", "--pictures", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.startswith("120 seeds: ")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_thousand_more(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--seed", "120", "--count", "1000"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
