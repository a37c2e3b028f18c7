"""The pages in docs/ say what the code does: constants, names of files, commands and options."""

import importlib
import re
from pathlib import Path

import pytest

from pykvbench.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
METHOD = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
CONSTANTS = re.findall(r"^\| `([a-z_.]+)\.([A-Z_]+)` \| ([\d.]+) \|", METHOD, re.MULTILINE)


@pytest.mark.parametrize(("module", "name", "value"), CONSTANTS)
def test_a_constant_of_the_method_is_that_of_the_code(module: str, name: str, value: str) -> None:
    assert getattr(importlib.import_module(f"pykvbench.{module}"), name) == float(value)


def test_the_method_lists_its_constants() -> None:
    assert len(CONSTANTS) == METHOD.partition("## Constants")[2].count("\n| `")
    assert len(CONSTANTS) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:benchmarks|docs|tests|drivers|analysis|dispatch|csrc)/[\w./]*)`", text)
    named += re.findall(r"\]\((?!http)([^)#]+)", text)
    for name in named:
        places = (ROOT / name, ROOT / "pykvbench" / name, page.parent / name)
        assert any(place.exists() for place in places), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    for words in re.findall(r"pykvbench ([a-z]+[^`\n]*)", page.read_text(encoding="utf-8")):
        command, *rest = words.split()
        if command not in main.commands:
            continue  # prose
        known = {option for parameter in main.commands[command].params for option in parameter.opts}
        known |= {option for parameter in main.commands[command].params for option in parameter.secondary_opts}
        assert {word for word in rest if word.startswith("--")} <= known, f"{page.name}: pykvbench {words}"
