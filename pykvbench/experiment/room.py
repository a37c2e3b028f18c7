"""Whether the caches of a run fit into this machine's memory and onto its disk, asked before anything is measured."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pykvbench.cell import Cell
from pykvbench.errors import UsageError
from pykvbench.sizes import format_size


def require_room(cells: Sequence[Cell], tokens: int, facts: Mapping[str, Any], times: int = 1) -> None:
    """Raise UsageError if a cell's K and V of `tokens` keys, held `times` over, exceed the memory that `facts` state.

    The values are made on the host, also for a GPU, so that a larger cache could only end in a killed process.
    """
    memory = facts.get("memory_bytes")
    needed = times * max(cell.geometry.kv_bytes(tokens) for cell in cells)
    if isinstance(memory, int) and needed > memory:
        held = f", held {times} times," if times > 1 else ""
        raise UsageError(
            f"K and V of {tokens} tokens{held} need {needed / 2**30:.0f} GiB and this machine has "
            f"{memory / 2**30:.0f} GiB; lower the longest length, --num-layers, --head-dim or --batch."
        )


def require_disk(folder: Path, needed: int) -> None:
    """Raise UsageError if `needed` bytes exceed what is free where `folder` is, or will be."""
    there = folder.resolve()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if needed > free:
        raise UsageError(
            f"The files of K and V need {format_size(needed)} on the disk and {format_size(free)} are free; make room, "
            "name a run file elsewhere with -o, or leave out the disk."
        )
