"""What a reuse run says, from lines that are made up: medians, speed-ups, what is left out, and the words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pykvbench import record
from pykvbench.analysis.file import analyze_file
from pykvbench.analysis.finding import Result
from pykvbench.analysis.pairs import Named
from pykvbench.analysis.reuse_pairs import compare_reuse
from pykvbench.cell import Cell
from pykvbench.errors import UsageError
from pykvbench.experiment.reuse_plan import ReusePlan, parse_tiers
from pykvbench.geometry import geometry
from pykvbench.record import encode
from pykvbench.report import comparison_text, reuse_plot, reuse_text

CELL = Cell("cpu", "manual", "prealloc", geometry("gpt2", num_layers=2))
COSTS = {"device": 20.0, "host": 30.0, "disk": 400.0}  # us, and 1 us a token


def line(length: int, tier: str, repeat: int, **changes: Any) -> dict[str, Any]:
    """Recomputing takes 10 us a token; a process is slower by a tenth than the one before, and samples vary."""
    slow = 1 + repeat / 10
    filling = 10.0 * length if tier == "recompute" else COSTS[tier] / 2 + length
    read = COSTS[tier] / 2 if tier == "disk" else 0.0
    samples = (1.0, 1.02, 5.0)
    return {
        "cell": 0,
        "process": 1,
        "repeat": repeat,
        "order": 0,
        "search": False,
        "length": length,
        "tier": tier,
        "place": 0,
        "at": 5,
        "first": None,
        "bytes": length * 6144,
        "write": None,
        "recomputed": False,
        "read": [round(1e3 * read * slow * one) for one in samples],
        "check": [round(1e1 * read * slow * one) for one in samples],
        "restore": [round(1e3 * filling * slow * one) for one in samples],
        "step": [round(1e3 * slow * one) for one in samples],
        "how": "O_DIRECT" if tier == "disk" else None,
        "cold": True if tier == "disk" else None,
        "equal": True,
        "error": 1e-6,
        "correct": True,
        "memory": {},
        **changes,
    }


def lines(lengths: tuple[int, ...] = (16, 31, 60, 128, 1024), repeats: int = 5) -> list[dict[str, Any]]:
    tiers = ("recompute", *COSTS)
    return [line(n, tier, repeat) for n in lengths for repeat in range(repeats) for tier in tiers]


def write(path: Path, values: list[dict[str, Any]], cells: tuple[Cell, ...] = (CELL,), **plan: Any) -> Path:
    header = {
        "schema": 1,
        "command": "reuse",
        "seed": 0,
        "cells": [cell.to_json() for cell in cells],
        "notes": [],
        "plan": {"lengths": "16:1024", "tiers": list(COSTS), "chunk": 512, "repeats": 5, **plan},
    }
    body = b"".join(encode("reuse", value) for value in values)
    path.write_bytes(encode("header", header) + body + encode("end", {"status": "complete"}))
    return path


def analyzed(path: Path) -> Result:
    run, result = analyze_file(path)
    assert run is not None and run.is_reuse
    return result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "run.jsonl", lines())


def test_times_are_medians_of_processes_and_speed_ups_are_within_them(path: Path) -> None:
    table = analyzed(path).cells[0].reuse
    assert table is not None
    disk = table.row(1024, "disk")
    assert disk is not None
    # The third process is 1.2 times slower than the first; the middle sample is 1.02 times the shortest.
    parts = {"read": 200 * 1.01, "restore": 200 + 1024, "step": 1.0}
    scale = 1.2 * 1.02 * 1e3
    assert disk.span.value == pytest.approx(scale * sum(parts.values()), rel=1e-4)
    assert (disk.read_ns, disk.restore_ns, disk.step_ns) == pytest.approx([scale * p for p in parts.values()], rel=1e-3)
    assert disk.speedup.value == pytest.approx((10240 + 1) / sum(parts.values()), rel=1e-3)
    assert disk.speedup.low == pytest.approx(disk.speedup.high, rel=1e-3)  # processes differ, and nothing within them
    assert disk.bandwidth == pytest.approx(1024 * 6144 / (1.2 * 1.02 * 200e3), rel=1e-3)
    assert disk.bytes == CELL.geometry.kv_bytes(1024)
    assert disk.cold is True


def test_break_even_follows_from_the_costs(path: Path) -> None:
    table = analyzed(path).cells[0].reuse
    assert table is not None
    found = {value.tier: value for value in table.break_even}
    assert found["device"].found == found["host"].found == "below"
    assert found["disk"].found == "confirmed"
    assert found["disk"].length == pytest.approx(402 / 9, rel=0.05)  # 10 n = 402 + n, a straight line in logarithms


def test_the_document_has_the_shared_keys_and_the_table(path: Path) -> None:
    document = json.loads(json.dumps(analyzed(path).to_json(), allow_nan=False))
    assert document["schema"] == 1
    assert document["verdict"] == "unresolved"
    assert document["findings"] == []
    (cell,) = document["reuse"]["cells"]
    assert [row["tier"] for row in cell["rows"][:4]] == ["recompute", "device", "host", "disk"]
    assert cell["break_even"][2]["found"] == "confirmed"
    assert [row["speedup"] for row in document["reuse"]["published"]["rows"]] == pytest.approx([84.6, 20.4], rel=1e-3)
    assert "another machine" in document["reuse"]["published"]["machine"]


def test_the_page_says_what_was_found(path: Path) -> None:
    words = " ".join(reuse_text.render(analyzed(path), width=100).split())
    assert "From device memory restoring is faster at every length measured: 5.96x at 16 (5.96..5.96)." in words
    assert "From the disk restoring pays from about 45 tokens, confirmed on both sides: 0.72x at 31" in words
    assert "8000 tokens: 58.38 s recomputed, 0.69 s restored, 84.6x." in words
    assert "as published: another machine, for orientation" in words
    assert (
        "Verdict: at 1024 tokens the first token comes 9.89x as fast from device memory, 9.85x as fast from host "
        "memory, 7.18x as fast from the disk, compared with recomputing." in words
    )
    assert "The disk was read past the page cache (O_DIRECT)." in words
    assert "both tiers are a copy within it" in words
    assert max(len(row) for row in reuse_text.render(analyzed(path), width=60).splitlines() if row[:2] != "  ") <= 60


def test_an_unequal_output_and_a_wrong_one_are_findings(tmp_path: Path) -> None:
    values = lines()
    for value in values:
        if (value["length"], value["tier"]) == (60, "host"):
            value["equal"] = False
        if (value["length"], value["tier"]) == (128, "recompute") and value["repeat"] < 2:
            value["correct"] = False
    result = analyzed(write(tmp_path / "run.jsonl", values))
    assert [(f.kind, f.lengths, f.votes) for f in result.findings] == [
        ("wrong-result", (60, 60), "5/5"),
        ("wrong-result", (128, 128), "2/5"),
    ]
    assert result.findings[0].note == "KV restored from the host gave another output than the KV that was saved."
    table = result.cells[0].reuse
    assert table is not None
    row = table.row(128, "recompute")
    assert row is not None and set(row.ttft) == {2, 3, 4}
    assert "The result was wrong at 60, 128." in " ".join(reuse_text.render(result).split())


def test_a_recomputed_file_is_counted_and_in_no_time(tmp_path: Path) -> None:
    values = lines()
    refused = next(value for value in values if (value["length"], value["tier"], value["repeat"]) == (60, "disk", 1))
    refused.update(recomputed=True, read=[0], check=[0], restore=[10**9], step=[1000], how=None, cold=None)
    result = analyzed(write(tmp_path / "run.jsonl", values))
    table = result.cells[0].reuse
    assert table is not None
    row = table.row(60, "disk")
    assert row is not None and row.recomputed == 1 and set(row.ttft) == {0, 2, 3, 4}
    note = "a file of KV was refused 1 time; what computing again took is in no time here."
    assert f"{CELL.label}: {note}" in result.cells[0].notes


def test_reads_that_may_have_come_from_memory_are_labelled(tmp_path: Path) -> None:
    values = [value | ({"how": "buffered", "cold": False} if value["tier"] == "disk" else {}) for value in lines()]
    words = " ".join(reuse_text.render(analyzed(write(tmp_path / "run.jsonl", values))).split())
    assert "the page cache could not be dropped or bypassed for certain (read with buffered)" in words
    assert "The disk was read perhaps from the page cache (buffered)." in words


def test_a_run_without_anything_measured_says_so(tmp_path: Path) -> None:
    result = analyzed(write(tmp_path / "run.jsonl", []))
    assert "nothing was restored, so nothing can be said." in reuse_text.render(result)
    with pytest.raises(UsageError, match="There is nothing to draw"):
        reuse_plot.draw(record.read(tmp_path / "run.jsonl"), result, tmp_path / "run.png")


@pytest.mark.parametrize(
    "changes",
    [{"cell": 1}, {"length": 0}, {"step": []}, {"step": [1, 2]}, {"restore": [0, 1, 1]}, {"bytes": "?"}],
)
def test_damaged_lines_are_left_out(tmp_path: Path, changes: dict[str, Any]) -> None:
    result = analyzed(write(tmp_path / "run.jsonl", [*lines(), line(16, "host", 0) | changes]))
    assert "1 damaged line could not be read and is left out." in result.notes


def test_the_picture_is_drawn(path: Path, tmp_path: Path) -> None:
    reuse_plot.draw(record.read(path), analyzed(path), tmp_path / "run.svg")
    assert "restoring pays from there" in (tmp_path / "run.svg").read_text() or (tmp_path / "run.svg").stat().st_size
    with pytest.raises(UsageError, match="is not a kind of picture"):
        reuse_plot.draw(record.read(path), analyzed(path), tmp_path / "run.txt")


def test_comparing_one_run_puts_each_tier_against_recomputing(path: Path) -> None:
    report = compare_reuse([Named("run", record.read(path))])
    assert [one.second.name.rpartition(", ")[2] for one in report.comparisons] == ["device", "host", "disk"]
    disk = report.comparisons[2]
    assert disk.paired
    assert disk.ratio == pytest.approx([(402 + n + 1) / (10 * n + 1) for n in (16, 31, 60, 128, 1024)], rel=0.02)
    (crossing,) = disk.crossovers
    assert crossing.low <= 45 <= crossing.high
    assert "disk takes" in comparison_text.text(report) or "it depends on the length" in comparison_text.text(report)


def test_comparing_two_runs_puts_each_tier_against_itself(path: Path, tmp_path: Path) -> None:
    slower = [value | {"restore": [2 * ns for ns in value["restore"]]} for value in lines()]
    other = write(tmp_path / "other.jsonl", slower)
    named = [Named("before", record.read(path)), Named("after", record.read(other))]
    report = compare_reuse(named)
    assert len(report.comparisons) == 4
    assert report.comparisons[0].verdict == "SLOWER"
    assert np.nanmedian(report.comparisons[0].ratio) == pytest.approx(2, rel=0.01)
    chunked = Named("after", record.read(write(tmp_path / "chunked.jsonl", slower, chunk=64)))
    with pytest.raises(UsageError, match="they differ in chunk"):
        compare_reuse([named[0], chunked])
    assert "they differ in chunk" in " ".join(compare_reuse([named[0], chunked], anyway=True).notes)


def test_every_repeat_visits_every_prompt_in_an_order_of_its_own() -> None:
    plan = ReusePlan((CELL, replace(CELL, kernel="fused")), tuple(range(1, 9)), repeats=3)
    launches = plan.launches()
    rounds = [[launch[:2] for launch in launches if launch[2] == repeat] for repeat in range(3)]
    assert [launch[2] for launch in launches] == [0] * 16 + [1] * 16 + [2] * 16
    assert all(sorted(one) == [(cell, length) for cell in (0, 1) for length in range(1, 9)] for one in rounds)
    assert len({tuple(one) for one in rounds}) == 3
    assert plan.launches() == launches


def test_tiers_are_read_in_their_own_order() -> None:
    assert parse_tiers("disk, device") == ("device", "disk")
    with pytest.raises(UsageError, match="--tier tape is unknown; choose from device, host, disk."):
        parse_tiers("host,tape")
