"""The stubs agree with the compiled modules, and the package's version is written once."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import pykvbench

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_the_stubs_match_the_extension_modules(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text("pykvbench._simulated_device.Device\n")  # pybind11's metaclass; the methods are still compared
    command = [sys.executable, "-m", "mypy.stubtest", "--allowlist", str(allowed)]
    modules = ["pykvbench._timer", "pykvbench._simulated_device"]
    checked = subprocess.run([*command, *modules], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_installed_version_is_the_packages() -> None:
    assert version("pykvbench") == pykvbench.__version__
