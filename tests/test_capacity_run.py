"""capacity in real processes on the simulated device: what is written, what is said, and what ends in a sentence."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pykvbench import record
from pykvbench.cell import Cell
from pykvbench.cli import main
from pykvbench.drivers.opening import open_sequences
from pykvbench.experiment import capacity_run, serving
from pykvbench.experiment.capacity_plan import CapacityPlan
from pykvbench.geometry import Geometry

SHAPE = Geometry(1, 1, 1, 1, 8, "float32")
SMALL = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0"]
FAST = "base=20us,slope=0ns,noise=0%"


def pykvbench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pykvbench", *words], capture_output=True, text=True, timeout=200)


def capacity(*options: str, backend: str = "simulated") -> subprocess.CompletedProcess[str]:
    return pykvbench("capacity", "--backend", backend, *SMALL, *options)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One run in which one of three sequences does not fit, under two policies."""
    path = tmp_path_factory.mktemp("capacity") / "run.jsonl"
    options = ["--context", "20", "--concurrency", "1,3", "--tokens", "10", "--budget", "4KiB", "--repeats", "2"]
    done = capacity(*options, "--policy", "reject,spill-disk", "--simulate", FAST, "--json", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert "4 loads x 2 repeats" in done.stderr  # said before it starts
    return path, json.loads(done.stdout)


def test_a_line_for_every_load_and_policy_and_repeat(measured: tuple[Path, dict[str, Any]]) -> None:
    path, _ = measured
    run = record.read(path)
    assert run.notes == ()
    assert run.end is not None and run.end["status"] == "complete" and run.end["servings"] == 8
    told = sorted((line["concurrency"], line["policy"], line["repeat"]) for line in run.servings)
    loads = [(1, "none"), (3, "none"), (3, "reject"), (3, "spill-disk")]
    assert told == [(*load, repeat) for load in loads for repeat in range(2)]
    assert len({line["process"] for line in run.servings}) == 8  # a fresh one each
    assert list(path.parent.iterdir()) == [path]  # what was spilled is gone


def test_no_policy_but_reject_loses_a_token_and_outputs_are_those_without_a_limit(
    measured: tuple[Path, dict[str, Any]],
) -> None:
    run = record.read(measured[0])
    (free, *_) = [line for line in run.servings if (line["concurrency"], line["policy"]) == (3, "none")]
    for line in run.servings:
        assert [len(done) for done in line["done"]] == (
            [10, 10, 0] if line["policy"] == "reject" else [10] * line["concurrency"]
        )
        for number, digest in enumerate(line["outputs"]):
            assert number in line["rejected"] or digest == free["outputs"][number]
        assert line["held"] <= 4096 or line["policy"] == "none"
    assert {len(line["alone"]) for line in run.servings if line["concurrency"] == 3} == {1, 3}  # all in one repeat


def test_the_document_has_the_table(measured: tuple[Path, dict[str, Any]]) -> None:
    _, document = measured
    assert {"schema", "verdict", "findings", "limit_of_detection", "smallest_p", "notes", "capacity"} <= set(document)
    (table,) = document["capacity"]
    assert [(row["concurrency"], row["policy"], row["rejected"]) for row in table["rows"]] == [
        (1, "none", 0),
        (3, "none", 0),
        (3, "reject", 1),
        (3, "spill-disk", 0),
    ]
    assert [row["needed"] for row in table["rows"]] == [31 * 64, 3 * 31 * 64, 3 * 31 * 64, 3 * 31 * 64]
    assert [row["more_sequences"] for row in table["rows"]] == [1, 0, 0, 0]


def test_analyze_plot_and_compare_take_the_run(measured: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, _ = measured
    said = pykvbench("analyze", str(path))
    assert said.returncode == 0, said.stderr
    words = " ".join(said.stdout.split())
    assert "1, 3 sequences of 20 tokens, each due 10 more, served round-robin; a budget of 4 KiB" in words
    assert "The budget of 4.00 KiB holds 2 sequences of 20 tokens and those they are due." in words
    picture = tmp_path / "run.png"
    assert pykvbench("plot", str(path), "-o", str(picture)).returncode == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    other = tmp_path / "other.jsonl"
    other.write_bytes(path.read_bytes())
    compared = pykvbench("compare", str(path), str(other))
    assert compared.returncode == 0, compared.stderr
    assert "2 sweeps cannot tell a difference from noise" in compared.stdout


def test_running_out_of_memory_is_a_result_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    options = ["--context", "8,20", "--concurrency", "2", "--tokens", "3", "--repeats", "2", "-o", str(path)]
    done = capacity(*options, "--simulate", f"{FAST},oom=10")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.split()[:2] == ["8", "2"])
    assert row.endswith("out of memory")
    run = record.read(path)
    assert {line["context"] for line in run.servings} == {20}
    (event,) = [event for event in run.events if event["event"] == "out-of-memory"]  # not tried a second time
    assert (event["context"], event["concurrency"], event["policy"]) == (8, 2, "none")


def test_a_load_beyond_the_device_is_not_tried_and_one_beyond_the_budget_does_not_fit(tmp_path: Path) -> None:
    one = 64 * (20 + 3 + 1)
    plan = CapacityPlan(
        cells=(Cell("simulated", "manual", "prealloc", SHAPE),),
        contexts=(20, 200),
        concurrencies=(1, 2),
        allocators=("simulated",),
        memory=(204 * 64 + one,),
        budget=one,
        policies=("queue",),
        tokens=3,
        repeats=1,
        warmup_s=0,
        simulate=FAST,
    )
    path = tmp_path / "run.jsonl"
    assert capacity_run.start(plan, path, [], {}, lambda progress: None) == "complete"
    told = [
        (e["event"], e["context"], e["concurrency"], e["policy"]) for e in record.read(path).events if "detail" in e
    ]
    assert sorted(told) == [
        ("does-not-fit", 200, 1, "queue"),
        ("does-not-fit", 200, 2, "queue"),
        ("out-of-memory", 200, 2, "none"),
    ]


def test_a_process_that_dies_otherwise_leaves_the_run_incomplete(tmp_path: Path) -> None:
    options = ["--context", "8,20", "--concurrency", "1", "--tokens", "3", "--repeats", "1"]
    done = capacity(*options, "--simulate", f"{FAST},crash=10", "-o", str(tmp_path / "run.jsonl"))
    assert done.returncode == 3
    assert "The run is incomplete; what was measured is in " in done.stderr
    assert next(line for line in done.stdout.splitlines() if line.split()[:1] == ["8"]).endswith("not measured")


def test_memory_that_the_machine_does_not_have_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "progress").write_bytes(bytes(8))

    class Bench:
        cell = Cell("simulated", "manual", "prealloc", SHAPE)

    item = {"context": 8, "tokens": 2, "concurrency": 1, "progress": str(tmp_path / "progress"), "policy": "none"}
    sequences = open_sequences(Bench.cell, 11, 0, FAST)
    engine = serving.Engine(Bench(), sequences, {**item, "allocator": "simulated", "on_host": True})  # type: ignore
    monkeypatch.setattr(serving, "available_bytes", lambda: serving.MARGIN + 11 * 64)
    assert np.isfinite(engine.sequence(0).outputs(1)).all()
    monkeypatch.setattr(serving, "available_bytes", lambda: serving.MARGIN + 11 * 64 - 1)
    with pytest.raises(MemoryError, match=r"64\.\d+ MiB are needed|are needed and"):
        engine.sequence(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--context", "0"], "--context 0 contains 0; the smallest value is 1, such as 1:10."),
        (["--concurrency", "0"], "--concurrency 0 contains 0; the smallest value is 1, such as 1:10."),
        (["--context", "long"], "--context long is not a range; write whole numbers such as 380:530"),
        (["--budget", "much"], "--budget much is not a size; write a number with a unit, such as 16GiB"),
        (["--budget", "1KiB"], "A --budget of 1 KiB cannot hold one sequence of 256 tokens and 32 more on simulated"),
        (["--budget", "1GiB", "--policy", "wait"], "--policy wait is unknown; choose one of reject, queue,"),
        (["--policy", "queue"], "--policy queue has nothing to do without a budget; add one, such as --budget 1GiB."),
        (
            ["--batch", "2"],
            "--batch steps sequences in one call, and here each has its own; use --concurrency instead.",
        ),
        (["--tokens", "1"], "--tokens 1 leaves no time between two tokens; give at least 2, such as 32."),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(options: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run.jsonl"
    done = CliRunner().invoke(main, ["capacity", "--backend", "simulated", *SMALL, *options, "-o", str(path)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {message}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
