"""What a part is: one operation of the step, or the step with one thing changed, ready to be timed as a step is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pykvbench.cell import Cell
from pykvbench.operations import OPERATIONS

STEP = frozenset({*OPERATIONS, "step"})
"""What a whole step holds: its operations, and the driver's own code around them."""

SLICED = ("prealloc", "chunked")  # policies that attend a slice of a longer buffer
ALIGNMENTS = (32, 64)


@dataclass(frozen=True)
class Part:
    """reset(length) leaves everything as the step over length + 1 keys finds it there; step() is what is timed.

    `holds` says which operations it runs, and "step" for a whole one, so that injected work comes along with its
    operation; `allocates` whether its outputs are new tensors.
    """

    reset: Callable[[int], None]
    step: Callable[[], object]
    holds: frozenset[str]
    allocates: bool = True


def names_of(cell: Cell) -> tuple[str, ...]:
    """The parts that make sense for a cell: what changes nothing under its cache policy is left out.

    MLX arrays cannot be written into, and a fused kernel's outputs cannot either.
    """
    return (
        *(f"part:{name}" for name in OPERATIONS),
        "whole:manual",
        "kernel:fused",
        *(("layout:contiguous",) if cell.cache in SLICED else ()),
        *(() if cell.cache == "padded" else (f"padded:{alignment}" for alignment in ALIGNMENTS)),
        *(("outputs:preallocated",) if cell.kernel == "manual" and not cell.backend.startswith("mlx") else ()),
    )


def padded_length(length: int, alignment: int) -> int:
    """The next multiple of `alignment` above a length; above also where the length is one."""
    return (length // alignment + 1) * alignment


def pick(parts: Mapping[str, Part], cell: Cell) -> dict[str, Part]:
    """Those of a framework's parts that make sense for the cell."""
    return {name: parts[name] for name in names_of(cell)}
