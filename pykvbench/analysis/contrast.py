"""What one contrast says: the same lengths measured with one thing changed, and whether the excess is still there."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

OUTCOMES = ("present", "absent", "unclear", "not measured")

# What each contrast asks, in the order in which a reader should see them; `name` of a Contrast is one of these keys.
QUESTIONS = {
    "processes": "Is it in every fresh process?",
    "warm": "Is it still there after the first two calls?",
    "dispatch": "Is it in the host's time until the step's call returns?",
    "completion": "Is it in the time from then until the device has finished?",
    "part:append": "Is it in writing the new K and V rows?",
    "part:qk": "Is it in Q K^T?",
    "part:softmax": "Is it in the softmax?",
    "part:pv": "Is it in P V?",
    "whole:manual": "Is it in the three operations of attention in sequence, without the append?",
    "kernel:fused": "Does the framework's fused attention have it?",
    "layout:contiguous": "Is it there when K and V are contiguous copies?",
    "capacity:other": "Is it there when the buffers have another capacity, so another stride?",
    "padded:32": "Is it there when attention is padded to the next multiple of 32, with a mask?",
    "padded:64": "Is it there when attention is padded to the next multiple of 64, with a mask?",
    "outputs:preallocated": "Is it there when scores, weights and output are written into tensors made beforehand?",
    "cache:prealloc": "Is it there when the cache is a slice of a fixed buffer?",
    "dtype:float16": "Is it there in float16?",
    "dtype:float32": "Is it there in float32?",
    "layers:1": "Is it there with one layer?",
    "layers:2": "Is it there with two layers?",
    "backend:cpu": "Is it there in torch on the CPU?",
    "backend:mlx": "Is it there in MLX on its best device?",
    "backend:mlx-cpu": "Is it there in MLX on the CPU?",
    "backend:mps": "Is it there in torch on MPS?",
}


@dataclass(frozen=True)
class Contrast:
    """One question to the flagged lengths and its answer.

    `ratio` is the cost of the flagged lengths over that of their neighbours under this change, with a 95 % interval
    over processes; `excess_ns` the difference of the two. For `dispatch`, `completion` and the parts, `share` is their
    excess over the excess of the whole step. `outcome` says whether the excess is present: present, absent, unclear
    or not measured. `detail` is a half sentence of what was seen, or why nothing was measured.
    """

    name: str
    question: str
    ratio: float | None
    low: float | None
    high: float | None
    excess_ns: float | None
    share: float | None
    votes: str | None
    outcome: str
    detail: str

    def to_json(self) -> dict[str, Any]:
        """The contrast as it stands in the JSON document."""
        return asdict(self)


@dataclass(frozen=True)
class Row:
    """One length of an attribution's table: the whole step's times over the processes that attributed it."""

    length: int
    flagged: bool
    median_ns: float
    ratio: float  # over the median of the neighbours that are not flagged
    first_ns: float  # the first call, median over processes
    dispatch_ns: float
    visits: int

    def to_json(self) -> dict[str, Any]:
        """The row as it stands in the JSON document."""
        return asdict(self)
