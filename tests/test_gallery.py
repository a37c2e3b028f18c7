"""docs/gallery.md: its commands exist, its pictures are there and small, and its verdicts are those it promises."""

import importlib.util
import sys
from pathlib import Path

import pytest

from pykvbench.cli import main

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("gallery", ROOT / "benchmarks" / "gallery.py")
assert SPEC is not None and SPEC.loader is not None
gallery = importlib.util.module_from_spec(SPEC)
sys.modules["gallery"] = gallery  # dataclasses look their module up
SPEC.loader.exec_module(gallery)
SECTIONS = gallery.sections(gallery.PAGE.read_text(encoding="utf-8"))
QUICK = ("Too little to tell", "Someone's table")  # the others take 10 s and more


def test_every_section_has_commands_that_exist() -> None:
    assert len(SECTIONS) > 8
    for section in SECTIONS:
        assert section.commands
        assert all(words[0] in main.commands for words in section.commands)


def test_every_simulated_picture_is_said_to_be_one_and_every_picture_is_small() -> None:
    text = gallery.PAGE.read_text(encoding="utf-8")
    simulated = text.partition("# Real runs")[0]
    for section in SECTIONS:
        for words in section.commands:
            if words[0] in ("plot", "compare"):
                picture = ROOT / words[words.index("-o") + 1]
                assert picture.stat().st_size < 100_000
                assert f"](gallery/{picture.name})" in text
    alternatives = [line for line in simulated.splitlines() if line.startswith("![")]
    assert alternatives
    assert all("simulated](" in line for line in alternatives)


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(one, id=one.title, marks=() if one.title.startswith(QUICK) else pytest.mark.slow)
        for one in SECTIONS
    ],
)
def test_a_section_gives_what_it_promises(section: object, tmp_path: Path) -> None:
    gallery.prepare(tmp_path)
    assert gallery.check(section, tmp_path) == ""
