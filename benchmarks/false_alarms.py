"""Findings where there are none: pykvbench against an ascending sweep of medians, quiet and under bursty load.

Each run is one `attn` on torch's CPU backend; beside it, with the same number of calls at each length, one process that
goes through the lengths in ascending order and takes medians, as most scripts do. Its false spikes are lengths above
1.10x the cheapest longer one (after the 5-point running median that pykvbench uses too). The load is a second process
that computes and sleeps in turns of random duration.

    python benchmarks/false_alarms.py [--runs 20] [--len 380:530:5] [--json]

Exit status 1 when pykvbench confirms anything at 1.10x or more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LOAD = """
import random, time
import numpy as np
a = np.random.default_rng(0).standard_normal((400, 400))
while True:
    until = time.monotonic() + random.uniform(0.02, 0.6)
    while time.monotonic() < until:
        a @ a
    time.sleep(random.uniform(0.02, 0.6))
"""
ASCENDING = """
import json, sys
import numpy as np
from pykvbench import _timer
from pykvbench.cell import Cell
from pykvbench.drivers.opening import open_driver
from pykvbench.geometry import geometry
from pykvbench.lengths import parse_lengths

lengths, calls = parse_lengths(sys.argv[1]), int(sys.argv[2])
driver = open_driver(Cell("cpu", "manual", "prealloc", geometry("gpt2", num_layers=2)), lengths[-1] + 1, 0)
medians = []
for length in lengths:
    stamps = np.zeros((calls, 3), dtype=np.int64)
    _timer.run(driver.step, driver.sync, stamps, lambda: driver.reset(length - 1))
    medians.append(float(np.median(stamps[:, 2] - stamps[:, 0])))
curve = np.log(medians)
padded = np.concatenate([curve[2:0:-1], curve, curve[-2:-4:-1]])
smooth = np.array([np.median(padded[i : i + 5]) for i in range(len(curve))])
baseline = np.minimum.accumulate(smooth[::-1])[::-1]
print(json.dumps(np.exp(curve - baseline).tolist()))
"""


@contextlib.contextmanager
def load(bursty: bool) -> Iterator[None]:
    """A second process that takes a core in bursts, or nothing."""
    if not bursty:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", LOAD]) as process:
        try:
            yield
        finally:
            process.kill()


def pykvbench(lengths: str, seed: int) -> dict[str, object]:
    """One run's confirmed findings and verdict."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pykvbench", "attn", "--backend", "cpu", "--len", lengths, "--seed", str(seed)]
        out = ["--json", "-o", str(Path(folder) / "run.jsonl")]
        done = subprocess.run([*command, *out], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    confirmed = [
        (finding["kind"], finding["lengths"], finding["ratio"])
        for finding in document["findings"]
        if finding["confidence"] == "confirmed" and (finding["ratio"] or 9) >= 1.10
    ]
    return {"confirmed": confirmed, "verdict": document["verdict"], "limit": document["limit_of_detection"]}


def ascending(lengths: str) -> list[float]:
    """Excess of each length in one ascending sweep with as many calls at each length: 5 sweeps x (7 + 2)."""
    done = subprocess.run([sys.executable, "-c", ASCENDING, lengths, "45"], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="runs quiet, and as many under load")
    parser.add_argument("--len", dest="lengths", default="380:530:5", help="lengths to measure")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    rows = []
    for bursty in (False, True):
        for seed in range(options.runs):
            with load(bursty):
                ours, excess = pykvbench(options.lengths, seed), ascending(options.lengths)
            false = sum(ratio >= 1.10 for ratio in excess)
            rows.append(
                {"load": bursty, "seed": seed, **ours, "ascending_false": false, "ascending_worst": max(excess)}
            )
            if not options.json:
                print(json.dumps(rows[-1]), flush=True)
    summary = [
        {
            "load": "bursty" if bursty else "quiet",
            "runs": options.runs,
            "confirmed": sum(len(row["confirmed"]) for row in rows if row["load"] == bursty),
            "verdicts": {
                verdict: sum(row["verdict"] == verdict for row in rows if row["load"] == bursty)
                for verdict in ("smooth", "unresolved", "non-monotonic")
            },
            "ascending_false": sum(row["ascending_false"] for row in rows if row["load"] == bursty),
            "ascending_runs_with_any": sum(row["ascending_false"] > 0 for row in rows if row["load"] == bursty),
            "ascending_worst": max(row["ascending_worst"] for row in rows if row["load"] == bursty),
        }
        for bursty in (False, True)
    ]
    if options.json:
        print(json.dumps({"lengths": options.lengths, "summary": summary, "runs": rows}, indent=1))
    else:
        print(
            f"\n{'load':<8}{'runs':>5}{'confirmed':>11}{'smooth':>8}{'unresolved':>12}"
            "   ascending: false spikes, runs with any, worst"
        )
        for row in summary:
            print(
                f"{row['load']:<8}{row['runs']:>5}{row['confirmed']:>11}{row['verdicts']['smooth']:>8}"
                f"{row['verdicts']['unresolved']:>12}   {row['ascending_false']}, {row['ascending_runs_with_any']}, "
                f"{row['ascending_worst']:.2f}x"
            )
    return 1 if any(row["confirmed"] for row in summary) else 0


if __name__ == "__main__":
    sys.exit(main())
