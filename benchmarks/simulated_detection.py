"""What is found through the whole instrument: real processes, the real timer, and a device with programmed latencies.

One run of `attn` for each fault; the findings are compared with what was programmed.

    python benchmarks/simulated_detection.py [--json]

Exit status 1 when a fault is not found exactly, or when anything else is found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

FAULTS = {  # program: findings it must give; a step's lengths are the last before and the first after
    "noise=2%": [],
    "421=1.15x,noise=2%": [("spike", [421, 421])],
    "421=1.3x,noise=2%": [("spike", [421, 421])],
    "421=21x,noise=2%": [("spike", [421, 421])],
    "421-422=1.3x,noise=2%": [("regime", [421, 422])],
    "440-446=1.3x,noise=2%": [("regime", [440, 446])],
    "430-469=1.3x,noise=2%": [("regime", [430, 469])],
    "380=1.3x,noise=2%": [("spike", [380, 380])],
    "530=1.3x,noise=2%": [("spike", [530, 530])],
    "470-=1.3x,noise=2%": [("step", [469, 470])],
    "450-=0.6x,noise=2%": [("step", [449, 450])],
    "first=8x,noise=2%": [("first-visit", [380, 530])],
    "drift=100%,noise=2%": [],
    "all=2x@0s-9s,noise=2%": None,  # a slow half of the run: whatever is said, no length may be blamed
}
BLAMING = ("spike", "regime", "comb", "periodic")


def measure(program: str) -> list[tuple[str, list[int]]]:
    """The findings of one run, those of the machine itself (slow first calls below the programmed 8x) left in."""
    with tempfile.TemporaryDirectory() as folder:
        small = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8"]
        out = ["-o", str(Path(folder) / "run.jsonl"), "--json"]
        command = [sys.executable, "-m", "pykvbench", "attn", "--backend", "simulated", "--len", "380:530"]
        done = subprocess.run(
            [*command, *small, "--simulate", program, *out], capture_output=True, text=True, check=True
        )
    return [(finding["kind"], finding["lengths"]) for finding in json.loads(done.stdout)["findings"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    rows = []
    for program, expected in FAULTS.items():
        found = measure(program)
        right = found == expected if expected is not None else not any(kind in BLAMING for kind, _ in found)
        rows.append({"program": program, "expected": expected, "found": found, "right": right})
        if not options.json:
            print(f"{'ok   ' if right else 'WRONG'} {program:<26} {found}", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
