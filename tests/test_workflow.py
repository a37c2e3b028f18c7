"""The workflow for whoever publishes the repository: it parses, covers what setup.py promises, and holds no secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml: Any = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_every_python_is_tested_on_linux_and_apple_silicon_and_gets_a_wheel() -> None:
    jobs = yaml.safe_load(TEXT)["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-15"]
    assert matrix["python"] == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    built = jobs["wheels"]["env"]["CIBW_BUILD"].split()
    assert built == [f"cp{python.replace('.', '')}-*" for python in matrix["python"]]


def test_every_file_it_runs_exists_and_it_uses_no_secret() -> None:
    for path in re.findall(r"(?:benchmarks|\.ci)/[\w.]+|constraints\.txt", TEXT):
        assert (ROOT / path).exists(), path
    assert "secrets." not in TEXT
    assert "http" not in TEXT
