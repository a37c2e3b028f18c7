"""Builds small results and runs with known curves, for the tests of what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pykvbench.analysis.finding import CellResult, Curve, Finding
from pykvbench.cell import Cell
from pykvbench.geometry import geometry
from pykvbench.record import Run, Visits


def curve(
    costs_us: Mapping[int, float],
    *,
    sweeps: int = 5,
    first_us: float | None = 1300.0,
    noise: float = 0.0,
    seed: int = 0,
) -> Curve:
    """A curve with these costs at these lengths, exact or with lognormal noise on every sweep."""
    lengths = np.array(sorted(costs_us), dtype=np.int64)
    costs = np.array([costs_us[int(length)] * 1e3 for length in lengths])
    rng = np.random.default_rng(seed)
    values = costs * np.exp(noise * rng.standard_normal((sweeps, len(lengths))))
    median = np.median(values, axis=0) if len(lengths) else costs
    baseline = np.minimum.accumulate(median[::-1])[::-1] if len(lengths) else costs
    first = None
    if first_us is not None:
        first = first_us * 1e3 * np.exp(noise * rng.standard_normal(len(lengths)))
    return Curve(lengths, values, median, baseline, first, None)


def spike(length: int, ratio: float = 21.3, **changes: Any) -> Finding:
    """A confirmed spike."""
    return finding("spike", length, length, ratio, **changes)


def finding(kind: str, first: int, last: int, ratio: float | None, **changes: Any) -> Finding:
    """A confirmed finding, with `changes` to any field."""
    fields: dict[str, Any] = {
        "kind": kind,
        "lengths": (first, last),
        "ratio": ratio,
        "votes": "5/5",
        "p": 3e-7,
        "confidence": "confirmed",
        "note": "It costs what no longer length costs.",
    }
    return Finding(**{**fields, **changes})


def cell_result(
    of: Curve, *findings: Finding, verdict: str = "smooth", label: str = "cpu manual prealloc float32", **changes: Any
) -> CellResult:
    """One cell's result, able to confirm 1.10x."""
    fields: dict[str, Any] = {"limit_of_detection": 1.10, "smallest_p": 5e-7, "notes": ()}
    return CellResult(cell=label, verdict=verdict, findings=findings, curve=of, **{**fields, **changes})


def run(cells: Sequence[CellResult], *, samples: int = 7, seed: int = 0) -> Run:
    """The run from which these results could have come: visits in shuffled order, one after the other."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, int, int, int]] = []
    values: list[float] = []
    sweeps = max(len(cell.curve.sweeps_ns) for cell in cells)
    for sweep in range(sweeps):
        for index, cell in enumerate(cells):
            for order, at in enumerate(rng.permutation(len(cell.curve.lengths)).tolist()):
                rows.append((index, sweep, len(cells) * sweep + index, order, int(cell.curve.lengths[at])))
                values.append(float(cell.curve.sweeps_ns[sweep, at]))
    cell_, sweep_, process, order_, length = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    total = np.repeat(np.array(values, dtype=np.int64)[:, None], samples, axis=1)
    at_ = np.cumsum(total.sum(axis=1)) + 2_000_000_000 * process
    pair = np.stack([total[:, 0] // 10, total[:, 0] * 12], axis=1)
    visits = Visits(
        cell=cell_,
        sweep=sweep_,
        process=process,
        order=order_,
        length=length,
        at=at_,
        gap=np.zeros_like(length),
        first=pair,
        second=pair,
        dispatch=total // 10,
        total=total,
        error=np.zeros(len(length)),
        correct=np.ones(len(length), dtype=np.bool_),
        memory={},
    )
    header = {"command": "attn", "seed": seed, "plan": {"sweeps": sweeps, "samples": samples}}
    shapes = tuple(
        Cell(backend, kernel, cache, geometry("gpt2", dtype=dtype))
        for backend, kernel, cache, dtype in (cell.cell.split() for cell in cells)
    )
    return Run(header, shapes, visits, (), (), {"status": "complete"}, ())
