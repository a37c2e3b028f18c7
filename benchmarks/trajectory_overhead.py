"""What a trajectory's bookkeeping adds to its steps, and whether a long one keeps its memory flat.

The same steps of torch's CPU attention, as `decode` takes them and as the bare loop written out here, in turns in one
process. Then one `decode` of 10,000 steps: memory at its end against memory after its first 1,000 steps.

    python benchmarks/trajectory_overhead.py [--rounds 60] [--steps 300] [--json]

Exit status 1 when decode's steps cost more than 1 % more, or memory grows by more than 1 MiB beyond the cache.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

from pykvbench import _timer, record
from pykvbench.cell import Cell
from pykvbench.drivers.opening import open_driver
from pykvbench.experiment.trajectory import Memory
from pykvbench.geometry import geometry

PROMPT = 65


def overhead(rounds: int, steps: int) -> dict[str, float]:
    """Decode's cost over the bare loop's: each step's median over rounds, summed; and the same in quarters of the run.

    Medians step by step, because one interruption in 300 steps would be all that a whole trajectory's sum shows.
    """
    driver = open_driver(Cell("cpu", "manual", "prealloc", geometry("gpt2", num_layers=2)), PROMPT + steps + 1, 0)
    gc.disable()

    def bare() -> npt.NDArray[np.int64]:
        times = np.zeros(steps, dtype=np.int64)
        driver.reset(PROMPT)
        for step in range(steps):
            if step:
                driver.advance()
            started = perf_counter_ns()
            driver.sync(driver.step())
            times[step] = perf_counter_ns() - started
        return times

    def decode() -> npt.NDArray[np.int64]:
        stamps = np.zeros((steps, 3), dtype=np.int64)
        memory = Memory(driver.memory, steps + 1)

        def prepare() -> None:
            driver.advance() if memory.taken else driver.reset(PROMPT)
            memory.take()

        _timer.run(driver.step, driver.sync, stamps, prepare)
        return stamps[:, 2] - stamps[:, 0]

    bare(), decode()
    ours, plain = np.zeros((2, rounds, steps))
    for turn in range(rounds):
        for measure, rows in ((decode, ours), (bare, plain)) if turn % 2 else ((bare, plain), (decode, ours)):
            rows[turn] = measure()

    def ratio(part: slice) -> float:
        return float(np.median(ours[part], axis=0).sum() / np.median(plain[part], axis=0).sum())

    parts = [ratio(slice(part * rounds // 4, (part + 1) * rounds // 4)) for part in range(4)]
    return {"ratio": ratio(slice(None)), "lowest_part": min(parts), "highest_part": max(parts)}


def long_trajectory() -> dict[str, int]:
    """Resident memory of one 10,000-step trajectory over a small fixed cache, bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        shape = ["--num-layers", "1", "--num-heads", "2", "--cache", "prealloc", "--repeats", "1"]
        command = [sys.executable, "-m", "pykvbench", "decode", "--backend", "cpu", "--budget", "10000", *shape]
        subprocess.run([*command, "--json", "-o", str(path)], capture_output=True, check=True)
        memory = record.read(path).trajectories[0]["memory"]["rss"]
    taken = {step: value for step, value in enumerate(memory, 1) if value is not None}
    early = max(step for step in taken if step <= 1000)
    return {"from": early, "to": max(taken), "before": taken[early], "after": taken[max(taken)]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="pairs of trajectories")
    parser.add_argument("--steps", type=int, default=300, help="steps a trajectory")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    cost, memory = overhead(options.rounds, options.steps), long_trajectory()
    grown = memory["after"] - memory["before"]
    if options.json:
        print(json.dumps({"overhead": cost, "memory": memory}, indent=1))
    else:
        parts = f"quarters of the run {cost['lowest_part'] - 1:+.2%} to {cost['highest_part'] - 1:+.2%}"
        print(f"decode's steps over the bare loop's, {options.rounds} pairs of {options.steps}: ", end="")
        print(f"{cost['ratio'] - 1:+.2%} ({parts})")
        print(f"memory from step {memory['from']:,} to step {memory['to']:,}: {grown / 2**20:+.2f} MiB")
    return 0 if cost["ratio"] <= 1.01 and grown <= 2**20 else 1


if __name__ == "__main__":
    sys.exit(main())
