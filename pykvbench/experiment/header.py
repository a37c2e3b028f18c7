"""The first line of a run file, and what is wrong before anything is measured."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pykvbench import __version__, _timer
from pykvbench.cell import Cell
from pykvbench.dispatch.environment import environment
from pykvbench.dispatch.known_wrong import known_wrong
from pykvbench.drivers.availability import availability
from pykvbench.machine import disturbances, timing_variables
from pykvbench.record import SCHEMA


def header(
    command: str,
    cells: Sequence[Cell],
    plan: Mapping[str, Any],
    seed: int,
    argv: Sequence[str],
    facts: Mapping[str, Any],
    notes: Sequence[str],
    began_ns: int,
    interpreters: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What a run is, before its first measurement; `facts` is what machine() says, paths in `argv` are left out."""
    return {
        "schema": SCHEMA,
        "pykvbench": __version__,
        "command": command,
        "argv": [word if os.sep not in word else "(path)" for word in argv],
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "seed": seed,
        "plan": plan,
        "cells": [cell.to_json() for cell in cells],
        "machine": facts,
        **({"interpreters": list(interpreters)} if interpreters else {}),
        "notes": list(notes),
        "clock": {**_timer.clock(), "began_ns": began_ns},
    }


def warn(cells: Sequence[Cell], lengths: Sequence[int], capacity: int, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences on results known to be wrong, a GPU that is missing, and what of the machine changes timing."""
    here = environment(facts)
    wrong = (sentence for cell in cells for sentence in known_wrong(cell, here, lengths, capacity))
    return (*dict.fromkeys(wrong), *_without_gpu(cells), *timing_variables(), *disturbances(facts))


def _without_gpu(cells: Sequence[Cell]) -> tuple[str, ...]:
    """MLX takes the CPU when it finds no GPU; who asked for `mlx` meant Metal or CUDA."""
    found = availability("mlx")
    if not any(cell.backend == "mlx" for cell in cells) or not found.available or found.gpu:
        return ()
    return (f"{found.reason}: these are times of the CPU, not of Metal or CUDA.",)
