"""The float64 reference of the hand-written layers: the whole prefix at once, without a cache. For small shapes.

numerics_error and its TOLERANCE serve here too: at 2 to 48 layers, 1 to 300 keys, every kernel and policy of both
frameworks, the worst were 2.1e-6 in float32, 0.013 in float16 and 0.13 in bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pykvbench.cell import Cell
from pykvbench.weights import LayerWeights, inputs, layer_weights, model_weights

Floats = npt.NDArray[np.float64]


def model_reference(cell: Cell, lengths: Sequence[int], seed: int, ids: npt.NDArray[np.int64] | None = None) -> Floats:
    """What a step gives at each KV length, as a driver's `outputs`: [len(lengths), 1, B, 1, width].

    A block gives the last token's hidden state; a model gives its logits after the tokens `ids`, [B, at least the
    longest length]: the prompt and then the tokens that the driver chose, so that one slip cannot spoil what follows.
    """
    longest = max(lengths)
    if ids is None:
        x = _double(inputs(cell, longest, seed))  # [B, L, hidden]
    else:
        weights = model_weights(cell, longest, seed).map(_double)
        x = weights.embedding[ids[:, :longest]] + weights.positions
    for layer in range(cell.geometry.num_layers):
        x = _layer(cell, layer_weights(cell, layer, seed).map(_double), x)
    x = x[:, [length - 1 for length in lengths]]  # [B, len(lengths), hidden]
    if ids is not None:
        x = _norm(x, weights.norm_weight, weights.norm_bias) @ weights.embedding.T
    return x.transpose(1, 0, 2)[:, None, :, None]


def _layer(cell: Cell, w: LayerWeights[Floats], x: Floats) -> Floats:
    """[B, L, hidden] through one layer."""
    shape = cell.geometry
    batch, length, hidden = x.shape
    qkv = _norm(x, w.norm_1_weight, w.norm_1_bias) @ w.qkv_weight.T + w.qkv_bias
    qkv = qkv.reshape(batch, length, -1, shape.head_dim).transpose(0, 2, 1, 3)  # [B, H + 2 Hkv, L, D]
    q, k, v = np.split(qkv, (shape.num_heads, shape.num_heads + shape.num_kv_heads), axis=1)
    k, v = (np.repeat(rows, shape.queries_per_kv_head, axis=1) for rows in (k, v))  # [B, H, L, D]
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(shape.head_dim)  # [B, H, L, L]
    scores[:, :, ~np.tri(length, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    o = weights / weights.sum(axis=-1, keepdims=True) @ v
    x = x + o.transpose(0, 2, 1, 3).reshape(batch, length, hidden) @ w.out_weight.T + w.out_bias
    h = _norm(x, w.norm_2_weight, w.norm_2_bias) @ w.up_weight.T + w.up_bias
    h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    after: Floats = x + h @ w.down_weight.T + w.down_bias
    return after


def _norm(x: Floats, weight: Floats, bias: Floats) -> Floats:
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-5)
    normal: Floats = centred / deviation * weight + bias
    return normal


def _double(values: npt.NDArray[np.float32]) -> Floats:
    return values.astype(np.float64)
