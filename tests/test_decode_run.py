"""decode in real processes on the simulated device: what is programmed is what is found."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pykvbench import record

SMALL = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0", "--prompt", "9"]
STEADY = "base=300us,slope=0ns,noise=1%"


def decode(*options: str, backend: str = "simulated") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pykvbench", "decode", "--backend", backend, *SMALL, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def kinds(result: dict[str, Any]) -> set[str]:
    return {finding["kind"] for finding in result["findings"]}


def test_a_slow_budget_is_a_state_and_the_contains_test_is_quoted(tmp_path: Path) -> None:
    options = ["--budget", "32:160:32", "--simulate", f"{STEADY},budget:64-96=3x", "--json"]
    result = document(decode(*options, "-o", str(tmp_path / "run.jsonl")))
    assert result["verdict"] == "state"
    (state,) = [finding for finding in result["findings"] if finding["kind"] == "state"]
    assert state["lengths"] == [64, 96]
    assert "although the 128-token run contains every step of the 96-token run: not a per-length cost" in state["note"]


def test_a_slow_length_is_non_monotonic_in_every_budget(tmp_path: Path) -> None:
    # A busy host costs the step after a slow one some 50 us: at 1 ms a step that is no excess of its own.
    options = ["--budget", "32:160:32", "--simulate", f"{STEADY},base=1ms,30=5x", "--json"]
    result = document(decode(*options, "-o", str(tmp_path / "run.jsonl")))
    assert result["verdict"] == "non-monotonic"
    assert [finding["lengths"] for finding in result["findings"] if finding["kind"] == "spike"] == [[30, 30]]


def test_every_step_is_kept_with_its_memory_and_the_table_is_drawn(tmp_path: Path) -> None:
    path, picture = tmp_path / "run.jsonl", tmp_path / "run.png"
    done = decode("--budget", "4:8:4", "--repeats", "2", "-o", str(path), backend="cpu")
    assert done.returncode == 0, done.stderr
    assert "budgets 4, 8 after prompts of 9, 2 repeats, shuffled order, fresh process each" in " ".join(
        done.stdout.split()
    )
    run = record.read(path)
    assert sorted(len(trajectory["total"]) for trajectory in run.trajectories) == [4, 4, 8, 8]
    for trajectory in run.trajectories:
        assert trajectory["complete"] and trajectory["correct"]
        assert (
            len(trajectory["dispatch"])
            == len(trajectory["gap"])
            == len(trajectory["memory"]["rss"])
            == trajectory["budget"]
        )
        assert [value is not None for value in trajectory["memory"]["rss"]] == [
            step in (0, trajectory["budget"] - 1) for step in range(trajectory["budget"])
        ]
        assert all(0 < dispatch <= total for dispatch, total in zip(trajectory["dispatch"], trajectory["total"]))
    drawn = subprocess.run(
        [sys.executable, "-m", "pykvbench", "plot", str(path), "-o", str(picture)], capture_output=True
    )
    assert drawn.returncode == 0, drawn.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("fault", "event"), [("crash=20", "crashed"), ("hang=20", "hung"), ("error=20", "failed")])
def test_a_trajectory_that_dies_keeps_its_steps(tmp_path: Path, fault: str, event: str) -> None:
    path = tmp_path / "run.jsonl"
    done = decode("--budget", "16", "--repeats", "1", "--timeout", "1", "--simulate", fault, "-o", str(path))
    assert done.returncode == 3
    run = record.read(path)
    (trajectory,) = run.trajectories
    assert len(trajectory["total"]) == 10  # steps 10 to 19 are done, 20 is not
    assert trajectory["complete"] is False
    (told,) = [line for line in run.events if line["event"] == event]
    assert (told["prompt"], told["budget"]) == (9, 16)


def test_a_shared_process_decodes_everything_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    options = ["--budget", "4:8:4", "--repeats", "3", "--history", "shared", "--order", "ascending", "--json"]
    document(decode(*options, "-o", str(path)))
    run = record.read(path)
    assert [trajectory["budget"] for trajectory in run.trajectories] == [4, 4, 4, 8, 8, 8]
    assert {trajectory["process"] for trajectory in run.trajectories} == {1}
    assert [trajectory["place"] for trajectory in run.trajectories] == [3, 4, 5, 9, 10, 11]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "0"], "--budget 0 contains 0; the smallest value is 1, such as 1:10."),
        (["--prompt", "0"], "--prompt 0 contains 0; the smallest value is 1, such as 1:10."),
        (
            ["--body", "model", "--budget", "2000"],
            "--prompt 9 and --budget 2000 need 2009 positions and gpt2 has 1024; lower one of them.",
        ),
        (["--model", "gpt9"], "--model gpt9 is unknown; choose one of distilgpt2"),
    ],
)
def test_bad_input_is_one_sentence(options: list[str], message: str) -> None:
    done = decode(*options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {message}")
    assert done.stderr.count("\n") == 1
