"""Every command in README.md is one that works, or fails here for the reason that it would fail."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykvbench.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
LINES = [line.partition("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
COMMANDS = sorted(
    {line for line in LINES if line.startswith("pykvbench ")} | {"pykvbench attn --backend cpu --len 380:530"}
)
SHORT = {  # the same command, with less to measure
    "attn": ["--len", "40:42", "--sweeps", "3", "--samples", "1", "--warmup", "0", "-o", "runs/short.jsonl"],
    "decode": ["--budget", "4:6:2", "--prompt", "3", "--repeats", "3", "--warmup", "0", "-o", "runs/short.jsonl"],
    "capacity": [
        *("--context", "8", "--concurrency", "1,2", "--tokens", "2", "--repeats", "1", "--warmup", "0"),
        *("-o", "runs/short.jsonl"),
    ],
    "reuse": ["--len", "8,16", "--repeats", "1", "--warmup", "0", "-o", "runs/short.jsonl"],
}
TINY = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)[1:]
    for run in ("runs/before.jsonl", "runs/after.jsonl"):
        if run in words:
            measured = ["attn", "--backend", "simulated", *TINY, *SHORT["attn"][:-1], run]
            assert CliRunner().invoke(main, measured).exit_code == 0
    if words[0] in SHORT:
        words += [*TINY, *SHORT[words[0]]]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    if "mps" in words and sys.platform != "darwin":
        assert result.exit_code == 2
        assert "mps needs macOS on Apple silicon" in result.stderr
    else:
        assert result.exit_code == 0, result.output


def test_the_two_set_up_commands_are_there_and_install_what_they_need() -> None:
    set_up = [
        line for line in LINES if line.startswith("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt ")
    ]
    assert len(set_up) == 2
    assert "pykvbench attn --backend cpu --len 380:530" in set_up[0]
    assert set_up[1].endswith("-e '.[test]' && .venv/bin/python -m pytest")
    assert "grep -m 1 'python -m pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_every_command_is_in_the_readme() -> None:
    for command in main.commands:
        assert f"pykvbench {command} " in README or f"pykvbench {command}\n" in README


def test_every_picture_exists() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).is_file()
