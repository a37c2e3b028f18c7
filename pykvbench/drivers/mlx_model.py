"""A transformer around the attention in MLX: its layers (`block`), or all of it with a token read back (`model`).

torch_model.py and mlx_model.py are parallel line by line, as the attention drivers are, and their caches and kernels
are those drivers'. One form stands for every preset: pre-norm with LayerNorm, one QKV projection, an MLP of two
matrices with GELU(tanh), learned positions, and an LM head tied to the embedding.
"""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.activations import gelu_approx

from pykvbench.cell import NO_CACHE, Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.mlx_attention import Array
from pykvbench.drivers.mlx_cache import CACHES, DTYPES, Cached, upload
from pykvbench.drivers.mlx_device import (
    check_dtype,
    counters,
    describe,
    find_device,
    finish,
    fix_settings,
    restart_peak,
)
from pykvbench.errors import DriverError
from pykvbench.weights import LayerWeights, inputs, layer_weights, model_weights, tokens


class Block(Cached):
    """The layers' weights and caches, and one token through them; its hidden state before them is given."""

    def __init__(self, cell: Cell, capacity: int, seed: int, device: mx.Device) -> None:
        super().__init__(cell)
        geometry, dtype = cell.geometry, DTYPES[cell.geometry.dtype]
        self.heads = (geometry.batch, -1, geometry.num_heads, geometry.head_dim)
        self.kv_heads = (geometry.batch, -1, geometry.num_kv_heads, geometry.head_dim)
        self.ends = (geometry.hidden, geometry.hidden + geometry.num_kv_heads * geometry.head_dim)  # of q and of k
        self.joined = (geometry.batch, -1, geometry.hidden)
        self.cached = cell.cache != NO_CACHE
        self.padded = cell.cache == "padded"
        self.recomputes_masked = not self.cached and cell.kernel == "manual"
        self.recompute = self.manual if cell.kernel == "manual" else self.fused_causal
        self.capacity = capacity
        self.length, self.start, self.prefilled = -1, -1, 0
        self.layers: list[LayerWeights[Array]] = []
        rows = (geometry.batch, geometry.num_kv_heads, capacity, geometry.head_dim)
        for layer in range(geometry.num_layers):
            self.layers.append(layer_weights(cell, layer, seed).map(lambda values: upload(values, dtype, device)))
            if self.cached:
                k, v = (upload(np.zeros(rows, np.float32), dtype, device) for _ in range(2))  # each its own memory
                self.caches.append(CACHES[cell.cache](k, v))
        if self.padded:
            self.mask = upload(np.zeros((1, 1, 1, capacity), np.float32), dtype, device)  # [1, 1, 1, capacity]
        self.device, self.live = device, 0
        self.finish = finish(device)
        self.prepare(cell, seed, dtype)

    def prepare(self, cell: Cell, seed: int, dtype: mx.Dtype) -> None:
        self.inputs = upload(inputs(cell, self.capacity, seed), dtype, self.device)  # [B, capacity, hidden]

    def reset(self, length: int) -> None:
        if self.cached:
            self.compute_rows(length)
        for cache in self.caches:
            if length != self.start:
                cache.reset(0)  # the rows of the last trajectory are its own, not the next prompt's
            cache.reset(length)
        self.begin(length)
        self.start = length

    def begin(self, length: int) -> None:
        if self.padded and self.mask is not None:
            self.mask[:, :, :, :length] = 0.0
            self.mask[:, :, :, length:] = -math.inf
        self.length, self.start = length, -1
        self.advance()

    def compute_rows(self, length: int) -> None:
        """Compute the rows of the prompt's tokens once; a shorter prompt's are the first of a longer one's."""
        if length <= self.prefilled:
            return
        x = self.embed(0, length)  # [B, length, hidden]
        for w, cache in zip(self.layers, self.caches, strict=True):
            q, k, v = self.project(w, x)
            cache.k_rows[:, :, :length] = k  # [B, Hkv, length, D]
            cache.v_rows[:, :, :length] = v
            x = self.absorb(w, x, self.fused_causal(q, k, v))
        self.prefilled = length

    def prefill(self, count: int) -> Any:
        """Compute the prompt's next `count` tokens into the caches, and finish: their hidden states."""
        first, last = self.length, self.length + count
        self.hide_later(first, last, self.layers[0].qkv_bias)
        x = self.embed(first, last)  # [B, N, hidden]
        for w, cache in zip(self.layers, self.caches, strict=True):
            q, k_new, v_new = self.project(w, x)
            k, v = cache.extend(k_new, v_new)  # [B, Hkv, L, D]
            x = self.absorb(w, x, self.prompt.attention(q, k, v))  # [B, N, hidden]
        self.finish([x, *self.buffers()])
        self.begin(last)
        return x

    def advance(self) -> None:
        n = self.length
        if not 0 <= n < self.capacity:
            raise DriverError(f"Token {n} is outside this driver's {self.capacity}; open it with a larger capacity.")
        if self.recomputes_masked:
            self.mask = self.causal_mask(n + 1, self.layers[0].qkv_bias)  # [G * L, L]
        self.finish([*self.buffers(), *self.given(), self.mask])
        self.live = restart_peak(self.device)

    def given(self) -> list[Array]:
        """What the next step is given: the hidden state of its token, or of all tokens without a cache."""
        n = self.length
        self.x = self.embed(n if self.cached else 0, n + 1)  # [B, 1 or L, hidden]
        return [self.x]

    def embed(self, first: int, last: int) -> Array:
        return mx.contiguous(self.inputs[:, first:last])  # [B, last - first, hidden]

    def step(self) -> Any:
        x = self.forward(self.x)  # [B, 1 or L, hidden]
        self.length += 1
        return x

    def forward(self, x: Array) -> Array:
        if not self.cached:
            for w in self.layers:
                q, k, v = self.project(w, x)
                x = self.absorb(w, x, self.recompute(q, k, v))  # [B, L, hidden]
            return x
        if self.padded and self.mask is not None:
            self.mask[:, :, :, self.length : self.length + 1] = 0.0  # one element a step, shared by the layers
        for w, cache in zip(self.layers, self.caches, strict=True):
            q, k_new, v_new = self.project(w, x)
            k, v = cache.update(k_new, v_new)  # [B, Hkv, L, D]
            x = self.absorb(w, x, self.attention(q, k, v))  # [B, 1, hidden]
        return x

    def project(self, w: LayerWeights[Array], x: Array) -> tuple[Array, Array, Array]:
        """The first half of a layer: what attends and what is cached of N tokens."""
        qkv = _linear(_norm(x, w.norm_1_weight, w.norm_1_bias), w.qkv_weight, w.qkv_bias)  # [B, N, (H + 2 Hkv) D]
        q, k, v = mx.split(qkv, self.ends, axis=-1)
        q = q.reshape(self.heads).swapaxes(1, 2)  # [B, H, N, D]
        k = k.reshape(self.kv_heads).swapaxes(1, 2)  # [B, Hkv, N, D]
        v = v.reshape(self.kv_heads).swapaxes(1, 2)
        return q, k, v

    def absorb(self, w: LayerWeights[Array], x: Array, o: Array) -> Array:
        """The second half of a layer: attention's output [B, H, N, D] into the hidden states [B, N, hidden]."""
        x = x + _linear(o.swapaxes(1, 2).reshape(self.joined), w.out_weight, w.out_bias)
        h = _linear(_norm(x, w.norm_2_weight, w.norm_2_bias), w.up_weight, w.up_bias)  # [B, N, mlp]
        return x + _linear(gelu_approx(h), w.down_weight, w.down_bias)

    def memory(self) -> dict[str, int]:
        """Bytes: live (tensors), driver (taken from the system), peak (of live, above what reset left)."""
        return counters(self.device, self.live, self.buffers())

    def outputs(self, result: Any) -> npt.NDArray[np.float64]:
        last: Array = result[None, :, -1:].astype(mx.float32)  # [1, B, 1, hidden]
        return np.array(last).astype(np.float64)


