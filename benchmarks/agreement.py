"""Do the steps of a growing trajectory cost what isolated visits to the same lengths cost?

One `attn` and one `decode --body attention` of the same cell; at every length measured by both, the median over sweeps
and the median over trajectories, with the range of the middle half of each.

    python benchmarks/agreement.py [--backend cpu] [--cache prealloc] [--json]

Exit status 1 when the middle halves overlap at fewer than nine in ten lengths.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from pykvbench import record

PROMPT, BUDGET, LENGTHS = 65, 256, "80:320:8"


def run(command: str, path: Path, *options: str) -> record.Run:
    """One run of pykvbench, read back."""
    words = [sys.executable, "-m", "pykvbench", command, *options, "--json", "-o", str(path)]
    subprocess.run(words, capture_output=True, check=True)
    return record.read(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cpu", help="backend to run")
    parser.add_argument("--cache", default="prealloc", help="cache policy of both")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    cell = ["--backend", options.backend, "--cache", options.cache]
    with tempfile.TemporaryDirectory() as folder:
        visits = run("attn", Path(folder) / "attn.jsonl", *cell, "--len", LENGTHS).visits
        generation = ["--prompt", str(PROMPT), "--budget", str(BUDGET)]
        trajectories = run("decode", Path(folder) / "decode.jsonl", *cell, *generation).trajectories
    steps = np.array([trajectory["total"] for trajectory in trajectories])
    rows = []
    for length in np.unique(visits.length):
        isolated = np.quantile(visits.total[visits.length == length], (0.25, 0.5, 0.75))
        column = int(length) - PROMPT - 1
        growing = np.quantile(steps[:, max(0, column - 2) : column + 3], (0.25, 0.5, 0.75))  # 2 steps to either side
        rows.append(
            {
                "length": int(length),
                "attn_us": isolated[1] / 1e3,
                "decode_us": growing[1] / 1e3,
                "ratio": growing[1] / isolated[1],
                "overlap": bool(growing[0] <= isolated[2] and isolated[0] <= growing[2]),
            }
        )
    share = sum(row["overlap"] for row in rows) / len(rows)
    ratio = float(np.median([row["ratio"] for row in rows]))
    if options.json:
        print(json.dumps({"share_overlapping": share, "median_ratio": ratio, "rows": rows}, indent=1))
    else:
        print(f"{'length':>7}{'attn us':>10}{'decode us':>11}{'ratio':>8}  middle halves overlap")
        for row in rows:
            yes = "yes" if row["overlap"] else "no"
            print(f"{row['length']:>7}{row['attn_us']:>10.0f}{row['decode_us']:>11.0f}{row['ratio']:>8.2f}  {yes}")
        print(f"overlap at {share:.0%} of {len(rows)} lengths, decode over attn {ratio:.3f} at the median")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
