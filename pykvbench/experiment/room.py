"""Whether the caches of a run fit into this machine's memory, asked before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykvbench.cell import Cell
from pykvbench.errors import UsageError


def require_room(cells: Sequence[Cell], tokens: int, facts: Mapping[str, Any]) -> None:
    """Raise UsageError if a cell's K and V of `tokens` keys exceed the memory that `facts`, of machine(), states.

    The values are made on the host, also for a GPU, so that a larger cache could only end in a killed process.
    """
    memory = facts.get("memory_bytes")
    needed = max(cell.geometry.kv_bytes(tokens) for cell in cells)
    if isinstance(memory, int) and needed > memory:
        raise UsageError(
            f"K and V of {tokens} tokens need {needed / 2**30:.0f} GiB and this machine has {memory / 2**30:.0f} GiB; "
            "lower the longest length, --num-layers, --head-dim or --batch."
        )
