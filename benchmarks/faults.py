"""What is left of a run that is killed, that finds no room, or whose worker is stopped, at random moments.

    python benchmarks/faults.py [--count 200] [--seed 0] [--json]

Kills the parent or one of its workers with SIGKILL at random moments of small runs of `attn`, `decode` and `capacity`
on the simulated device; every tenth run meets a full disk (a limit on the file's size at a random byte) or a worker
that is stopped for a while instead. Then: no worker outlives its parent by more than 5 s; the run file loads without
damaged lines; a killed worker costs at most the visit in flight, and an event says so; `attn --resume` completes the
run, and the completed run has the plan of an undisturbed one and each of its visits once, in its place; a parent that
lives prints no traceback. Exit status 1 when any of this fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pykvbench import record
from pykvbench.record import Run

SMALL = ["--backend", "simulated", "--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0"]
COMMANDS = {
    "attn": ["--len", "400:430", "--sweeps", "2", "--samples", "3", "--no-attribute"],
    "decode": ["--budget", "20,30", "--prompt", "8", "--repeats", "2"],
    "capacity": ["--context", "16", "--concurrency", "1,2", "--repeats", "2"],
}
PROGRAM = """
import resource, sys
size = int(sys.argv.pop(1))
if size:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
from pykvbench.cli import main
main()
"""
OUTLIVES_S = 5.0
LOSSES = ("crashed", "hung", "failed", "out-of-memory")  # capacity takes SIGKILL for the system's, who lacks memory
VICTIMS = ("parent", "worker")


class Fault(Exception):
    """What a run did that it must not."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        whole, took = {}, {}
        for command in COMMANDS:
            began = time.monotonic()
            path = Path(folder) / f"{command}.jsonl"
            if started(command, path).wait() != 0:
                raise SystemExit(f"{command} does not run undisturbed.")
            whole[command], took[command] = record.read(path), time.monotonic() - began
        for seed in range(options.seed, options.seed + options.count):
            chance = random.Random(seed)
            command = chance.choice(("attn", "attn", "decode", "capacity"))
            what = "full disk" if seed % 20 == 9 else "stopped worker" if seed % 20 == 19 else chance.choice(VICTIMS)
            path = Path(folder) / f"{seed}.jsonl"
            try:
                disturb(command, what, path, chance, took[command], whole[command])
                outcomes[f"{command}, {what}"] += 1
            except Fault as fault:
                failed += 1
                print(f"{command}, {what}, --seed {seed} --count 1: {fault}", flush=True)
            path.unlink(missing_ok=True)
    if options.json:
        print(json.dumps({"runs": options.count, "failed": failed, "by": dict(sorted(outcomes.items()))}))
    else:
        print(f"{options.count - failed} of {options.count} disturbed runs kept what they promise:")
        print("\n".join(f"  {name}: {count}" for name, count in sorted(outcomes.items())))
    sys.exit(1 if failed else 0)


def started(command: str, path: Path, *extra: str, limit: int = 0) -> subprocess.Popen[str]:
    """The command, writing to `path`, not more than `limit` bytes if one is given."""
    whole = [command, *SMALL, *COMMANDS[command], *extra, "--json", "-o", str(path)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(limit), *whole],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def disturb(command: str, what: str, path: Path, chance: random.Random, took_s: float, whole: Run) -> None:
    """One run and what becomes of it; raises Fault."""
    limit = chance.randrange(100, 20_000) if what == "full disk" else 0
    process = started(command, path, limit=limit)
    # The first half of a run is start and import; kills are to fall on measuring.
    time.sleep(took_s * chance.uniform(0.2, 1.0))
    workers = children(process.pid)
    if what == "parent":
        process.kill()
    elif what != "full disk":
        with contextlib.suppress(IndexError, ProcessLookupError):
            victim = chance.choice(workers)
            os.kill(victim, signal.SIGKILL if what == "worker" else signal.SIGSTOP)
            if what == "stopped worker":
                time.sleep(1.0)
                os.kill(victim, signal.SIGCONT)
    try:
        _, said = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Fault("the parent does not end") from None
    if "Traceback" in said:
        raise Fault(f"a traceback: {said[-600:]}")
    if what != "parent" and process.returncode not in (0, 2, 3):
        raise Fault(f"exit status {process.returncode}: {said[-300:]}")
    outlived(workers)
    if not path.exists():
        return  # killed before there was a file, or the header did not fit
    checked(command, what, path, whole)


def checked(command: str, what: str, path: Path, whole: Run) -> None:
    """The file loads, lacks little, and can be completed."""
    if not path.read_bytes().count(b"\n"):
        return  # not even the header was written
    run = record.read(path)
    damaged = [note for note in run.notes if "damaged" in note]
    if damaged:
        raise Fault(f"lines before the last are damaged: {damaged}")
    if what == "worker" and run.end is None:
        raise Fault("the parent lived and wrote no end")
    if units(run) > units(whole):
        raise Fault(f"{units(run)} were measured of {units(whole)}")
    lost = [event for event in run.events if event["event"] in LOSSES]
    if what == "worker" and command == "attn" and units(whole) - units(run) > 1:
        raise Fault(f"a killed worker cost {units(whole) - units(run)} visits: {lost}")
    if what == "worker" and units(run) < units(whole) and not lost:
        raise Fault(f"something is missing and no event says why: {run.events[-2:]}, {run.end}")
    if what == "stopped worker" and units(run) < units(whole):
        raise Fault("a stopped worker lost something")
    if command != "attn":
        return
    done = subprocess.run(
        [sys.executable, "-m", "pykvbench", "attn", "--resume", str(path), "--no-attribute", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        raise Fault(f"it cannot be resumed: {done.stderr[-400:]}")
    run = record.read(path)
    if run.plan != whole.plan or run.cells != whole.cells:
        raise Fault("the completed run has another plan")
    if visits(run) != visits(whole):
        raise Fault("the completed run has not every visit of an undisturbed one once, in its place")
    if run.end is None or run.end["status"] != "complete":
        raise Fault(f"the completed run ends with {run.end}")


def units(run: Run) -> int:
    """How much was measured: visits, steps of trajectories, and servings."""
    return len(run.visits) + sum(one["complete"] for one in run.trajectories) + len(run.servings)


def visits(run: Run) -> list[tuple[int, ...]]:
    """Cell, sweep, length and place of every visit."""
    columns = (run.visits.cell, run.visits.sweep, run.visits.length, run.visits.order)
    return sorted(zip(*(column.tolist() for column in columns)))


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def outlived(workers: list[int]) -> None:
    """Raises Fault when one of them is still there after a while."""
    deadline = time.monotonic() + OUTLIVES_S
    while left := list(alive(workers)):
        if time.monotonic() > deadline:
            raise Fault(f"{len(left)} workers outlive their parent")
        time.sleep(0.05)


def alive(pids: list[int]) -> Iterator[int]:
    """Those that run, zombies left out."""
    for pid in pids:
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if found and not found.startswith("Z"):
            yield pid


if __name__ == "__main__":
    main()
