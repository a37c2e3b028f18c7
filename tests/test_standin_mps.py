"""`attn --backend mps` from the command to the verdict, with torch's MPS device replaced by a stand-in.

What a Mac would have to do wrong on request: tests/standin/standin_mps.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pykvbench import record
from pykvbench.record import Run

HERE = Path(__file__).parent
SMALL = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "64", "--warmup", "0", "--samples", "5"]
# What a Mac's own tools print, from tests/samples.
TOOLS = {"sw_vers": "sw_vers.txt", "sysctl": "sysctl_m3_pro.txt", "ioreg": "ioreg_agx.txt"}


def attn(tmp_path: Path, program: dict[str, Any], *options: str, status: int = 0) -> tuple[dict[str, Any], Run, str]:
    """Run it on the stand-in; returns the JSON document, the run file read, and what stood on stderr."""
    processes, tools, out = tmp_path / "processes", tmp_path / "tools", tmp_path / "run.jsonl"
    processes.mkdir()
    tools.mkdir()
    for tool, sample in TOOLS.items():
        (tools / tool).write_text(f"#!/bin/sh\ncat {HERE / 'samples' / sample}\n")
        (tools / tool).chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")},
        "PYTHONPATH": str(HERE / "standin"),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "STANDIN_MPS": json.dumps(program),
        "STANDIN_FOLDER": str(processes),
    }
    command = [sys.executable, "-m", "pykvbench", "attn", "--backend", "mps", *SMALL, "--json", "-o", str(out)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, env=environment, timeout=200)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout), record.read(out), done.stderr


def found(result: dict[str, Any]) -> list[tuple[str, list[int], str | None]]:
    return [(finding["kind"], finding["lengths"], finding["votes"]) for finding in result["findings"]]


def test_a_slow_mode_in_two_of_five_processes_is_intermittent(tmp_path: Path) -> None:
    slow = {"processes": [1, 3], "ratio": 1.6}
    result, run, _ = attn(tmp_path, {"slow": slow}, "--len", "400:412")
    assert found(result) == [("intermittent", [400, 412], "2/5")]
    finding = result["findings"][0]
    assert finding["ratio"] == pytest.approx(1.6, abs=0.15)
    assert finding["note"].startswith("2 of 5 processes cost 1.")
    assert result["verdict"] == "unresolved"
    started = [event["describe"] for event in run.events if event["event"] == "worker-started"]
    assert [(said["device"], said["device_name"], said["gpu_cores"]) for said in started] == [
        ("mps", "a stand-in on the CPU", 10)
    ] * 5
    assert (run.header["machine"]["os"], run.header["machine"]["cpu"]) == ("macOS", "Apple M3 Pro")
    predicted = next(event for event in run.events if event["event"] == "predicted")
    assert predicted["routes"].keys() == {"400", "412"}


@pytest.mark.slow
def test_a_slow_mode_at_some_lengths_in_two_of_five_processes_is_intermittent(tmp_path: Path) -> None:
    slow = {"processes": [0, 4], "ratio": 3, "lengths": [405, 416]}
    result, _, _ = attn(tmp_path, {"slow": slow}, "--len", "400:439")
    assert found(result) == [("intermittent", [405, 416], "2/5")]
    assert result["verdict"] == "unresolved"


def test_compiling_at_every_new_length_is_a_first_visit_and_not_a_spike(tmp_path: Path) -> None:
    program = {"first": 10, "grow": 65_536}
    result, run, _ = attn(tmp_path, program, "--len", "400:412", "--sweeps", "3", "--kernel", "fused")
    assert found(result) == [("first-visit", [400, 412], "3/3"), ("memory-growth", [400, 412], "3/3")]
    assert result["findings"][0]["ratio"] == pytest.approx(10, rel=0.2)
    assert "the memory the driver holds grows by 64 KiB at each new length" in result["findings"][1]["note"]
    assert result["verdict"] in ("smooth", "unresolved")  # which of them is for this machine's noise to say
    assert set(run.visits.memory["live"]) == {1 << 20}


def test_an_abort_costs_one_visit_and_a_hang_ends_by_timeout(tmp_path: Path) -> None:
    program = {"abort": 403, "hang": 406}
    options = ("--len", "400:409", "--sweeps", "1", "--timeout", "1.5", "--cache", "concat")
    result, run, stderr = attn(tmp_path, program, *options, status=3)
    assert sorted(run.visits.length) == [400, 401, 402, 404, 405, 407, 408, 409]
    lost = [(e["event"], e["length"], e["detail"]) for e in run.events if e["event"] in ("crashed", "hung")]
    assert sorted(lost) == [("crashed", 403, "SIGABRT"), ("hung", 406, "no answer within 1.5 s")]
    assert run.visits.correct.all()
    assert "mps manual concat float32: visits were lost at L = 403, L = 406." in result["notes"]
    assert (result["verdict"], found(result)) == ("unresolved", [])
    assert "Finish it with: pykvbench attn --resume" in stderr


WRONG = [
    ("manual", "over-read", "is not a number"),
    pytest.param("fused", "transposed", "is off by", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kernel", "how", "words"), WRONG)
def test_a_wrong_result_is_reported_and_never_a_fast_time(tmp_path: Path, kernel: str, how: str, words: str) -> None:
    wrong = {"length": 406, "how": how, "ratio": 0.2}
    result, run, _ = attn(tmp_path, {"wrong": wrong}, "--len", "400:409", "--sweeps", "3", "--kernel", kernel)
    assert found(result) == [("wrong-result", [406, 406], "3/3")]
    finding = result["findings"][0]
    assert finding["note"].startswith(f"The output at L = 406 {words}")
    assert finding["note"].endswith("its times are of wrong work and are left out.")
    assert finding["ratio"] is None
    assert result["verdict"] == "unresolved"
    assert set(run.visits.length[~run.visits.correct]) == {406}
    times = np.median(run.visits.total, axis=1)
    assert times[~run.visits.correct].max() < times[run.visits.correct].min()  # wrong work is done soonest
