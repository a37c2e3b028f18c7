"""Runs with known curves, for the tests of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pykvbench.analysis.finding import Floats, Ints
from pykvbench.analysis.synthetic import Noise, sweeps
from pykvbench.cell import Cell
from pykvbench.geometry import geometry
from pykvbench.record import Run, Visits

QUIET = Noise(process=0.003, window=0.0)  # a machine that does nothing else: processes differ by 0.3 %
LENGTHS = np.arange(380, 531)


def run(
    curves_ns: Sequence[Floats],
    seed: int = 0,
    lengths: Ints = LENGTHS,
    count: int = 5,
    noise: Noise = QUIET,
    backends: Sequence[str] = ("cpu", "mlx-cpu"),
    events: Sequence[Mapping[str, Any]] = (),
    plan: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] | None = None,
    **cell: Any,
) -> Run:
    """A run of one cell a curve, with `count` sweeps of each under `noise`."""
    shape = geometry("gpt2", cell.pop("dtype", "float32"), num_layers=cell.pop("num_layers", 2))
    fields = {"kernel": "manual", "cache": "prealloc", "geometry": shape, **cell}
    cells = tuple(Cell(backend=backend, **fields) for backend, _ in zip(backends, curves_ns))
    grids = [sweeps(curve, 1000 * seed + index, count, noise=noise) for index, curve in enumerate(curves_ns)]
    rows = np.array(
        [(c, s, s * len(cells) + c, n) for c in range(len(cells)) for s in range(count) for n in range(len(lengths))],
        dtype=np.int64,
    )
    values = np.array([grids[c][s, n] for c, s, _, n in rows], dtype=np.int64)
    total = np.repeat(values[:, None], 3, axis=1)
    nothing = np.zeros(len(rows), dtype=np.int64)
    pair = total[:, :2]
    visits = Visits(
        cell=rows[:, 0], sweep=rows[:, 1], process=rows[:, 2], order=nothing, length=lengths[rows[:, 3]], at=nothing,
        gap=nothing, first=pair, second=pair, dispatch=total // 10, total=total, error=np.zeros(len(rows)),
        correct=np.ones(len(rows), dtype=np.bool_), memory={"live": np.full(len(rows), 2.0**20)},
    )  # fmt: skip
    header = {
        "command": "attn",
        "plan": {"lengths": "380:530", "sweeps": count, "samples": 3, "warmup_s": 1.0, **(plan or {})},
        "machine": {"cpu": "A", "os": "Linux", "variables": {}, **(machine or {})},
    }
    return Run(header, cells, visits, (), tuple(dict(event) for event in events), {"status": "complete"}, ())


def versions(*names: str) -> list[dict[str, Any]]:
    """Events by which workers tell their torch's version, one a cell."""
    return [
        {"event": "worker-started", "cell": cell, "describe": {"framework": "torch", "version": name}}
        for cell, name in enumerate(names)
    ]