class Model(Block):
    """Tokens in, the most likely next token out, on the host; it goes into the next step."""

    def prepare(self, cell: Cell, seed: int, dtype: mx.Dtype) -> None:
        self.prompt_ids = tokens(cell, self.capacity, seed)  # [B, capacity]
        self.ids = self.prompt_ids.copy()
        self.weights = model_weights(cell, self.capacity, seed).map(lambda values: upload(values, dtype, self.device))

    def reset(self, length: int) -> None:
        self.ids[:] = self.prompt_ids
        super().reset(length)

    def begin(self, length: int) -> None:
        self.ids[:] = self.prompt_ids
        super().begin(length)

    def prefill(self, count: int) -> None:
        super().prefill(count)  # hidden states are not what `outputs` takes

    def given(self) -> list[Array]:
        return []

    def embed(self, first: int, last: int) -> Array:
        ids = mx.array(self.ids[:, first:last])  # [B, last - first]
        return self.weights.embedding[ids] + self.weights.positions[first:last]

    def step(self) -> Any:
        n = self.length
        x = self.forward(self.embed(n if self.cached else 0, n + 1))[:, -1:]  # [B, 1, hidden]
        x = _norm(x, self.weights.norm_weight, self.weights.norm_bias)
        logits = mx.matmul(x, self.weights.embedding.T)  # [B, 1, vocabulary]
        chosen = np.array(mx.argmax(logits, axis=-1))  # [B, 1]
        self.ids[:, n + 1 : n + 2] = chosen[:, : self.capacity - n - 1]
        self.length += 1
        return logits, chosen

    def outputs(self, result: Any) -> npt.NDArray[np.float64]:
        return super().outputs(result[0])  # [1, B, 1, vocabulary]

    def tokens(self, result: Any) -> list[int]:
        return [int(token) for token in result[1][:, 0]]


def open_driver(cell: Cell, capacity: int, seed: int) -> Driver:
    """Make the cell's weights and caches, able to hold `capacity` tokens, and everything needed to step them.

    Raises BackendUnavailable when the device is missing or cannot hold the dtype.
    """
    device = find_device(cell.backend)
    settings = fix_settings(device)
    check_dtype(cell, DTYPES[cell.geometry.dtype], device)
    decoder = (Model if cell.body == "model" else Block)(cell, capacity, seed, device)
    return Driver(
        reset=decoder.reset,
        advance=decoder.advance,
        step=decoder.step,
        sync=decoder.finish,
        outputs=decoder.outputs,
        memory=decoder.memory,
        describe={**describe(device), **settings},
        tokens=decoder.tokens if isinstance(decoder, Model) else None,
        prefill=decoder.prefill if decoder.cached else None,
        save=decoder.save if decoder.cached else None,
        copy=decoder.copy if decoder.cached else None,
        restore=decoder.restore if decoder.cached else None,
    )


def _linear(x: Array, weight: Array, bias: Array) -> Array:
    """[..., in] times [out, in], plus [out]: [..., out]."""
    return mx.addmm(bias, x, weight.T)


def _norm(x: Array, weight: Array, bias: Array) -> Array:
    """LayerNorm over the hidden size, in place of which some presets have RMSNorm."""
    return mx.fast.layer_norm(x, weight, bias, eps=1e-5)
