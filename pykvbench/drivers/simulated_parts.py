"""The operations of a simulated step, each alone: the ground truth that attribution is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pykvbench.cell import Cell
from pykvbench.drivers.parts import ALIGNMENTS, Part, padded_length, pick
from pykvbench.drivers.program import parse_program
from pykvbench.drivers.simulated_driver import SHARES, Decoder
from pykvbench.operations import ATTENTION, OPERATIONS


def open_parts(
    cell: Cell, capacity: int, seed: int, simulate: str | None, process: int, began_ns: int
) -> dict[str, Part]:
    """The parts that make sense for the cell: each takes its operations' shares of a step and their costs.

    Nothing can be programmed into strides and allocation, so those variants take what attention does.
    """
    decoder = Decoder(cell, capacity, seed, parse_program(simulate or ""), process, began_ns)
    parts = {f"part:{name}": _part(decoder, (name,)) for name in OPERATIONS}
    attention = _part(decoder, OPERATIONS[1:])
    by_hand, fused = (attention if cell.kernel == kernel else _alone(attention) for kernel in ("manual", "fused"))
    parts |= {"whole:manual": by_hand, "kernel:fused": fused, "layout:contiguous": attention}
    parts |= {f"padded:{alignment}": _part(decoder, OPERATIONS[1:], alignment) for alignment in ALIGNMENTS}
    parts["outputs:preallocated"] = replace(attention, allocates=False)
    return pick(parts, cell)


def _part(decoder: Decoder, names: Sequence[str], alignment: int = 0) -> Part:
    shares = {name: SHARES[name] for name in names}

    def step() -> int:
        length = decoder.length + 1
        decoder.run(shares, padded_length(length, alignment) if alignment else length, host=False)
        return length

    return Part(decoder.reset, step, frozenset() if alignment else frozenset(names))


def _alone(part: Part) -> Part:
    """Another kernel than the cell's, into which nothing is injected."""
    return replace(part, holds=part.holds - ATTENTION)
