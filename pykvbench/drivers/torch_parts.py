"""The operations of the step in torch, each alone, and the step's attention with one thing changed.

torch_parts.py and mlx_parts.py are parallel, as the drivers are. Every reset leaves the caches as the step would find
them and appends the new rows outside the timed window; the parts of one step take the same query in every layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from pykvbench.cell import Cell
from pykvbench.drivers.parts import ALIGNMENTS, Part, padded_length, pick
from pykvbench.drivers.torch_attention import Array, Attention
from pykvbench.drivers.torch_cache import contiguous, full
from pykvbench.drivers.torch_device import find_device
from pykvbench.drivers.torch_driver import Decoder
from pykvbench.operations import ATTENTION

Kernel = Callable[[Array, Array, Array], Array]


class Parts:
    """One cell's caches, and what its operations take and give at the length that was reset last."""

    def __init__(self, cell: Cell, capacity: int, seed: int) -> None:
        self.decoder = Decoder(cell, capacity, seed, find_device(cell.backend))
        self.masked = {alignment: Attention(cell) for alignment in ALIGNMENTS}
        self.views: list[tuple[Array, Array]] = []  # K and V of each layer, [B, Hkv, L, D]
        self.scores: list[Array] = []  # [B, Hkv, G, L]
        self.weights: list[Array] = []
        self.outs: list[tuple[Array, Array, Array]] = []
        self.copied = ""

    def open_mask(self) -> None:
        if self.decoder.mask is not None:
            self.decoder.mask[:, :, :, self.decoder.length : self.decoder.length + 1] = 0.0

    def attended(self, length: int) -> None:
        self.decoder.reset(length)
        self.open_mask()
        pairs = zip(self.decoder.caches, self.decoder.rows, strict=True)
        self.views = [cache.update(*rows) for cache, rows in pairs]
        self.copied = ""
        self.decoder.finish([*self.decoder.buffers(), self.decoder.mask])

    def scored(self, length: int) -> None:
        self.attended(length)
        self.scores = self.qk()
        self.decoder.finish(self.scores)

    def weighted(self, length: int) -> None:
        self.scored(length)
        self.weights = self.softmax()
        self.decoder.finish(self.weights)

    def contiguous(self, length: int) -> None:
        if self.copied == f"contiguous {length}":
            return
        self.attended(length)
        self.views = [(contiguous(k), contiguous(v)) for k, v in self.views]
        self.copied = f"contiguous {length}"
        self.decoder.finish([buffer for pair in self.views for buffer in pair])

    def padded(self, alignment: int, length: int) -> None:
        if self.copied == f"padded {alignment} {length}":
            return
        self.attended(length)
        whole = padded_length(length + 1, alignment)
        self.views = [(_padded(k, whole), _padded(v, whole)) for k, v in self.views]  # [B, Hkv, whole, D]
        mask = full(self.decoder.x[:1, :1], whole, -math.inf)[:, :, :, 0].reshape(1, 1, 1, whole)
        mask[:, :, :, : length + 1] = 0.0
        self.masked[alignment].mask = mask
        self.copied = f"padded {alignment} {length}"
        self.decoder.finish([mask, *(buffer for pair in self.views for buffer in pair)])

    def allocated(self, length: int) -> None:
        if self.copied == f"allocated {length}":
            return
        self.weighted(length)
        outs = [self.decoder.pv(weights, v) for weights, (_, v) in zip(self.weights, self.views, strict=True)]
        self.outs = list(zip(self.scores, self.weights, outs, strict=True))
        self.copied = f"allocated {length}"
        self.decoder.finish(outs)

    def append(self) -> list[Array]:
        self.open_mask()
        for cache, rows in zip(self.decoder.caches, self.decoder.rows, strict=True):
            cache.update(*rows)
        return self.decoder.buffers()

    def qk(self) -> list[Array]:
        return [self.decoder.qk(self.decoder.x, k) for k, _ in self.views]

    def softmax(self) -> list[Array]:
        return [self.decoder.softmax(scores) for scores in self.scores]

    def pv(self) -> list[Array]:
        return [self.decoder.pv(weights, v) for weights, (_, v) in zip(self.weights, self.views, strict=True)]

    def chain(self, kernel: Kernel) -> list[Array]:
        x, results = self.decoder.x, []
        for k, v in self.views:
            o = kernel(x, k, v)  # [B, H, 1, D]
            results.append(o)
            x = self.decoder.x + o
        return [*results, x]

    def chain_padded(self, alignment: int) -> list[Array]:
        return self.chain(self.masked[alignment].attention)

    def chain_written(self) -> list[Array]:
        x, results = self.decoder.x, []
        for (k, v), (scores, weights, out) in zip(self.views, self.outs, strict=True):
            torch.matmul(x.reshape(self.decoder.grouped), k.transpose(-2, -1), out=scores)
            scores.mul_(self.decoder.scale)
            if self.decoder.mask is not None:
                scores.add_(self.decoder.mask)
            torch.softmax(scores, dim=-1, out=weights)
            o = torch.matmul(weights, v, out=out.reshape(weights.shape[:3] + v.shape[3:]))
            results.append(o.reshape(self.decoder.ungrouped))
            x = self.decoder.x + results[-1]
        return [*results, x]


def open_parts(cell: Cell, capacity: int, seed: int) -> dict[str, Part]:
    """The parts that make sense for the cell, over caches of their own; the cell's driver must have been opened."""
    parts = Parts(cell, capacity, seed)
    manual, fused = partial(parts.chain, parts.decoder.manual), partial(parts.chain, parts.decoder.fused)
    as_cell = partial(parts.chain, parts.decoder.attention)
    made = {
        "part:append": Part(parts.decoder.reset, parts.append, frozenset({"append"})),
        "part:qk": Part(parts.attended, parts.qk, frozenset({"qk"})),
        "part:softmax": Part(parts.scored, parts.softmax, frozenset({"softmax"})),
        "part:pv": Part(parts.weighted, parts.pv, frozenset({"pv"})),
        "whole:manual": Part(parts.attended, manual, ATTENTION if cell.kernel == "manual" else frozenset()),
        "kernel:fused": Part(parts.attended, fused, ATTENTION if cell.kernel == "fused" else frozenset()),
        "layout:contiguous": Part(parts.contiguous, as_cell, ATTENTION),
        "outputs:preallocated": Part(parts.allocated, parts.chain_written, ATTENTION, allocates=False),
    }
    for alignment in ALIGNMENTS:
        reset, step = partial(parts.padded, alignment), partial(parts.chain_padded, alignment)
        made[f"padded:{alignment}"] = Part(reset, step, frozenset())
    return pick(made, cell)


def _padded(rows: Array, whole: int) -> Array:
    """Rows [B, Hkv, L, D] at the start of a buffer of zeros: [B, Hkv, whole, D]."""
    buffer = full(rows, whole, 0.0)
    buffer[:, :, : rows.shape[2]] = contiguous(rows)
    return buffer
