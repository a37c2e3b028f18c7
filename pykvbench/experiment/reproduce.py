"""Running a reproducer as its reader would: a file of its own, in fresh processes, with warnings as errors."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pykvbench.analysis.reproduction import Attempt, Reproduction, attempt
from pykvbench.cell import Cell
from pykvbench.drivers.availability import availability

PROCESSES, IN_SOME = 3, 5  # fresh processes; more where the effect is known to be in some of them only
_COPIES = 6  # of K and V that a reproducer holds at once at most: values, caches, and both in float64


def reproduce(
    script: str, cell: Cell, rows: int, timeout_s: float, facts: Mapping[str, Any], in_some: bool, gpu: bool = False
) -> Reproduction:
    """Run the script in some fresh processes, or say why it was not run.

    `rows` is the tokens that it makes K and V of, `facts` what machine() says, `gpu` whether the run's device was one.
    """
    if reason := _missing(cell, rows, facts, gpu):
        return Reproduction(reason=reason)
    attempts = tuple(run_script(script, timeout_s) for _ in range(IN_SOME if in_some else PROCESSES))
    return Reproduction(attempts, where=_where(cell, facts))


def run_script(script: str, timeout_s: float) -> Attempt:
    """One fresh process of this Python with `-W error`; given up, with all it started, after `timeout_s`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "repro.py").write_text(script, encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "repro.py"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            stdout, _ = process.communicate()
            return attempt(None, f"{stdout}\ngiven up after {timeout_s:.0f} s")
        except BaseException:
            _kill(process)
            process.communicate()
            raise
    return attempt(process.returncode, stdout, stderr)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _missing(cell: Cell, rows: int, facts: Mapping[str, Any], gpu: bool) -> str:
    """Why the reproducer cannot show anything here; empty when it can."""
    found = availability(cell.backend)
    if not found.available:
        return f"{found.reason} Run repro.py on the machine of the run."
    if gpu and not found.gpu:
        return f"the run was made on a GPU, and this is {found.reason}. Run repro.py on the machine of the run."
    memory, needed = facts.get("memory_bytes"), _COPIES * cell.geometry.kv_bytes(rows)
    if isinstance(memory, int) and needed > memory:
        return f"it needs {needed / 2**30:.0f} GiB and this machine has {memory / 2**30:.0f} GiB."
    return ""


def _where(cell: Cell, facts: Mapping[str, Any]) -> str:
    """On what it ran: the framework and its version here, the processor and the system."""
    framework = "mlx" if cell.backend in ("mlx", "mlx-cpu") else "torch"
    version = ((facts.get("packages") or {}).get(framework) or {}).get("version", "")
    parts = [f"{framework} {version}".strip(), facts.get("cpu"), facts.get("os_version") or facts.get("os")]
    other = " under the Python of pykvbench, not the one that was measured" if cell.build else ""
    return ", ".join(str(part) for part in parts if part) + other
