"""The picture of a decode run."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pykvbench.analysis.synthetic_trajectories import Truth, run
from pykvbench.analysis.trajectory import analyze_trajectories
from pykvbench.errors import UsageError
from pykvbench.report import fan

SLOW = Truth(budgets=(16, 32, 48, 64), by_budget=lambda prompt, budget: 10.0 if budget == 48 else 1.0)


def words(path: Path) -> str:
    """The text of an SVG: matplotlib keeps each string in a comment beside its outlines."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", path.read_text()))


def drawn(path: Path, truth: Truth = SLOW) -> Path:
    told = run(truth, 0)
    fan.draw(told, analyze_trajectories(told), path)
    return path


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_suffix_chooses_the_format_and_equal_results_give_equal_files(tmp_path: Path, suffix: str) -> None:
    first, second = (drawn(tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
    assert first[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
    assert first == second
    assert not re.search(rb"Date|Software|Creator|matplotlib \d|/home|/tmp", first)


def test_the_picture_says_cell_prompt_verdict_and_budgets(tmp_path: Path) -> None:
    said = words(drawn(tmp_path / "fan.svg"))
    assert "simulated manual prealloc float32, prompt 65   SIMULATED DEVICE: programmed times" in said
    assert "state: budget 48 costs " in said
    assert "KV length (prompt + step)" in said
    assert "slow at the same lengths" in said
    assert "when it was measured (seconds into the run)" in said
    assert "without a cache" not in said


def test_findings_by_length_are_marked(tmp_path: Path) -> None:
    truth = Truth(budgets=(32, 48, 64), by_length=lambda lengths: np.where(lengths == 90, 5.0, 1.0))
    said = words(drawn(tmp_path / "fan.svg", truth))
    assert " spike 90: " in said
    assert "slow at the same lengths" not in said


def test_each_prompt_has_a_row_and_the_arm_without_a_cache_stands_beside(tmp_path: Path) -> None:
    told, without = run(replace(SLOW, prompts=(3, 65)), 0), run(replace(SLOW, cache="none", prompts=(3, 65)), 1)
    lines = (*told.trajectories, *({**line, "cell": 1} for line in without.trajectories))
    both = replace(told, cells=(*told.cells, *without.cells), trajectories=lines)
    fan.draw(both, analyze_trajectories(both), tmp_path / "fan.svg")
    said = words(tmp_path / "fan.svg")
    assert said.count("KV length (prompt + step)") == 4
    assert said.count("without a cache") == 2


def test_what_cannot_be_drawn_is_a_sentence(tmp_path: Path) -> None:
    told = run(SLOW, 0)
    result = analyze_trajectories(told)
    with pytest.raises(UsageError, match=r"let its name end in \.png, \.svg or \.pdf"):
        fan.draw(told, result, tmp_path / "fan.gif")
    with pytest.raises(UsageError, match="There is nothing to draw"):
        fan.draw(replace(told, trajectories=()), result, tmp_path / "fan.png")
    with pytest.raises(UsageError, match="cannot be written"):
        fan.draw(told, result, tmp_path / "missing" / "fan.png")


def test_one_trajectory_that_died_at_once_is_drawn(tmp_path: Path) -> None:
    told = run(Truth(budgets=(8,), repeats=1), 0)
    line = told.trajectories[0]
    died = replace(
        told, trajectories=({**line, "total": line["total"][:1], "dispatch": line["dispatch"][:1], "complete": False},)
    )
    fan.draw(died, analyze_trajectories(died), tmp_path / "fan.png")
    assert (tmp_path / "fan.png").stat().st_size > 1000
