"""The whole path in real processes, on the simulated device: what is programmed is what is found."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pykvbench import record

ROOM = 16_000  # bytes: a header and some visits or trajectories
SMALL = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0"]


def attn(*options: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pykvbench", "attn", "--backend", "simulated", "--no-attribute", *SMALL, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return dict(json.loads(done.stdout))


def found(result: dict[str, Any]) -> list[tuple[str, list[int]]]:
    return [(finding["kind"], finding["lengths"]) for finding in result["findings"]]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("noise=1%", []),
        ("421=21x,noise=2%", [("spike", [421, 421])]),
        ("421=1.3x,noise=1%", [("spike", [421, 421])]),
        ("400=2x,noise=2%", [("spike", [400, 400])]),
        ("440=2x,noise=2%", [("spike", [440, 440])]),
        ("410-416=1.5x,noise=2%", [("regime", [410, 416])]),
        ("host:421=3x,noise=2%", [("spike", [421, 421])]),
    ],
)
def test_what_is_programmed_is_found_at_exactly_those_lengths(
    tmp_path: Path, program: str, expected: list[Any]
) -> None:
    done = attn(
        "--len", "400:440", "--simulate", program, "--samples", "5", "--json", "-o", str(tmp_path / "run.jsonl")
    )
    assert done.returncode == 0, done.stderr
    result = document(done)
    spikes = [finding for finding in result["findings"] if finding["kind"] != "first-visit"]  # a busy machine has those
    assert found({"findings": spikes}) == expected
    assert result["verdict"] == ("non-monotonic" if expected else "smooth")
    assert all(finding["votes"] == "5/5" and finding["confidence"] == "confirmed" for finding in spikes)


def test_first_visits_are_not_spikes(tmp_path: Path) -> None:
    out = str(tmp_path / "run.jsonl")
    result = document(attn("--len", "400:430", "--simulate", "first=8x,noise=2%", "--json", "-o", out))
    assert found(result) == [("first-visit", [400, 430])]
    assert result["verdict"] == "smooth"


def test_a_crash_a_hang_and_running_out_of_memory_cost_one_visit_each(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = "crash=403,hang=407,oom=410,error=412,wrong=414"
    done = attn("--len", "400:416", "--simulate", program, "--sweeps", "3", "--timeout", "1", "--json", "-o", str(path))
    assert done.returncode == 3
    run = record.read(path)
    lost = {403: "crashed", 407: "hung", 410: "out-of-memory", 412: "failed"}
    for sweep in range(3):
        measured = set(run.visits.length[run.visits.sweep == sweep].tolist())
        assert measured == set(range(400, 417)) - lost.keys()
    told = {(event["length"], event["event"]) for event in run.events if event.get("length")}
    assert told == set(lost.items())
    assert {event["detail"] for event in run.events if event["event"] == "crashed"} == {"SIGABRT"}
    assert run.end is not None and run.end["status"] == "incomplete"
    result = document(done)
    assert ("wrong-result", [414, 414]) in found(result)
    assert "visits were lost at L = 403, L = 407, L = 410, L = 412." in " ".join(result["notes"])
    assert "Finish it with: pykvbench attn --resume" in done.stderr


def test_a_cell_that_never_starts_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    done = attn("--len", "400:409", "--simulate", "crash=399", "--sweeps", "1", "--json", "-o", str(path))
    assert done.returncode == 3
    assert document(done)["verdict"] == "unresolved"
    assert [event["event"] for event in record.read(path).events][-1] == "given-up"


def test_a_killed_run_is_read_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    command = [
        sys.executable,
        "-m",
        "pykvbench",
        "attn",
        "--backend",
        "simulated",
        *SMALL,
        "--len",
        "400:420",
        "--sweeps",
        "3",
        "-o",
        str(path),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        _wait_for_visits(path, 5)
        worker = _workers_of(parent.pid)
        parent.kill()
    killed = record.read(path)
    assert killed.end is None
    assert 5 <= len(killed.visits) < 63
    assert _gone(worker)
    done = attn("--resume", str(path), "--json")
    assert done.returncode == 0, done.stderr
    run = record.read(path)
    places = list(zip(run.visits.sweep.tolist(), run.visits.length.tolist()))
    assert sorted(places) == [(sweep, length) for sweep in range(3) for length in range(400, 421)]
    assert run.end is not None and run.end["status"] == "complete"


def test_an_interrupt_keeps_and_analyses_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    command = [
        sys.executable,
        "-m",
        "pykvbench",
        "attn",
        "--backend",
        "simulated",
        *SMALL,
        "--len",
        "400:420",
        "--json",
        "-o",
        str(path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        _wait_for_visits(path, 5)
        worker = _workers_of(parent.pid)
        parent.send_signal(signal.SIGINT)
        out, err = parent.communicate(timeout=30)
    assert parent.returncode == 3
    assert json.loads(out)["schema"] == 1
    assert "The run is interrupted; what was measured is in" in err
    assert "Traceback" not in err
    assert _gone(worker)
    run = record.read(path)
    assert run.end is not None and run.end["status"] == "interrupted"


@pytest.mark.parametrize("command", ["attn", "decode"])
def test_a_full_disk_ends_the_run_and_what_was_measured_is_analysed(tmp_path: Path, command: str) -> None:
    path = tmp_path / "run.jsonl"
    what = ["--len", "400:440", "--sweeps", "3"] if command == "attn" else ["--budget", "300", "--prompt", "9"]
    options = ["--backend", "simulated", *SMALL, *what, "--json", "-o", str(path)]
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({ROOM}, {ROOM})); "
    program = limited + "from pykvbench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, command, *options], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3, done.stderr
    assert f"The run is cut short (File too large); what was measured is in {path}." in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["verdict"] == "unresolved"
    run = record.read(path)
    assert len(run.visits) + len(run.trajectories) > 0


def test_cells_are_interleaved_and_every_sweep_is_a_fresh_process(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    done = attn("--len", "400:402", "--kernel", "manual,fused", "--sweeps", "2", "--json", "-o", str(path))
    assert done.returncode == 0, done.stderr
    started = [
        (event["cell"], event["sweep"], event["process"])
        for event in record.read(path).events
        if event["event"] == "worker-started"
    ]
    assert started == [(0, 0, 1), (1, 0, 2), (1, 1, 3), (0, 1, 4)]
    assert [cell["cell"] for cell in document(done)["cells"]] == [
        "simulated manual prealloc float32",
        "simulated fused prealloc float32",
    ]


def test_extra_work_injected_into_the_real_cpu_driver_is_found_at_exactly_its_length(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    options = [
        "--len",
        "400:430",
        "--num-layers",
        "2",
        "--inject",
        "421:4x",
        "--no-attribute",
        "--warmup",
        "0",
        "--json",
        "-o",
        str(path),
    ]
    command = [sys.executable, "-m", "pykvbench", "attn", "--backend", "cpu", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    confirmed = [finding for finding in document(done)["findings"] if finding["confidence"] == "confirmed"]
    assert [finding["lengths"] for finding in confirmed if finding["kind"] == "spike"] == [[421, 421]]
    assert "Extra work was injected on purpose at 421:4x" in " ".join(document(done)["notes"])
    assert record.read(path).plan["inject"] == ["421:4x"]


def test_nothing_in_a_run_file_tells_whose_machine_it_was(tmp_path: Path) -> None:
    path = tmp_path / "secret-folder" / "run.jsonl"
    attn("--len", "400:402", "--sweeps", "1", "-o", str(path))
    text = path.read_text()
    for secret in ("secret-folder", str(tmp_path), os.uname().nodename, str(Path.home())):
        assert secret not in text


def _wait_for_visits(path: Path, count: int) -> None:
    for _ in range(600):
        if path.exists() and path.read_bytes().count(b'"visit"') >= count:
            return
        time.sleep(0.05)
    raise AssertionError("no visits")


def _workers_of(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True)
    workers = [int(pid) for pid in listed.stdout.split()]
    assert workers
    return workers


def _gone(workers: list[int]) -> bool:
    """Whether the processes ended soon after their parent."""
    for _ in range(200):
        if not any(_alive(pid) for pid in workers):
            return True
        time.sleep(0.05)
    return False


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
