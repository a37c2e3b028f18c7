"""What pykvbench claims of restoring KV: reads as fast as dd's, speed-ups that grow, break-even lengths that hold.

    python benchmarks/reuse.py [--folder FOLDER] [--size MIB] [--rounds N] [--backend cpu] [--len 128,512,2048]

First a file of K and V is written to FOLDER, which must be on a disk, and read by pykvbench and by dd with the same
flags in turn, the page cache dropped before each. Then `pykvbench reuse` runs, and what it says is held against what
must be true: every output that of the saved KV, the speed-up larger at each longer prompt, and a speed-up below 1 on
one side of each break-even length that it calls confirmed and above 1 on the other, in every process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench import _timer, kvfile, pagecache
from pykvbench.geometry import Geometry
from pykvbench.kvfile import Label

SHARE = 0.8  # of dd's bandwidth
REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    parser.add_argument("--size", type=int, default=256, help="MiB of the file")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--len", dest="lengths", default="128,512,2048")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        read(Path(folder), options.size, options.rounds)
        sys.stdout.write("\n")
        restore(Path(folder), options.backend, options.lengths)


def read(folder: Path, size: int, rounds: int) -> None:
    """Read one file with pykvbench and with dd, in turn and in an order drawn anew each round."""
    label = Label("", "attention", Geometry(1, 8, 8, 8, 64, "float16"), size * 64, 0)
    rng = np.random.default_rng(0)
    rows = [tuple(rng.integers(0, 1 << 15, (1, 8, size * 64, 64), np.uint16).view(np.float16) for _ in "kv")] * 8
    path = folder / "kv.safetensors"
    began = _timer.now_ns()
    kvfile.write(path, rows, label)  # type: ignore[arg-type]
    wrote = _timer.now_ns() - began
    whole = path.stat().st_size
    ours: list[float] = []
    theirs: list[float] = []
    memory = pagecache.room(whole)  # as dd's buffer is made before it reads
    stored = kvfile.read(path, label, memory)
    for _ in range(rounds):
        for own in rng.permutation([True, False]).tolist():
            if own:
                stored = kvfile.read(path, label, memory)
                ours.append(whole / stored.read_ns)
            else:
                theirs.append(dd(path, stored.how))
    ratios = np.divide(ours, theirs)
    cold = "past the page cache" if stored.cold else "PERHAPS FROM MEMORY: choose a --folder on a disk"
    sys.stdout.write(f"{whole / 2**20:.0f} MiB, {rounds} rounds, read with {stored.how}, {cold}\n")
    for name, values in (("pykvbench", ours), ("dd", theirs)):
        sys.stdout.write(f"  {name:10} {np.median(values):6.3f} GB/s ({min(values):.3f} to {max(values):.3f})\n")
    share = float(np.median(ours) / np.median(theirs))
    sys.stdout.write(
        f"  of dd's    {share:6.0%}, round by round {min(ratios):.0%} to {max(ratios):.0%}: "
        f"{'at least' if share >= SHARE else 'BELOW'} {SHARE:.0%}\n"
        f"  checking   {whole / stored.check_ns:6.3f} GB/s, writing and flushing {whole / wrote:.3f} GB/s\n"
    )


def dd(path: Path, how: str) -> float:
    """dd's bytes a ns by our clock, with the flags and the block of our own reading."""
    pagecache.drop(path)
    flags = ["iflag=direct"] if how == "O_DIRECT" else []
    began = _timer.now_ns()
    subprocess.run(
        ["dd", f"if={path}", "of=/dev/null", f"bs={pagecache.BLOCK}", *flags], check=True, capture_output=True
    )
    return path.stat().st_size / (_timer.now_ns() - began)


def restore(folder: Path, backend: str, lengths: str) -> None:
    """Run the command, print its page, and hold it against what must be true."""
    run = folder / "run.jsonl"
    command = [sys.executable, "-m", "pykvbench"]
    asked = ["reuse", "--backend", backend, "--len", lengths, "--repeats", str(REPEATS), "-o", str(run)]
    sys.stdout.write(subprocess.run([*command, *asked], check=True, stdout=subprocess.PIPE, text=True).stdout)
    said = subprocess.run([*command, "analyze", str(run), "--json"], check=True, stdout=subprocess.PIPE, text=True)
    document = json.loads(said.stdout)
    sys.stdout.write("\n")
    for cell in document["reuse"]["cells"]:
        for tier in ("device", "host", "disk"):
            judge(cell, tier)
    sys.stdout.write(f"wrong results: {len(document['findings'])}\n")


def judge(cell: dict[str, Any], tier: str) -> None:
    """Whether the speed-up grows with the lengths asked for, and whether the break-even length holds."""
    rows = [row for row in cell["rows"] if row["tier"] == tier and not row["searched"]]
    gains = [row["speedup"]["median"] for row in rows]
    grows = all(longer > shorter for shorter, longer in zip(gains, gains[1:]))
    listed = ", ".join(f"{gain:.2f}x at {row['length']}" for gain, row in zip(gains, rows))
    sys.stdout.write(f"{tier}: {listed}: the speed-up {'grows' if grows else 'DOES NOT GROW'} with the length\n")
    found = next(value for value in cell["break_even"] if value["tier"] == tier)
    if found["found"] != "confirmed":
        sys.stdout.write(f"{tier}: break-even {found['found']}, not confirmed\n")
        return
    below, above = found["below"], found["above"]
    holds = below["speedup"]["high"] < 1 < above["speedup"]["low"]
    sys.stdout.write(
        f"{tier}: break-even {found['length']:.0f}, at most {below['speedup']['high']:.2f}x at {below['length']} and "
        f"at least {above['speedup']['low']:.2f}x at {above['length']} in {REPEATS} processes: "
        f"{'confirmed' if holds else 'NOT CONFIRMED'}\n"
    )


if __name__ == "__main__":
    main()
