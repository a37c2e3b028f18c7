"""Reading a tool's output or a system file; both give None when it is not there, so that every fact may be missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

TIMEOUT_S = 2.0


def output(*command: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """What a tool prints, or None when it is absent, prints nothing or does not answer in time.

    Its exit status is not looked at: sysctl fails when one of several names is missing and prints the others.
    """
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace") or None


def content(path: Path) -> str | None:
    """The stripped text of a small file, or None when it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
