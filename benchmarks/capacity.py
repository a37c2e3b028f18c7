"""What `pykvbench capacity` claims, measured here: memory as predicted, linear, and a tail that breaks where predicted.

    python benchmarks/capacity.py --backend cpu

Runs the command itself, twice, on a small preset, and checks its run files: every cache policy's memory against
the prediction over a grid of contexts and concurrencies; then, with a budget for four sequences, where p99 leaves p50
under each policy, whether every sequence got what it was due, and what each policy cost.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from pykvbench import record
from pykvbench.analysis.capacity import analyze_capacity
from pykvbench.analysis.capacity_table import CapacityTable, middle
from pykvbench.analysis.finding import Result
from pykvbench.cell import CACHES, Cell
from pykvbench.dispatch.footprint import whole_sequence
from pykvbench.geometry import geometry
from pykvbench.record import Run

CONTEXT, TOKENS, FIT = 512, 32, 4
MIB = 1 << 20


def measure(path: Path, *options: str) -> tuple[Run, Result]:
    """Run the command and analyse what it wrote."""
    command = [sys.executable, "-m", "pykvbench", "capacity", *options, "-o", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    run = record.read(path)
    return run, analyze_capacity(run)


def memory(result: Result) -> bool:
    """A table of predicted and measured bytes a cache policy, with the fit of measured bytes to sequences x tokens."""
    print(f"{'cache':10}{'rows':>6}{'worst miss, KiB':>18}{'worst rss miss':>16}{'bytes a token, fit':>20}{'R2':>10}")
    right = True
    for cell in result.cells:
        table = cell.capacity
        assert table is not None
        rows = [row for row in table.rows if row.served]
        across = np.array([row.concurrency * (row.context + TOKENS) for row in rows], dtype=np.float64)
        caches = np.array([row.memory["caches"] for row in rows])
        held = np.array([row.held for row in rows])
        rss = np.array([row.memory["rss"] for row in rows])
        slope = float((across * caches).sum() / (across * across).sum())
        rest = 1 - float(((caches - slope * across) ** 2).sum() / ((caches - caches.mean()) ** 2).sum())
        miss, rss_miss = np.abs(caches - held).max() / 1024, np.abs(rss - held).max() / MIB
        print(f"{cell.cell.split()[2]:10}{len(rows):>6}{miss:>18.1f}{rss_miss:>12.1f} MiB{slope:>20.0f}{rest:>10.5f}")
        right = right and any("the caches took what was predicted" in note for note in cell.notes)
    return right


def tails(table: CapacityTable) -> bool:
    """A table of p99 / p50 by concurrency and policy, and of what a policy costs where one sequence is too many."""
    concurrencies = sorted({row.concurrency for row in table.rows})
    print(
        f"{'policy':17}" + "".join(f"{f'p99/p50 at {n}':>15}" for n in concurrencies) + f"{'knee':>6}{'interval':>12}"
    )
    right = True
    for knee in table.knees:
        ratios = []
        for number in concurrencies:
            known = {row.policy: row for row in table.rows if row.concurrency == number}
            row = known.get(knee.policy, known["none"])
            ratios.append(middle(row.p99_ns) / middle(row.p50_ns))
        span = f"{knee.low or '-'} to {knee.high or '-'}"
        print(f"{knee.policy:17}" + "".join(f"{r:>15.2f}" for r in ratios) + f"{knee.at or '-':>6}{span:>12}")
        expected = None if knee.policy in ("none", "reject") else FIT + 1
        right = right and knee.at == expected
    print(f"\n{'policy':17}{'p99 to no limit':>17}{'tokens/s to same':>22}{'a move out':>13}{'back':>11}{'refused':>9}")
    free = {row.concurrency: row for row in table.rows if row.policy == "none"}
    for row in table.rows:
        if row.policy != "none" and row.concurrency == FIT + 1:
            rate = middle(row.tokens_per_s) / middle(free[row.concurrency].tokens_per_s)
            moves = [f"{ns / 1e6:.2f} ms" if ns is not None else "-" for ns in (row.out_ns, row.into_ns)]
            print(f"{row.policy:17}{row.p99_cost:>16.1f}x{rate:>21.2f}x{moves[0]:>13}{moves[1]:>11}{row.rejected:>9}")
    return right


def due(run: Run) -> bool:
    """Whether all sequences that were not refused got their tokens, and the outputs of the run without a limit."""
    free = {
        (line["cell"], line["context"], number): digest
        for line in run.servings
        if line["policy"] == "none"
        for number, digest in enumerate(line["outputs"])
    }
    served = same = 0
    for line in run.servings:
        for number, done in enumerate(line["done"]):
            if number not in line["rejected"]:
                served += 1
                digest = free[line["cell"], line["context"], number]
                same += len(done) == line["tokens"] and line["outputs"][number] == digest
    print(f"{same} of {served} sequences served have all {TOKENS} tokens and the outputs of the run without a limit")
    return served == same


def main() -> int:
    """Print the tables; status 1 if anything is not as claimed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for the two run files")
    chosen = parser.parse_args()
    small = ["--backend", chosen.backend, "--num-layers", "2", "--tokens", str(TOKENS), "--warmup", "0.2"]
    with tempfile.TemporaryDirectory() as folder:
        kept = chosen.keep or Path(folder)
        caches = ["--cache", ",".join(CACHES), "--context", "256:1k:*2", "--concurrency", "1,2,4,8", "--repeats", "1"]
        _, result = measure(kept / "memory.jsonl", *small, *caches)
        right = memory(result)
        cell = Cell(chosen.backend, "manual", "prealloc", geometry("gpt2", num_layers=2))
        budget = FIT * whole_sequence(cell, "cpu", CONTEXT, TOKENS)
        load = ["--context", str(CONTEXT), "--concurrency", "2,3,4,5,6", "--budget", str(budget)]
        run, result = measure(kept / "budget.jsonl", *small, *load, "--repeats", str(chosen.repeats))
    print(
        f"\nA budget of {budget / MIB:.1f} MiB: {FIT} sequences of {CONTEXT} + {TOKENS} tokens, {chosen.repeats} times"
    )
    table = result.cells[0].capacity
    assert table is not None
    right = tails(table) and right
    print()
    right = due(run) and right
    print("as claimed" if right else "NOT as claimed")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
