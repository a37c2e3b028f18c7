"""Attention over keys and values that are already at hand, in PyTorch; torch_driver.py's steps and models share it.

torch_attention.py and mlx_attention.py are parallel line by line, as the drivers are.
"""

from __future__ import annotations

import math

import torch
from torch.nn.functional import scaled_dot_product_attention

from pykvbench.cell import Cell

Array = torch.Tensor


class Attention:
    """Both kernels for the heads of one cell; `mask`, where there is one, is added to the scores.

    N queries are attended at once: one in a cached step, L where a prefix is computed whole.
    """

    def __init__(self, cell: Cell) -> None:
        geometry = cell.geometry
        self.group = geometry.queries_per_kv_head
        self.grouped = (geometry.batch, geometry.num_kv_heads, -1, geometry.head_dim)
        self.ungrouped = (geometry.batch, geometry.num_heads, -1, geometry.head_dim)
        self.gqa = self.group > 1
        self.scale = 1.0 / math.sqrt(geometry.head_dim)
        self.mask: Array | None = None
        self.attention = self.manual if cell.kernel == "manual" else self.fused

    def manual(self, x: Array, k: Array, v: Array) -> Array:
        return self.pv(self.softmax(self.qk(x, k)), v)  # [B, H, N, D]

    def qk(self, x: Array, k: Array) -> Array:
        q = x.reshape(self.grouped)  # [B, Hkv, G * N, D]: grouped heads are rows of one matmul, K is not repeated
        return torch.matmul(q, k.transpose(-2, -1)) * self.scale  # [B, Hkv, G * N, L]

    def softmax(self, scores: Array) -> Array:
        if self.mask is not None:
            scores = scores + self.mask
        return torch.softmax(scores, dim=-1)

    def pv(self, weights: Array, v: Array) -> Array:
        return torch.matmul(weights, v).reshape(self.ungrouped)  # [B, H, N, D]

    def fused(self, x: Array, k: Array, v: Array) -> Array:
        # No causal flag: with one query torch's would hide every key but the first.
        return scaled_dot_product_attention(x, k, v, attn_mask=self.mask, scale=self.scale, enable_gqa=self.gqa)

    def fused_causal(self, x: Array, k: Array, v: Array) -> Array:
        # As many queries as keys, each seeing itself and those before; every framework's flag agrees there.
        return scaled_dot_product_attention(x, k, v, is_causal=True, scale=self.scale, enable_gqa=self.gqa)

    def causal_mask(self, length: int, like: Array) -> Array:
        """What hides later keys from the rows of `manual`, once for each grouped head: [G * length, length]."""
        hidden = torch.full((length, length), -math.inf, dtype=like.dtype, device=like.device)
        return torch.triu(hidden, 1).repeat(self.group, 1)
