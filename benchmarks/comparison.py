"""Is `compare` right on real cells: its intervals against a timing script that shares no code with pykvbench.

Each run measures two cells with `attn` and the same two steps by hand: written out below, timed with perf_counter, in
fresh processes that alternate. Right means that the hand's ratio lies in compare's interval, or its own range over
processes does in part, and that no verdict says the opposite. A against A is one cell twice, by --python given twice.

    python benchmarks/comparison.py [--runs 10] [--same-runs 20] [--sweeps 5] [--json]

Exit status 1 when a comparison is wrong, or when A against A is ever FASTER or SLOWER.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

LENGTHS = range(256, 513, 32)
PAIRS = {  # what varies, and the two cells as backend, kernel, cache
    "cpu, mlx-cpu": (("cpu", "manual", "prealloc"), ("mlx-cpu", "manual", "prealloc")),
    "manual, fused": (("cpu", "manual", "prealloc"), ("cpu", "fused", "prealloc")),
    "prealloc, concat": (("cpu", "manual", "prealloc"), ("cpu", "manual", "concat")),
}
LAYERS, HEADS, DIM, SAMPLES = 2, 12, 64, 15


def torch_step(kernel: str, cache: str, length: int) -> Callable[[], object]:
    """One step of `length` keys in PyTorch; the cache is as it was before at every call."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))
    rows = [torch.randn(2, 1, HEADS, 640, DIM) for _ in range(LAYERS)]
    old = [layer[:, :, :, : length - 1].clone() for layer in rows]
    new, query = torch.randn(2, 1, HEADS, 1, DIM), torch.randn(1, HEADS, 1, DIM)

    @torch.inference_mode()
    def step() -> object:
        x = query
        for layer in range(LAYERS):
            if cache == "concat":
                k, v = (torch.cat((old[layer][i], new[i]), dim=2) for i in range(2))
            else:
                rows[layer][:, :, :, length - 1 : length] = new
                k, v = rows[layer][:, :, :, :length]
            if kernel == "fused":
                x = query + F.scaled_dot_product_attention(x, k, v)
            else:
                x = query + torch.softmax(x @ k.transpose(-1, -2) * DIM**-0.5, dim=-1) @ v
        return x

    return step


def mlx_step(kernel: str, cache: str, length: int) -> Callable[[], object]:
    """The same in MLX on the CPU, prealloc and manual only."""
    import mlx.core as mx

    mx.set_default_device(mx.Device(mx.cpu))
    rows = [[mx.random.normal((1, HEADS, 640, DIM)) for _ in range(2)] for _ in range(LAYERS)]
    new, query = mx.random.normal((1, HEADS, 1, DIM)), mx.random.normal((1, HEADS, 1, DIM))
    mx.eval(rows, new, query)

    def step() -> object:
        x = query
        for layer in rows:
            for buffer in layer:
                buffer[:, :, length - 1 : length] = new
            k, v = (buffer[:, :, :length] for buffer in layer)
            x = query + mx.softmax(x @ mx.swapaxes(k, -1, -2) * DIM**-0.5, axis=-1) @ v
        mx.eval(x)
        return x

    return step


def by_hand(backend: str, kernel: str, cache: str, seed: int) -> dict[int, float]:
    """Median seconds of a step at every length, in a random order, in this process."""
    make = mlx_step if backend == "mlx-cpu" else torch_step
    lengths, medians = list(LENGTHS), {}
    Random(seed).shuffle(lengths)
    until = time.perf_counter() + 0.5
    warm = make(kernel, cache, 255)
    while time.perf_counter() < until:
        warm()
    for length in lengths:
        step, times = make(kernel, cache, length), []
        for _ in range(SAMPLES + 2):
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        medians[length] = statistics.median(times[2:])
    return medians


def hand_ratios(pair: tuple[tuple[str, ...], tuple[str, ...]], sweeps: int) -> list[float]:
    """The median ratio over lengths of each pair of alternating processes."""
    ratios = []
    for sweep in range(sweeps):
        sides: dict[int, dict[str, float]] = {}
        for side in (0, 1) if sweep % 2 == 0 else (1, 0):
            command = [sys.executable, __file__, "--hand", *pair[side], str(sweep)]
            sides[side] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        ratios.append(statistics.median(sides[1][length] / sides[0][length] for length in sides[0]))
    return ratios


