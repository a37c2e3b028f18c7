"""Contrast lines with a known cause: what attribution is tested on, with noise as an ordinary busy machine makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pykvbench.cell import Cell
from pykvbench.geometry import Geometry
from pykvbench.operations import OPERATIONS
from pykvbench.target import Target

SHARES = {"append": 0.1, "qk": 0.35, "softmax": 0.1, "pv": 0.35, "step": 0.1}
CAUSES = ("dispatch", "device", *OPERATIONS, "first", "alloc", "third", "null")
_STEP = tuple(SHARES)
_ATTENTION = ("qk", "softmax", "pv")
_HOLDS: Mapping[str, tuple[str, ...]] = {
    "whole": _STEP,
    "part:append": ("append",),
    "part:qk": ("qk",),
    "part:softmax": ("softmax",),
    "part:pv": ("pv",),
    "whole:manual": _ATTENTION,
    "layout:contiguous": _ATTENTION,
    "outputs:preallocated": _ATTENTION,
    "padded:32": (),
    "padded:64": (),
    "kernel:fused": (),
    "capacity:other": _STEP,
    "dtype:float16": _STEP,
    "layers:1": _STEP,
}
_COSTS = {"dtype:float16": 1.4, "layers:1": 0.5}


def cell(backend: str = "simulated", cache: str = "prealloc") -> Cell:
    """The cell that the lines are of; on `cpu` a call returns only when its work is done."""
    return Cell(backend, "manual", cache, Geometry(1, 2, 12, 12, 64, "float32"))


def target(cause: str, ratio: float, length: int = 421) -> Target:
    """A finding of the kind that such a cause is found as."""
    kind = {"first": "first-visit", "third": "intermittent"}.get(cause, "spike")
    controls = tuple(length + offset for offset in range(-4, 5) if offset)
    return Target(0, kind, (length, length), ratio, (length,), controls, (length - 1, length + 1))


def lines(
    cause: str, seed: int, ratio: float = 1.5, backend: str = "simulated", noise: float = 0.03, processes: int = 5
) -> list[dict[str, Any]]:
    """The contrast lines of `target(cause, ratio)`: 5 rounds of 3 samples in each process, in ns.

    Samples are lognormal with `noise`, 2 % of them stalled; a visit in 50 is stalled whole, a process has its level.
    """
    rng = np.random.default_rng([seed, CAUSES.index(cause)])
    where = target(cause, ratio)
    visits = [
        (process, number, variant, length)
        for process in range(1, processes + 1)
        for number in range(5)
        for variant in _HOLDS
        for length in (where.controls if variant == "whole" else where.near) + where.flagged
    ]
    levels = np.exp(0.05 * rng.standard_normal(processes))
    base = np.array([200_000.0 * levels[p - 1] * (1 + 0.001 * (n - 421)) for p, _, _, n in visits])  # ns
    scale = {name: sum(SHARES[one] for one in held or _ATTENTION) for name, held in _HOLDS.items()}
    times = {name: _COSTS.get(name, 1.0) for name in _HOLDS}
    cost = base * np.array([scale[name] * times[name] for _, _, name, _ in visits])
    extra = base * (ratio - 1) * np.array([times[name] * _share(cause, name) * (n == 421) for _, _, name, n in visits])
    calls = np.ones((len(visits), 5))
    if cause == "third":
        calls *= np.array([process % 3 == 0 for process, *_ in visits])[:, None]
    if cause == "first":
        calls[:, 1:] = 0.0
        calls[:, 0] = [number == 0 for _, number, *_ in visits]
    factors = np.exp(noise * rng.standard_normal(calls.shape))
    factors *= np.where(rng.random(calls.shape) < 0.02, 1 + rng.pareto(1.2, calls.shape), 1.0)
    factors *= np.where(rng.random((len(visits), 1)) < 0.02, 1 + rng.pareto(1.2, (len(visits), 1)), 1.0)
    extras = extra[:, None] * calls
    waits = backend == "cpu"
    total = (cost[:, None] + extras) * factors
    dispatch = (cost[:, None] * (1.0 if waits else 0.2) + extras * float(waits or cause == "dispatch")) * factors
    spans = np.stack([dispatch, total], axis=2).astype(np.int64).tolist()
    return [
        {
            "kind": "contrast",
            "cell": 0,
            "variant": variant,
            "length": length,
            "round": number,
            "process": process,
            "order": 0,
            "first": pairs[0],
            "second": pairs[1],
            "dispatch": [pair[0] for pair in pairs[2:]],
            "total": [pair[1] for pair in pairs[2:]],
        }
        for (process, number, variant, length), pairs in zip(visits, spans, strict=True)
    ]


def _share(cause: str, variant: str) -> float:
    """How much of the extra work a variant does."""
    held = _HOLDS[variant]
    if cause in ("dispatch", "device", "first"):
        return float("step" in held)
    if cause == "alloc":
        return len(set(held) & set(_ATTENTION)) / 3 * (variant != "outputs:preallocated")
    return float({"third": "pv"}.get(cause, cause) in held)
