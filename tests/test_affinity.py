"""CPUs by choice: what is refused, and that every thread of a worker is held to them and the run says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykvbench import record
from pykvbench.errors import UsageError
from pykvbench.experiment.affinity import parse_cpus
from pykvbench.experiment.plan import Plan

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a program choose its CPUs")


@linux
def test_cpus_are_read_and_those_that_are_not_here_are_refused() -> None:
    here = sorted(os.sched_getaffinity(0))
    assert parse_cpus(f"{here[-1]},{here[0]},{here[0]}") == tuple(sorted({here[0], here[-1]}))
    with pytest.raises(UsageError, match=r"^--cpus 99999 is not available here; choose among [\d,]+\.$"):
        parse_cpus(f"{here[0]},99999")
    for text in ("", "a", "0-1", "0,", "-1"):
        with pytest.raises(UsageError, match=f"^--cpus {text} is not understood; write CPU numbers such as 0,1.$"):
            parse_cpus(text)


def test_systems_that_cannot_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with pytest.raises(UsageError) as caught:
        parse_cpus("0")
    assert str(caught.value) == "--cpus needs Linux; this system lets no program choose its CPUs, so leave it out."


@linux
def test_every_thread_is_held_even_those_started_before() -> None:
    cpu = min(os.sched_getaffinity(0))
    script = (
        "import os, threading, time; from pykvbench.experiment.affinity import pin\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        f"assert pin([{cpu}]) == [{cpu}]\n"
        "print([sorted(os.sched_getaffinity(int(thread))) for thread in os.listdir('/proc/self/task')][:2])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == f"[[{cpu}], [{cpu}]]\n"


@linux
def test_the_run_says_where_it_was_held(tmp_path: Path) -> None:
    path, cpu = tmp_path / "run.jsonl", min(os.sched_getaffinity(0))
    small = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0", "--len", "4:6"]
    command = [sys.executable, "-m", "pykvbench", "attn", "--backend", "simulated", *small, "--sweeps", "1"]
    subprocess.run([*command, "--cpus", str(cpu), "-o", str(path)], check=True, capture_output=True)
    run = record.read(path)
    assert Plan.from_header(run.header, run.cells).cpus == (cpu,)
    assert [event["cpus"] for event in run.events if event["event"] == "worker-started"] == [[cpu]]
