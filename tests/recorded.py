"""Writes small run files with known contents: the stored ones in tests/reports, and variants of them for tests.

    python tests/recorded.py

writes tests/reports again, the run files and the reports that come of them; read the difference before committing it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench.analysis.file import analyze_file
from pykvbench.analysis.reproduction import Attempt, Reproduction
from pykvbench.geometry import geometry
from pykvbench.report import bundle
from pykvbench.report.repro import Reproducer

FOLDER = Path(__file__).parent / "reports"
MAC = {
    "architecture": "arm64",
    "threads": 12,
    "load": 1.2,
    "os": "macOS",
    "os_version": "15.3.1",
    "os_build": "24D70",
    "cpu": "Apple M3 Pro",
    "model": "Mac15,6",
    "cores": 12,
    "performance_cores": 6,
    "memory_bytes": 36 << 30,
    "gpu_cores": 18,
    "power_source": "AC",
    "low_power_mode": False,
    "thermal_pressure": "nominal",
    "python": "CPython 3.12.8",
    "packages": {
        "torch": {"version": "2.13.0", "wheel": "cp312-none-macosx_14_0_arm64"},
        "mlx": {"version": "0.32.4", "wheel": "cp312-cp312-macosx_15_0_arm64"},
        "numpy": {"version": "2.4.6", "wheel": "cp312-cp312-macosx_14_0_arm64"},
    },
    "variables": {},
}
DESCRIBED: dict[str, dict[str, Any]] = {
    "mps": {
        "framework": "torch",
        "version": "2.13.0",
        "git": "cf30153c4c131c8164ee7798e5022d810682e2cb",
        "device": "mps",
        "device_name": "Apple M3 Pro",
        "gpu_cores": 18,
    },
    "mlx": {
        "framework": "mlx",
        "version": "0.32.4",
        "device": "gpu",
        "device_info": {"architecture": "applegpu_g15s", "device_name": "Apple M3 Pro", "memory_size": 36 << 30},
    },
    "cpu": {"framework": "torch", "version": "2.13.0+cpu", "git": "cf30153c", "device": "cpu", "threads": 1},
    "mlx-cpu": {"framework": "mlx", "version": "0.32.4", "device": "cpu", "device_info": {"architecture": "arm64"}},
    "simulated": {"framework": "simulated", "device": "simulated device (a thread that takes the time it is told to)"},
}


def cell(
    backend: str = "mps",
    kernel: str = "manual",
    cache: str = "prealloc",
    dtype: str = "float32",
    model: str = "gpt2",
    layers: int = 2,
    **shape: int,
) -> dict[str, Any]:
    """A cell as a header holds it."""
    return {
        "backend": backend,
        "kernel": kernel,
        "cache": cache,
        "geometry": geometry(model, dtype, 1, layers, **shape).to_json(),
        "body": "attention",
    }


def lines(
    *cells: Mapping[str, Any],
    slow: Mapping[int, float] | None = None,
    only: int = 0,
    wrong: tuple[int, ...] = (),
    lengths: tuple[int, int] = (413, 429),
    sweeps: int = 5,
    samples: int = 3,
    base_us: float = 90.0,
    **plan: Any,
) -> list[dict[str, Any]]:
    """A run file's lines: `slow` are ratios by length in cell `only`, `wrong` lengths whose output is wrong there."""
    first, last = lengths
    rng = np.random.default_rng(0)
    written: list[dict[str, Any]] = [
        {
            "kind": "header",
            "schema": 1,
            "pykvbench": "0.1.0",
            "command": "attn",
            "argv": ["attn", "--len", f"{first}:{last}"],
            "created": "2026-11-30T20:00:00+00:00",
            "seed": 0,
            "plan": {
                "lengths": f"{first}:{last}",
                "sweeps": sweeps,
                "samples": samples,
                "warmup_s": 1.0,
                "order": "shuffled",
                "timeout_s": 60.0,
                "simulate": None,
                "inject": [],
                "cpus": [],
                **plan,
            },
            "cells": list(cells),
            "machine": MAC,
            "notes": [],
            "clock": {
                "name": "CLOCK_UPTIME_RAW",
                "resolution_ns": 42,
                "overhead_ns": 0,
                "monotonic": True,
                "began_ns": 0,
            },
        }
    ]
    process, now = 0, 0
    for sweep in range(sweeps):
        for index, one in enumerate(cells):
            process += 1
            place = {"cell": index, "sweep": sweep, "process": process}
            described = DESCRIBED[one["backend"]]
            written.append({"kind": "event", "event": "worker-started", "at": now, "describe": described, **place})
            for order, length in enumerate(rng.permutation(np.arange(first, last + 1)).tolist()):
                cost = base_us * 1e3 * (1 + (length - first) / 2000) * np.exp(0.01 * rng.standard_normal(samples + 2))
                cost *= (slow or {}).get(length, 1.0) if index == only else 1.0
                total = [int(value) for value in cost]
                written.append(
                    {
                        "kind": "visit",
                        "order": order,
                        "length": length,
                        "at": now,
                        "gap": 1000,
                        "first": [total[0] // 10, total[0]],
                        "second": [total[1] // 10, total[1]],
                        "dispatch": [value // 10 for value in total[2:]],
                        "total": total[2:],
                        "error": 0.31 if length in wrong and index == only else 2.1e-6,
                        "correct": not (length in wrong and index == only),
                        "memory": {"live": 1 << 20},
                        "cpu": 1000,
                        "switches": [0, 0],
                        **place,
                    }
                )
                now += sum(total)
    written.append({"kind": "end", "status": "complete", "visits": sweeps * (last - first + 1), "at": now})
    return written


def predicted(cell_index: int, first: int, last: int, name: str, landmarks: list[list[Any]]) -> dict[str, Any]:
    """What a worker's versions let predict."""
    route = {"name": name, "parts": ["unranked graph"], "copies": [], "source": "torch 2.4 to 2.14"}
    return {
        "kind": "event",
        "event": "predicted",
        "at": 0,
        "cell": cell_index,
        "routes": {str(first): route, str(last): route},
        "landmarks": landmarks,
        "known_wrong": [],
    }


def write(path: Path, written: list[dict[str, Any]]) -> Path:
    """A run file of these lines."""
    path.write_bytes(b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in written))
    return path


def stored() -> dict[str, list[dict[str, Any]]]:
    """The runs in tests/reports by name."""
    spike = lines(cell("mps"), cell("mlx"), slow={421: 21.3})
    spike.insert(2, predicted(0, 413, 429, "MPSGraph bmm, softmax, bmm", [[427, "a heap class", "torch 2.4 to 2.14"]]))
    grouped = cell("mlx", "fused", "concat", "float16", "llama-3.2-1b")
    return {
        "mps_spike": spike,
        "mlx_regime": lines(grouped, slow=dict.fromkeys((419, 420, 421), 1.5), samples=5),
        "mps_wrong": lines(cell("mps", "fused", dtype="float16"), wrong=(424, 425)),
        "mps_smooth": lines(cell("mps"), cell("mps", "fused")),
        "simulated_spike": lines(cell("simulated"), slow={421: 3.0}, simulate="421=3x"),
    }


def outcomes() -> dict[str, Reproduction]:
    """What became of the reproducer of each stored run, as far as it has one."""
    shows = Attempt(1, 21.1, "    421 keys     1930.0 us  slow\nobserved 21.10x, expected 1.00x")
    not_there = Attempt(0, 1.02, "observed 1.02x, expected 1.00x")
    return {
        "mps_spike": Reproduction((shows,) * 3, where="torch 2.13.0, Apple M3 Pro, 15.3.1"),
        "mlx_regime": Reproduction((not_there,) * 3, where="mlx 0.32.4, Apple M3 Pro, 15.3.1"),
        "mps_wrong": Reproduction(reason="mps needs macOS on Apple silicon; this is Linux."),
    }


def report(path: Path, outcome: Reproduction | None = None) -> bundle.Bundle:
    """The report of a run file whose reproducer ends as given."""
    run, result = analyze_file(path)
    assert run is not None

    def reproduce(script: str, what: Reproducer) -> Reproduction:
        assert outcome is not None
        return outcome

    return bundle.prepare(run, result, reproduce)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, written in stored().items():
        made = report(write(FOLDER / f"{name}.jsonl", written), outcomes().get(name))
        (FOLDER / f"{name}.md").write_text(made.text, encoding="utf-8")
