"""Where the time of the main job goes, from the command to the verdict.

    python benchmarks/time_to_verdict.py [--backend cpu] [--len 380:530] [--json]

Warm-up and samples are the work; importing the framework five times is most of the rest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pykvbench import record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu", help="backend to run")
    parser.add_argument("--len", dest="lengths", default="380:530", help="lengths to measure")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        command = [sys.executable, "-m", "pykvbench", "attn", "--backend", options.backend, "--len", options.lengths]
        began = time.monotonic()
        done = subprocess.run([*command, "--json", "-o", str(path)], capture_output=True, text=True, check=True)
        wall_s = time.monotonic() - began
        run = record.read(path)
    visits = run.visits

    def events(name: str, key: str) -> float:
        return sum(float(event[key]) for event in run.events if event["event"] == name) / 1e9

    parts = {
        "import": events("imported", "took_ns"),
        "open": events("worker-started", "opened_ns"),
        "warm-up": events("warmed-up", "took_ns"),
        "samples": float(visits.first[:, 1].sum() + visits.second[:, 1].sum() + visits.total.sum()) / 1e9,
        "between visits": float(visits.gap.sum()) / 1e9,
    }
    parts["rest"] = wall_s - sum(parts.values())
    result = {
        "command": "attn --backend " + options.backend + " --len " + options.lengths,
        "verdict": json.loads(done.stdout)["verdict"],
        "wall_s": wall_s,
        "share_of_work": (parts["warm-up"] + parts["samples"]) / wall_s,
        "parts_s": parts,
    }
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{result['command']}: {result['verdict']} after {wall_s:.1f} s, {result['share_of_work']:.0%} of it work")
    for name, seconds in parts.items():
        print(f"  {name:<16}{seconds:>7.1f} s  {seconds / wall_s:>5.0%}")


if __name__ == "__main__":
    main()
