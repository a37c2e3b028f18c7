"""What large runs cost: `analyze`, `plot` and `compare` on up to a million visits, and the detector alone.

    python benchmarks/scale.py [--visits 250000,500000,1000000] [--only analyze,plot,compare,detector]

Run files of two shapes are made: 100 cells x 10 sweeps, and 1 cell x 5 sweeps, both with 2 % noise and a spike a cell.
Each command runs in a process of its own and is measured with its start and imports: wall time, CPU time and the most
memory it held. `compare` takes two run files, of half the visits each, so that it reads as many as the others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pykvbench.analysis import spikes
from pykvbench.geometry import geometry
from pykvbench.record import RunWriter, encode

SAMPLES = 7
SHAPES = {"100 cells x 10 sweeps": (100, 10), "1 cell x 5 sweeps": (1, 5)}
VARIANTS = [
    (backend, kernel, cache, dtype)
    for backend in ("cpu", "mlx-cpu", "mps", "mlx", "cuda")
    for kernel in ("manual", "fused")
    for cache in ("prealloc", "concat", "chunked", "padded")
    for dtype in ("float32", "float16", "bfloat16")
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits", default="250000,500000,1000000")
    parser.add_argument("--only", default="analyze,plot,compare,detector")
    options = parser.parse_args()
    wanted = options.only.split(",")
    sizes = [int(size) for size in options.visits.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for name, (cells, sweeps) in SHAPES.items():
            for size in sizes:
                for command in [command for command in ("analyze", "plot", "compare") if command in wanted]:
                    parts = 2 if command == "compare" else 1
                    paths = [Path(folder) / f"{part}.jsonl" for part in range(parts)]
                    for part, path in enumerate(paths):
                        path.unlink(missing_ok=True)
                        write(path, cells, sweeps, size // parts // cells // sweeps, seed=part)
                    wall, cpu, memory = measured(command, paths, Path(folder) / "picture.png")
                    length = sum(path.stat().st_size for path in paths) / 1e6
                    print(
                        f"{command:8} {name:22} {size:8} visits {length:5.0f} MB: {wall:5.1f} s wall, "
                        f"{cpu:5.1f} s of CPU, {memory / 2**20:5.0f} MiB",
                        flush=True,
                    )
    if "detector" in wanted:
        for n in (50_000, 100_000, 200_000):
            for what, lasting in (("a spike", 0), ("99 lasting drops", 99)):
                print(f"detector 5 sweeps x {n:6} lengths, {what:16}: {detector(n, lasting):5.2f} s of CPU", flush=True)


def measured(command: str, paths: list[Path], picture: Path) -> tuple[float, float, int]:
    """Wall and CPU seconds of the command in a process of its own, and the most bytes it held."""
    out = ["-o", str(picture)] if command == "plot" else ["--json"]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "pykvbench", command, *map(str, paths), *out],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command} ended with {os.waitstatus_to_exitcode(status)}.")
    unit = 1 if sys.platform == "darwin" else 1024
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit


def write(path: Path, cells: int, sweeps: int, lengths: int, seed: int) -> None:
    """A run file as `attn` would write it, interleaved by sweep and shuffled within."""
    writer = RunWriter.create(path)
    described = [
        {"backend": backend, "kernel": kernel, "cache": cache, "geometry": geometry("gpt2", dtype).to_json()}
        for backend, kernel, cache, dtype in VARIANTS[:cells]
    ]
    plan = {"lengths": f"1:{lengths}", "sweeps": sweeps, "samples": SAMPLES, "order": "shuffled"}
    header = {"schema": 1, "pykvbench": "0.1.0", "command": "attn", "argv": ["attn"], "seed": seed, "plan": plan}
    writer.write_header({**header, "cells": described, "machine": {}, "notes": [], "clock": {}})
    rng = np.random.default_rng(seed)
    at = 0
    for sweep in range(sweeps):
        for cell in range(cells):
            process = sweep * cells + cell + 1
            lines = []
            for line, now in sweep_lines(rng, cell, sweep, process, lengths, at):
                at = now
                lines.append(line)
                if len(lines) == 10_000:
                    writer.write_lines(b"".join(lines))
                    lines.clear()
            writer.write_lines(b"".join(lines))
    writer.write("end", {"status": "complete", "visits": cells * sweeps * lengths, "at": at})
    writer.close()


def sweep_lines(
    rng: np.random.Generator, cell: int, sweep: int, process: int, lengths: int, at: int
) -> Iterator[tuple[bytes, int]]:
    """The visits of one process, and the run's time after each."""
    order = rng.permutation(lengths)
    cost = 1e5 * (1 + order / lengths) * np.where(order == lengths // 2, 3.0, 1.0)
    times = (cost[:, None] * np.exp(0.02 * rng.standard_normal((lengths, SAMPLES + 2)))).astype(np.int64)
    errors = rng.uniform(1e-7, 2e-6, lengths)
    for place, (length, total, error) in enumerate(zip((order + 1).tolist(), times.tolist(), errors.tolist())):
        took = sum(total)
        yield (
            encode(
                "visit",
                {
                    "order": place,
                    "length": length,
                    "at": at,
                    "gap": 31_000 + place % 100,
                    "first": [total[0] // 3, total[0]],
                    "second": [total[1] // 3, total[1]],
                    "dispatch": [value // 3 for value in total[2:]],
                    "total": total[2:],
                    "error": error,
                    "correct": True,
                    "memory": {"rss": 300_000_000 + 4096 * place, "live": 1_000_000},
                    "cpu": took,
                    "switches": [0, place % 3],
                    "cell": cell,
                    "sweep": sweep,
                    "process": process,
                },
            ),
            at,
        )
        at += took + 31_000


def detector(n: int, lasting: int) -> float:
    """Seconds of CPU that the detector takes over n lengths, with one spike or with so many drops that stay down."""
    rng = np.random.default_rng(0)
    lengths = np.arange(1, n + 1)
    cost = 1e9 * (1 + lengths / n) * np.where(lengths == n // 2, 3.0, 1.0)
    for drop in range(lasting):
        cost = np.where(lengths > (drop + 1) * n // (lasting + 1), cost / 1.15, cost)
    sweeps_ns = cost * np.exp(0.02 * rng.standard_normal((5, n)))
    order = np.array([np.argsort(rng.permutation(n)) for _ in range(5)], dtype=np.float64)
    began = time.process_time()
    found = spikes.detect(lengths, sweeps_ns, order=order)
    took = time.process_time() - began
    steps = sum(finding.kind == "step" for finding in found.findings)
    if steps != lasting:
        raise SystemExit(f"{steps} steps were found of {lasting}.")
    return took


if __name__ == "__main__":
    main()
