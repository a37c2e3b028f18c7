"""How often the analysis of a decode run says what is true: a table of seeded runs, a truth a row.

    python benchmarks/trajectory_detection.py --seeds 20

Noise: 3 % lognormal a step, 1 % of steps stalled 2 to 20 times, 3 % between processes; 5 repeats, prompt 65.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np

from pykvbench.analysis.finding import Floats, Ints, Result
from pykvbench.analysis.synthetic_trajectories import Truth, run
from pykvbench.analysis.trajectory import analyze_trajectories

GRIDS = {"480:656:16": tuple(range(480, 657, 16)), "128:768:128": tuple(range(128, 769, 128))}


class Spike:
    """A cost of one length."""

    def __init__(self, length: int, ratio: float) -> None:
        self.length, self.ratio = length, ratio

    def __call__(self, lengths: Ints) -> Floats:
        return np.where(lengths == self.length, self.ratio, 1.0)


def growth(lengths: Ints) -> Floats:
    """A cache that is copied at every 256th token."""
    return np.where(lengths % 256 == 1, 3.0, 1.0)


def slow(ratio: float, first: int = 512, last: int = 624) -> dict[str, object]:
    """Budgets first to last are slow."""
    return {"by_budget": lambda prompt, budget: ratio if first <= budget <= last else 1.0}


def window(ratio: float, order: str = "shuffled") -> dict[str, object]:
    """A quarter of the run's time is slow, wherever it falls."""
    return {"window": (0.4, 0.65, ratio), "order": order}


# Each row: what is true, how it is made, the verdict that is right, and the kind that must be found and no other.
ROWS: tuple[tuple[str, dict[str, object], str, str], ...] = (
    ("nothing", {}, "smooth", ""),
    ("nothing, ascending", {"order": "ascending"}, "smooth", ""),
    ("length 421 at 1.3x", {"by_length": Spike(421, 1.3)}, "non-monotonic", "spike"),
    ("length 421 at 21x", {"by_length": Spike(421, 21.0)}, "non-monotonic", "spike"),
    ("budgets 512 to 624 at 10x", slow(10.0), "state", "state"),
    ("budgets 512 to 624 at 1.5x", slow(1.5), "state", "state"),
    ("a quarter of the time at 10x", window(10.0), "state", "state"),
    ("a quarter of the time at 1.5x", window(1.5), "state", "state"),
    ("the same at 10x, ascending", window(10.0, "ascending"), "unresolved", "state"),
    ("the same at 1.5x, ascending", window(1.5, "ascending"), "unresolved", "state"),
    ("a clock that sags by 10 %", {"sag": 0.1}, "smooth", "drift"),
    ("growth at every 256", {"by_length": growth, "cache": "chunked"}, "non-monotonic", "periodic"),
    ("first steps at 8x, 3x, 1.5x", {"cold": (8.0, 3.0, 1.5)}, "smooth", "first-visit"),
)


def judge(grid: str, made: dict[str, object], seed: int) -> Result:
    """The result of one seeded run."""
    return analyze_trajectories(run(Truth(budgets=GRIDS[grid], **made), seed))  # type: ignore[arg-type]


def main() -> None:
    """Print the table, and how long an analysis takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    print(f"{'truth':32}{'budgets':13}{'right':>8}  what was said instead")
    for name, made, verdict, kind in ROWS:
        for grid in GRIDS:
            said: Counter[str] = Counter()
            for seed in range(seeds):
                result = judge(grid, made, seed)
                kinds = sorted({finding.kind for finding in result.findings})
                said[f"{result.verdict}: {', '.join(kinds) or 'nothing'}"] += 1
            right = said.pop(f"{verdict}: {kind or 'nothing'}", 0)
            print(f"{name:32}{grid:13}{right:>4}/{seeds}  {'; '.join(f'{n} {what}' for what, n in said.items())}")
    large = run(Truth(budgets=GRIDS["480:656:16"], prompts=(3, 65)), 0)
    began = time.perf_counter()
    analyze_trajectories(large)
    print(f"12 budgets x 5 repeats x 2 prompts: analysed in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
