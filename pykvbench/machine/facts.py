"""All facts of this machine in one flat table for the run file."""

from __future__ import annotations

import os
import platform
from typing import Any

from pykvbench.machine import linux, macos, nvidia, packages, variables


def machine() -> dict[str, Any]:
    """Facts by name, plain values only; a fact whose source is absent is left out.

    Nothing that names the machine or its owner is among them: run files are attached to public issues.
    """
    facts: dict[str, Any] = {"architecture": platform.machine(), "threads": os.cpu_count(), **load()}
    if platform.system() == "Darwin":
        facts["os"] = "macOS"
        for source in (macos.system, macos.hardware, macos.gpu_cores, macos.power, macos.thermal):
            facts.update(source())
    else:
        facts["os"] = platform.system()
        for read in (linux.system, linux.hardware, linux.clocks, linux.power):
            facts.update(read())
    facts.update(nvidia.gpus())
    facts.update(packages.versions())
    facts["variables"] = variables.recorded()
    return {name: value for name, value in facts.items() if value is not None}


def load() -> dict[str, Any]:
    """The load average of the last minute, where the system keeps one."""
    try:
        return {"load": round(os.getloadavg()[0], 2)}
    except (AttributeError, OSError):
        return {}
