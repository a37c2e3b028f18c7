"""The self test: what it injects, what it calls fit, and that each way of being unfit is told with advice."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recorded
from click.testing import CliRunner

from pykvbench import record
from pykvbench._simulated_device import Device
from pykvbench.analysis import selftest as analysis
from pykvbench.analysis.attribution import Attribution
from pykvbench.analysis.selftest import Injected, SelfTest, judge
from pykvbench.cli.selftest import command
from pykvbench.drivers.driver import Driver
from pykvbench.experiment import selftest as experiment
from pykvbench.experiment.fitness import Fitness, inspect
from pykvbench.experiment.selftest import LARGE, SMALL, Measured, choose
from pykvbench.report.selftest import render

GOOD = Fitness(dispatch_ns=9_000.0, step_ns=90_000.0, left_ns=500.0, resolution_ns=42.0, monotonic=True)
INJECTED = (
    Injected(200, 1.5, "host"),
    Injected(206, 6.0, "device"),
    Injected(213, 21.0, "pv"),
    Injected(221, 3.0, "host"),
    Injected(230, 1.05, "device"),
)
SLOW = {one.length: one.ratio for one in INJECTED}


def run_of(folder: Path, slow: dict[int, float] = SLOW, **plan: Any) -> record.Run:
    lines = recorded.lines(recorded.cell("cpu"), slow=slow, lengths=(193, 240), inject=["200:1.5x"], **plan)
    return record.read(recorded.write(folder / "run.jsonl", lines))


def attributed(monkeypatch: pytest.MonkeyPatch, causes: dict[int, str | None]) -> None:
    found = tuple(
        Attribution(0, "spike", (length, length), (length,), (), 2.0, "5/5", (), None, cause, "", None, ())
        for length, cause in causes.items()
    )
    monkeypatch.setattr(analysis, "attributions", lambda run: found)


def test_what_is_injected_is_found_and_attributed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attributed(monkeypatch, {206: "completion: device work", 213: "PV", 221: "dispatch: host work"})
    result = judge(GOOD, run_of(tmp_path), INJECTED)
    assert result.complaints == ()
    assert result.fit
    assert [control.votes for control in result.controls] == ["5/5"] * 4 + [None]
    assert [control.right for control in result.controls] == [None, True, True, True, None]
    assert [control.ok for control in result.controls] == [True] * 5
    assert (result.others, result.false_alarms) == (43, ())
    assert render(result).splitlines() == [
        "cpu manual prealloc float32: step 91.0 us, clock in steps of 42 ns",
        "Left to wait for after a sync: 500 ns",
        "",
        "injected          where     found    sweeps  attributed to",
        "1.5x at 200       host      1.51x    5/5",
        "6x at 206         device    6.03x    5/5     completion: device work",
        "21x at 213        pv        21.1x    5/5     PV",
        "3x at 221         host      2.99x    5/5     dispatch: host work",
        "1.05x at 230      device    below    -",
        "nothing at 43 others           nothing",
        "",
        "Limit of detection here: 1.12x (smallest attainable p 2e-7)",
        "Verdict: fit",
    ]


def complaint(result: SelfTest) -> str:
    assert not result.fit
    assert len(result.complaints) == 1, result.complaints
    assert result.complaints[0] in " ".join(render(result).split())
    return result.complaints[0]


def test_a_wrong_cause_is_not_fit_and_no_cause_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path)
    attributed(monkeypatch, {213: "softmax"})
    wrong = complaint(judge(GOOD, run, INJECTED))
    assert wrong == "Wrong cause: 21x injected at 213 (pv), attributed to softmax. Close other programs and try again."
    attributed(monkeypatch, {213: None})
    unexplained = judge(GOOD, run, INJECTED)
    assert unexplained.fit
    assert "21x at 213        pv        21.1x    5/5     unexplained\n" in render(unexplained)


def test_where_the_call_itself_computes_host_and_device_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributed(monkeypatch, {206: "dispatch: host work"})
    run = run_of(tmp_path)
    assert judge(replace(GOOD, dispatch_ns=89_000.0), run, INJECTED).fit
    assert complaint(judge(GOOD, run, INJECTED)).startswith("Wrong cause: 6x injected at 206 (device)")


def test_an_injection_that_is_missed_or_of_another_size_is_not_fit(tmp_path: Path) -> None:
    missed = judge(GOOD, run_of(tmp_path, {length: ratio for length, ratio in SLOW.items() if length != 221}), INJECTED)
    assert complaint(missed) == "Missed: 3x injected at 221 (host). Close other programs and try again."
    assert "3x at 221         host      missed   -  <- not as injected\n" in render(missed)
    small = judge(GOOD, run_of(tmp_path, {**SLOW, 213: 9.0}), INJECTED)
    assert re.fullmatch(r"Wrong size: 21x injected at 213 \(pv\), found as [\d.]+x\. Close .+", complaint(small))


def test_a_finding_where_nothing_was_injected_is_not_fit(tmp_path: Path) -> None:
    result = judge(GOOD, run_of(tmp_path, {**SLOW, 235: 2.0}), INJECTED)
    assert complaint(result).startswith("Found without anything injected: spike at 235. Either others disturb")
    assert "nothing at 43 others           1 found\n" in render(result)


def test_too_noisy_is_not_fit(tmp_path: Path) -> None:
    lines = recorded.lines(recorded.cell("cpu"), slow={}, lengths=(193, 240))
    rng = np.random.default_rng(1)
    for line in lines:
        if line["kind"] == "visit":
            line["total"] = [int(value) for value in line["total"] * np.exp(rng.normal(0, 0.6, len(line["total"])))]
    run = record.read(recorded.write(tmp_path / "run.jsonl", lines))
    result = judge(GOOD, run, ())
    said = complaint(result)
    assert re.match(r"Too noisy: an excess (below [\d.]+x|of any size) could not have been confirmed\. Close", said)


def test_a_coarse_clock_is_not_fit(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    said = complaint(judge(replace(GOOD, resolution_ns=2_000.0), run, INJECTED))
    assert said.startswith("The clock is too coarse: it moves in steps of 2000 ns, and a decode step takes 9")
    assert said.endswith("Measure longer lengths or more layers (--num-layers).")
    assert complaint(judge(replace(GOOD, monotonic=False), run, INJECTED)).startswith("The clock ran backwards.")


@pytest.mark.parametrize("waits", [True, False])
def test_a_sync_that_does_not_wait_is_seen(tmp_path: Path, waits: bool) -> None:
    device = Device()

    def outputs(result: object) -> Any:
        device.wait()
        return np.zeros((1, 1, 1, 1))

    driver = Driver(
        reset=lambda length: device.wait(),
        advance=lambda: None,
        step=lambda: device.submit(3_000_000),
        sync=lambda result: device.wait() if waits else None,
        outputs=outputs,
        memory=dict,
        describe={},
    )
    fitness = inspect(driver, 8)
    run = run_of(tmp_path)
    if waits:
        assert fitness.step_ns >= 3_000_000
        assert judge(fitness, run, INJECTED).fit
    else:
        assert fitness.left_ns > 2_000_000
        said = complaint(judge(fitness, run, INJECTED))
        assert said.startswith("The sync does not wait: after it, a result took ")
        assert "Do not use times of this backend" in said


@pytest.mark.parametrize("seed", range(30))
def test_injections_are_spread_so_that_they_are_neither_neighbours_nor_periodic(seed: int) -> None:
    injections = choose(seed)
    assert sorted(one.ratio for one in injections) == sorted((*SMALL, *LARGE))
    lengths = [one.length for one in injections]
    assert min(abs(a - b) for a, b in combinations(lengths, 2)) >= 5
    assert not any(a + c == 2 * b for a, b, c in combinations(sorted(lengths), 3))
    assert max(lengths) <= experiment.FIRST + experiment.COUNT - 5
    assert sorted(one.place for one in injections)[:-1] == [""] * 5
    assert any(one.device for one in injections)
    assert any(not one.device and not one.place for one in injections)


def test_the_exit_status_and_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path)
    for device, status in ((GOOD, 0), (replace(GOOD, monotonic=False), 1)):
        monkeypatch.setattr(experiment, "measure", lambda *_, device=device: Measured(device, run, INJECTED))
        done = CliRunner().invoke(command, ["--backend", "simulated", "--json"], catch_exceptions=False)
        assert done.exit_code == status
        document = json.loads(done.stdout)
        assert (document["schema"], document["fit"], len(document["controls"])) == (1, status == 0, 5)
        assert document["controls"][2]["injected"] == {"length": 213, "ratio": 21.0, "place": "pv"}
        assert bool(document["complaints"]) == (status == 1)
    with pytest.raises(Exception, match="selftest takes one backend, kernel, cache and dtype; run it once for each."):
        CliRunner().invoke(command, ["--backend", "simulated", "--cache", "prealloc,concat"], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.parametrize("simulate", ["noise=1%"])
def test_the_simulated_device_is_measured_from_end_to_end(simulate: str) -> None:
    tiny = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8"]
    done = CliRunner().invoke(
        command, ["--backend", "simulated", "--simulate", simulate, *tiny, "--json"], catch_exceptions=False
    )
    document = json.loads(done.stdout)
    assert document["false_alarms"] == []
    assert all(one["found"] for one in document["controls"] if one["injected"]["ratio"] >= 3)
    assert all(one["right"] is not False for one in document["controls"])


@pytest.mark.slow
def test_a_device_of_changing_speed_is_too_noisy() -> None:
    tiny = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8"]
    done = CliRunner().invoke(
        command, ["--backend", "simulated", "--simulate", "noise=80%", *tiny], catch_exceptions=False
    )
    assert done.exit_code == 1
    assert "Too noisy: " in done.stdout
    assert done.stdout.endswith("Verdict: not fit\n")