def compared(options: list[str], sweeps: int) -> dict[str, Any]:
    """What `compare` says of the two cells that `attn` measures with these options."""
    with tempfile.TemporaryDirectory() as folder:
        path, pykvbench = str(Path(folder) / "run.jsonl"), [sys.executable, "-m", "pykvbench"]
        span = f"{LENGTHS[0]}:{LENGTHS[-1]}:{LENGTHS.step}"
        measure = [*pykvbench, "attn", *options, "--len", span, "--sweeps", str(sweeps), "--warmup", "0.5", "-o", path]
        subprocess.run([*measure, "--samples", str(SAMPLES)], capture_output=True, check=True)
        done = subprocess.run([*pykvbench, "compare", path, "--json"], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout)["comparisons"][0])


def pair_row(name: str, sweeps: int) -> dict[str, Any]:
    """One run of one pair, beside the hand's."""
    pair = PAIRS[name]
    options = []
    for option, values in zip(("--backend", "--kernel", "--cache"), zip(*pair)):
        options += [word for value in dict.fromkeys(values) for word in (option, value)]
    said, hand = compared(options, sweeps), hand_ratios(pair, sweeps)
    ratio, middle = said["ratio"], statistics.median(hand)
    opposite = (said["verdict"], True) in (("SLOWER", middle < 1), ("FASTER", middle > 1))
    inside = ratio["low"] <= middle <= ratio["high"]
    overlap = min(hand) <= ratio["high"] and ratio["low"] <= max(hand)
    return {
        "pair": name,
        "verdict": said["verdict"],
        "ratio": [round(ratio[end], 3) for end in ("low", "value", "high")],
        "hand": [round(value, 3) for value in (min(hand), middle, max(hand))],
        "inside": inside,
        "right": overlap and not opposite,
    }


def same_row(backend: str, sweeps: int) -> dict[str, Any]:
    """One run of a cell against itself."""
    said = compared(["--backend", backend, "--python", sys.executable, "--python", sys.executable], sweeps)
    ratio = [round(said["ratio"][end], 3) for end in ("low", "value", "high")]
    right = said["verdict"] in ("SAME", "AMBIGUOUS")
    return {"pair": f"{backend}, itself", "verdict": said["verdict"], "ratio": ratio, "right": right}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="runs of every pair")
    parser.add_argument("--same-runs", type=int, default=20, help="runs of A against A")
    parser.add_argument("--sweeps", type=int, default=5, help="sweeps a cell")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--hand", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hand:
        print(json.dumps(by_hand(*options.hand[:3], int(options.hand[3]))))
        return 0
    rows: list[dict[str, Any]] = []
    jobs: list[tuple[Callable[[str, int], dict[str, Any]], str]] = []
    jobs += [(pair_row, name) for _ in range(options.runs) for name in PAIRS]
    jobs += [(same_row, ("cpu", "mlx-cpu")[run % 2]) for run in range(options.same_runs)]
    for make, name in jobs:
        row = make(name, options.sweeps)
        rows.append(row)
        if not options.json:
            hand = f"  by hand {row['hand']}" if "hand" in row else ""
            print(
                f"{'ok   ' if row['right'] else 'WRONG'} {name:<17} {row['verdict']:<9} {row['ratio']}{hand}",
                flush=True,
            )
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        same = [row["verdict"] for row in rows if "hand" not in row]
        by_hand_rows = [row for row in rows if "hand" in row]
        print(
            f"pairs: {sum(row['right'] for row in by_hand_rows)} of {len(by_hand_rows)} right, the hand's ratio inside "
            f"the interval in {sum(row['inside'] for row in by_hand_rows)}; A against A: {same.count('SAME')} SAME, "
            f"{same.count('AMBIGUOUS')} AMBIGUOUS of {len(same)}"
        )
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
