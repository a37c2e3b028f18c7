"""Attribution end to end, in real processes on the simulated device: attn, the run file, and analyze on it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pykvbench import record
from pykvbench.analysis.attribution import attributions
from pykvbench.cell import Cell
from pykvbench.experiment.attribution_plan import ContrastPlan
from pykvbench.geometry import Geometry
from pykvbench.target import Target

SMALL = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0", "--len", "400:440"]
CELL = Cell("simulated", "manual", "prealloc", Geometry(1, 2, 1, 1, 8, "float32"))
TARGET = Target(0, "spike", (421, 421), 2.0, (421,), (419, 420, 422, 423), (420, 422))


def pykvbench(*options: str, status: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "pykvbench", *options], capture_output=True, text=True, timeout=200)
    assert done.returncode == status, done.stderr
    return done.stdout


def cause_of(document: dict[str, Any], kind: str) -> str | None:
    return next((finding["cause"] for finding in document["findings"] if finding["kind"] == kind), None)


def test_attn_attributes_what_it_confirms_and_analyze_says_the_same(tmp_path: Path) -> None:
    out = str(tmp_path / "run.jsonl")
    printed = json.loads(
        pykvbench("attn", "--backend", "simulated", *SMALL, "--simulate", "pv:421=4x", "--json", "-o", out)
    )
    assert cause_of(printed, "spike") == "PV"
    assert json.loads(pykvbench("analyze", out, "--json")) == printed
    run = record.read(out)
    assert run.end is not None
    assert run.end["status"] == "complete"
    assert {line["variant"] for line in run.contrasts} >= {"whole", "part:pv", "padded:32", "layers:2"}
    assert not any("cell" in event for event in run.events if "attributed" in event)
    (one,) = [one for one in attributions(run) if one.kind == "spike"]
    assert [row.length for row in one.rows] == [417, 418, 419, 420, 421, 422, 423, 424, 425]
    assert printed["attributions"][0]["contrasts"]
    text = " ".join(pykvbench("analyze", out).split())
    assert "Cause: PV." in text
    assert "all of it in PV; in completion" in text


def test_no_attribute_leaves_the_sweeps_alone(tmp_path: Path) -> None:
    out = str(tmp_path / "run.jsonl")
    options = ["--simulate", "421=4x", "--no-attribute", "--json", "-o", out]
    printed = json.loads(pykvbench("attn", "--backend", "simulated", *SMALL, *options))
    assert "attributions" not in printed
    assert record.read(out).contrasts == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("inject", "kind", "cause"),
    [
        ("421:3x", "spike", "dispatch: host work of the step outside its operations"),
        ("421:3x@device", "spike", "completion: device work of the step outside its operations"),
        ("421:3x@append", "spike", "append"),
        ("421:3x@qk+device", "spike", "QK^T"),
        ("421:3x@softmax", "spike", "softmax"),
        ("421:8x@first", "first-visit", "first call at this length in a process"),
        ("421:3x@alloc", "spike", "allocation of outputs"),
    ],
)
def test_what_is_injected_is_named(tmp_path: Path, seed: int, inject: str, kind: str, cause: str) -> None:
    out = ["--json", "-o", str(tmp_path / "run.jsonl"), "--seed", str(seed)]
    printed = pykvbench("attn", "--backend", "simulated", *SMALL, "--inject", inject, *out)
    assert cause_of(json.loads(printed), kind) == cause


def test_whole_steps_come_first_so_that_their_first_calls_are_first() -> None:
    plan = ContrastPlan(0, CELL, (TARGET,), 431, 7)
    launch = plan.launches()[0]
    items = plan.items(launch, 3)
    assert {item["variant"] for item in items[: len(plan.lengths)]} == {"whole"}
    assert sorted(item["length"] for item in items[:5]) == [419, 420, 421, 422, 423]
    assert {item["length"] for item in items if item["variant"] == "part:pv"} == {420, 421, 422}
    assert items != plan.items(launch, 4)
    assert items == plan.items(launch, 3)


def test_an_intermittent_finding_gets_more_processes() -> None:
    seldom = Target(0, "intermittent", (421, 421), 2.0, (421,), (420, 422), (420, 422))
    assert len(ContrastPlan(0, CELL, (TARGET,), 431, 7).launches()) == 5
    assert len(ContrastPlan(0, CELL, (seldom,), 431, 7).launches()) == 9
