"""The weights and inputs of the hand-written layers: random, seeded, and the same in every framework.

Every tensor has a stream of random numbers of its own, so that one can be made without the others, and its numbers
are rounded to the geometry's dtype, so that float64 can compute with exactly what the device holds. Rows of inputs,
tokens and positions depend on (seed, row) alone: a shorter range is the beginning of a longer one.

The scales keep every activation of about unit size: fan-in for each matrix, and the two that add to the residual
stream divided by sqrt(2 * num_layers). The final norm's weights are random signs: with the tied LM head, weights of
one sign would make each token predict itself, and a constant token hides mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pykvbench.cell import Cell
from pykvbench.geometry import mlp_width, model
from pykvbench.values import round_to

Floats = npt.NDArray[np.float32]
T = TypeVar("T")
U = TypeVar("U")

_LAYER, _EMBEDDING, _POSITIONS, _FINAL, _TOKENS, _INPUTS = 20, 40, 41, 42, 43, 44  # apart from the streams of values


@dataclass(frozen=True)
class LayerWeights(Generic[T]):
    """One transformer layer's weights, as arrays of any framework; matrices are [out, in]."""

    norm_1_weight: T  # [hidden]
    norm_1_bias: T  # [hidden]
    qkv_weight: T  # [(H + 2 * Hkv) * D, hidden]
    qkv_bias: T  # [(H + 2 * Hkv) * D]
    out_weight: T  # [hidden, hidden]
    out_bias: T  # [hidden]
    norm_2_weight: T  # [hidden]
    norm_2_bias: T  # [hidden]
    up_weight: T  # [mlp, hidden]
    up_bias: T  # [mlp]
    down_weight: T  # [hidden, mlp]
    down_bias: T  # [hidden]

    def map(self, function: Callable[[T], U]) -> LayerWeights[U]:
        """The same weights after `function`, one array at a time."""
        return LayerWeights(**{field.name: function(getattr(self, field.name)) for field in fields(self)})


@dataclass(frozen=True)
class ModelWeights(Generic[T]):
    """What a model has besides its layers; the LM head is the embedding."""

    embedding: T  # [vocabulary, hidden]
    positions: T  # [capacity, hidden]
    norm_weight: T  # [hidden]
    norm_bias: T  # [hidden]

    def map(self, function: Callable[[T], U]) -> ModelWeights[U]:
        """The same weights after `function`, one array at a time."""
        return ModelWeights(**{field.name: function(getattr(self, field.name)) for field in fields(self)})


def layer_weights(cell: Cell, layer: int, seed: int) -> LayerWeights[Floats]:
    """The weights of one layer, float32 rounded to the cell's dtype."""
    shape = cell.geometry
    hidden, mlp = shape.hidden, mlp_width(cell.model, shape)
    qkv = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim
    residual = 1.0 / math.sqrt(2 * shape.num_layers)

    def normal(which: int, size: tuple[int, ...], scale: float, mean: float = 0.0) -> Floats:
        return _normal(cell, [seed, layer + 1, _LAYER + which], size, scale, mean)

    return LayerWeights(
        norm_1_weight=normal(0, (hidden,), 0.1, 1.0),
        norm_1_bias=normal(1, (hidden,), 0.1),
        qkv_weight=normal(2, (qkv, hidden), hidden**-0.5),
        qkv_bias=normal(3, (qkv,), 0.1),
        out_weight=normal(4, (hidden, hidden), residual * hidden**-0.5),
        out_bias=normal(5, (hidden,), 0.1 * residual),
        norm_2_weight=normal(6, (hidden,), 0.1, 1.0),
        norm_2_bias=normal(7, (hidden,), 0.1),
        up_weight=normal(8, (mlp, hidden), hidden**-0.5),
        up_bias=normal(9, (mlp,), 0.1),
        down_weight=normal(10, (hidden, mlp), residual * mlp**-0.5),
        down_bias=normal(11, (hidden,), 0.1 * residual),
    )


def model_weights(cell: Cell, capacity: int, seed: int) -> ModelWeights[Floats]:
    """Embedding, the first `capacity` positions and the final norm, float32 rounded to the cell's dtype."""
    hidden = cell.geometry.hidden
    signs = np.random.default_rng([seed, 0, _FINAL]).integers(0, 2, hidden) * 2 - 1
    return ModelWeights(
        embedding=_normal(cell, [seed, 0, _EMBEDDING], (model(cell.model).vocabulary, hidden), 1.0),
        positions=_normal(cell, [seed, 0, _POSITIONS], (capacity, hidden), 1.0),
        norm_weight=signs.astype(np.float32),
        norm_bias=np.zeros(hidden, np.float32),
    )


def tokens(cell: Cell, length: int, seed: int) -> npt.NDArray[np.int64]:
    """The prompt, as long as is asked for: [B, length]."""
    rng = np.random.default_rng([seed, 0, _TOKENS])
    ids = rng.integers(0, model(cell.model).vocabulary, (length, cell.geometry.batch))
    return np.ascontiguousarray(ids.T)


def inputs(cell: Cell, length: int, seed: int) -> Floats:
    """The hidden states that a block without a model is given, a row for each position: [B, length, hidden]."""
    size = (length, cell.geometry.batch, cell.geometry.hidden)
    return np.ascontiguousarray(_normal(cell, [seed, 0, _INPUTS], size, 1.0).transpose(1, 0, 2))


def _normal(cell: Cell, stream: list[int], size: tuple[int, ...], scale: float, mean: float = 0.0) -> Floats:
    values = np.random.default_rng(stream).standard_normal(size, dtype=np.float32)
    values *= np.float32(scale)
    values += np.float32(mean)
    return round_to(cell.geometry.dtype, values)
