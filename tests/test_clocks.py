"""Sleep and steps of the wall clock are told apart, and ordinary time is neither."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorded import cell, lines, write

from pykvbench.analysis.file import analyze_file
from pykvbench.experiment.clocks import Clocks, Reading, read
from pykvbench.experiment.supervisor import Supervisor
from pykvbench.record import RunWriter

SECOND = 1_000_000_000


def told(*steps: tuple[float, float, float]) -> list[list[tuple[str, str]]]:
    """What is said after each step of (awake, awake or asleep, wall) in seconds."""
    moments = np.cumsum([(1.0, 2.0, 3.0), *steps], axis=0)
    readings: list[Reading] = [tuple(int(value * SECOND) for value in row) for row in moments]  # type: ignore[misc]
    clocks = Clocks(lambda: readings.pop(0))
    return [list(clocks.changes()) for _ in steps]


def test_time_that_passes_is_no_event() -> None:
    assert told((0.001, 0.001, 0.001), (60, 60, 60.01), (3600, 3600.2, 3602)) == [[], [], []]


def test_sleep_is_told_once_with_its_length() -> None:
    assert told((1, 31, 31), (1, 1, 1)) == [[("slept", "for 30.0 s")], []]


@pytest.mark.parametrize(("wall", "detail"), [(3601, "by +3600.0 s"), (-9, "by -10.0 s")])
def test_a_step_of_the_wall_clock_is_told_with_its_direction(wall: float, detail: str) -> None:
    assert told((1, 1, wall)) == [[("clock-stepped", detail)]]


def test_both_at_once_are_two_events() -> None:
    assert told((1, 11, 1)) == [[("slept", "for 10.0 s"), ("clock-stepped", "by -10.0 s")]]


def test_the_clocks_of_this_machine_agree() -> None:
    clocks = Clocks()
    assert all(value > 0 for value in read())
    assert list(clocks.changes()) == []


def test_the_supervisor_writes_what_happened_before_a_unit_was_counted(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path / "run.jsonl")
    readings: list[Reading] = [(0, 0, 0), (SECOND, 21 * SECOND, 21 * SECOND)]
    clocks = Clocks(lambda: readings.pop(0))
    supervisor = Supervisor(writer, 0, 1, lambda progress: None, {}, tmp_path, clocks=clocks)
    supervisor.count("a cell", 0)
    writer.close()
    line = (tmp_path / "run.jsonl").read_text()
    assert '"event":"slept"' in line
    assert '"detail":"for 20.0 s"' in line


def test_a_standstill_between_two_visits_is_a_note(tmp_path: Path) -> None:
    written = lines(cell("mps"))
    visits = [line for line in written if line["kind"] == "visit"]
    assert not any("stood still" in note for note in analyze_file(write(tmp_path / "a.jsonl", written))[1].notes)
    visits[20]["gap"], visits[40]["gap"] = 2_100_000_000, 1_500_000_000
    _, result = analyze_file(write(tmp_path / "b.jsonl", written))
    assert (
        "The run stood still 2 times between two visits, longest for 2.1 s before "
        f"L = {visits[20]['length']}: it was stopped or starved."
    ) in result.notes


def test_visits_that_all_take_seconds_to_prepare_are_no_standstill(tmp_path: Path) -> None:
    written = lines(cell("mps"))
    for line in written:
        line["gap"] = 3_000_000_000
    assert not any("stood still" in note for note in analyze_file(write(tmp_path / "a.jsonl", written))[1].notes)
