"""What a trajectory's bookkeeping adds to its steps, and whether a long one keeps its memory flat.

The same steps of torch's CPU attention, as `decode` takes them and as the bare loop written out here, in turns in one
process. Then one `decode` of 10,000 steps: memory at its end against memory after its first 1,000 steps.

    python benchmarks/trajectory_overhead.py [--rounds 20] [--steps 300] [--json]

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

from pykvbench import _timer, record
from pykvbench.cell import Cell
from pykvbench.drivers.opening import open_driver
from pykvbench.experiment.trajectory import Memory
from pykvbench.geometry import geometry

PROMPT = 65


def overhead(rounds: int, steps: int) -> dict[str, float]:
    """Median over rounds of decode's cost over the bare loop's, for the sum of all step times."""
    driver = open_driver(Cell("cpu", "manual", "prealloc", geometry("gpt2", num_layers=2)), PROMPT + steps + 1, 0)
    gc.disable()

    def bare() -> float:
        total = 0
        driver.reset(PROMPT)
        for step in range(steps):
            if step:
                driver.advance()
            started = perf_counter_ns()
            driver.sync(driver.step())
            total += perf_counter_ns() - started
        return total

    def decode() -> float:
        stamps = np.zeros((steps, 3), dtype=np.int64)
        memory = Memory(driver.memory, steps + 1)

        def prepare() -> None:
            driver.advance() if memory.taken else driver.reset(PROMPT)
            memory.take()

        _timer.run(driver.step, driver.sync, stamps, prepare)
        return float((stamps[:, 2] - stamps[:, 0]).sum())

    bare(), decode()
    ratios = []
    for turn in range(rounds):
        first, second = (decode, bare) if turn % 2 else (bare, decode)
        times = {first: first(), second: second()}
        ratios.append(times[decode] / times[bare])
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return {"ratio": float(middle), "first_quartile": float(low), "third_quartile": float(high)}


def long_trajectory() -> dict[str, float]:
    """Resident memory of one 10,000-step trajectory over a small fixed cache, bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        shape = ["--num-layers", "1", "--num-heads", "2", "--cache", "prealloc", "--repeats", "1"]
        command = [sys.executable, "-m", "pykvbench", "decode", "--backend", "cpu", "--budget", "10000", *shape]
        subprocess.run([*command, "--json", "-o", str(path)], capture_output=True, check=True)
        memory = np.array(record.read(path).trajectories[0]["memory"]["rss"])
    return {"steps": len(memory), "after_1000": float(memory[1000]), "at_the_end": float(memory[-1])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="pairs of trajectories")
    parser.add_argument("--steps", type=int, default=300, help="steps a trajectory")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    cost, memory = overhead(options.rounds, options.steps), long_trajectory()
    grown = memory["at_the_end"] - memory["after_1000"]
    if options.json:
        print(json.dumps({"overhead": cost, "memory": memory}, indent=1))
    else:
        print(f"decode's steps over the bare loop's, {options.rounds} pairs of {options.steps} steps: ", end="")
        print(
            f"{cost['ratio'] - 1:+.2%} (quartiles {cost['first_quartile'] - 1:+.2%}, {cost['third_quartile'] - 1:+.2%})"
        )
        print(f"memory from step 1,000 to step {memory['steps']:,}: {grown / 2**20:+.2f} MiB")
    return 0 if cost["ratio"] <= 1.01 and grown <= 2**20 else 1


if __name__ == "__main__":
    sys.exit(main())
