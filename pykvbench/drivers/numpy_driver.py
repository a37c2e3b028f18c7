"""The float64 reference that every step is checked against, and how far a right answer may be from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from pykvbench.geometry import Geometry
from pykvbench.values import keys_and_values, query

_SCORES_BYTES = 64 * 1024 * 1024

TOLERANCE = {"float32": 5e-5, "float16": 0.03, "bfloat16": 0.2}
"""The largest numerics_error of a right answer, by dtype.

Four times the worst measured with torch 2.13 and MLX 0.32 on a CPU (6.4e-6, 7.5e-3 and 4.8e-2: every kernel and cache
policy, lengths 1 to 600, batch 1 and 2, up to 48 layers, grouped heads or not), and for float32 also the 1.2e-5 seen at
16384 keys. TF32 is outside float32's.
"""


Rows = Callable[[Geometry, int, int, int], tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]


def reference(
    geometry: Geometry, lengths: Sequence[int], seed: int, rows: Rows = keys_and_values
) -> npt.NDArray[np.float32]:
    """Every layer's attention output at each KV length, computed in float64: [len(lengths), num_layers, B, H, D].

    One pass over the layers serves all lengths, because every cache is a prefix of the longest. Scores are held in
    blocks of at most 64 MiB; besides them there is one layer's K and V at the longest length. `rows` makes a layer's
    K and V; one that remembers them pays off over many calls.
    """
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    rising = np.array([lengths[index] for index in order], dtype=np.int64)  # [N]
    group, dim = geometry.queries_per_kv_head, geometry.head_dim
    shape = (len(rising), geometry.batch, geometry.num_kv_heads, group, dim)
    first = query(geometry, seed).astype(np.float64).reshape(1, *shape[1:])  # [1, B, Hkv, G, D]
    x = np.broadcast_to(first, shape)
    result = np.empty((len(rising), geometry.num_layers, geometry.batch, geometry.num_heads, dim), dtype=np.float32)
    for layer in range(geometry.num_layers):
        k, v = rows(geometry, layer, int(rising[-1]), seed)  # [B, Hkv, L, D] or longer
        o = np.empty(shape)
        for b in range(geometry.batch):
            for h in range(geometry.num_kv_heads):
                o[:, b, h] = _attend(x[:, b, h], k[b, h].astype(np.float64), v[b, h].astype(np.float64), rising)
        result[order, layer] = o.reshape(len(rising), geometry.batch, geometry.num_heads, dim)
        x = first + o
    return result


def numerics_error(outputs: npt.NDArray[np.float64], expected: npt.NDArray[np.floating]) -> float:
    """How wrong one step is: the worst element's distance from the reference, over the layer's root mean square.

    Both are [num_layers, B, H, D]. Infinity if the shapes differ or anything is not finite.

    One key too many or too few shows as about 0.3 at 500 keys in GPT-2's shape, and shrinks as 1 / sqrt(length). So
    the tolerances see it up to about 1000 keys in bfloat16, 50,000 in float16, and at any length in float32.
    """
    if outputs.shape != expected.shape or not np.isfinite(outputs).all():
        return float("inf")
    distance = np.abs(outputs - expected).max(axis=(1, 2, 3))  # [num_layers]
    size = np.sqrt(np.square(expected, dtype=np.float64).mean(axis=(1, 2, 3)))  # [num_layers]
    return float((distance / size).max())


def _attend(
    x: npt.NDArray[np.float64], k: npt.NDArray[np.float64], v: npt.NDArray[np.float64], rising: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """One KV head: queries [N, G, D] over keys and values [L, D], query n seeing the first rising[n] keys."""
    group, dim = x.shape[1:]
    o = np.empty_like(x)
    rows = max(1, _SCORES_BYTES // (8 * group * len(k)))
    for first in range(0, len(rising), rows):
        block = slice(first, first + rows)
        visible = int(rising[block][-1])
        scores = x[block].reshape(-1, dim) @ k[:visible].T / np.sqrt(dim)  # [rows * G, L]
        scores[np.repeat(rising[block], group)[:, None] <= np.arange(visible)] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        weights = np.exp(scores, out=scores)
        weights /= weights.sum(axis=1, keepdims=True)
        o[block] = (weights @ v[:visible]).reshape(-1, group, dim)
    return o
