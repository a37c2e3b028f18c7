"""What a reader who has never seen the tool finds: help pages, versions, completion, and colour where it belongs."""

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pykvbench import __version__
from pykvbench.cli import main

COMMANDS = list(main.commands)
RUN = [sys.executable, "-c", "import sys; sys.argv[0] = 'pykvbench'; from pykvbench.__main__ import run; run()"]


def test_the_list_of_commands_says_what_each_is_for_without_cutting_it_off() -> None:
    lines = CliRunner().invoke(main, ["--help"], catch_exceptions=False).output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == COMMANDS
    assert COMMANDS[0] == "attn"
    assert all(line.endswith(("?", ".")) and not line.endswith("...") for line in lines)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_of_a_help_page_is_wider_than_its_terminal(command: str) -> None:
    for width in (60, 80, 110):
        page = CliRunner().invoke(main, [command, "--help"], terminal_width=width, catch_exceptions=False).output
        example = next(line for line in page.splitlines() if "Example:" in line)
        assert all(len(line) <= width for line in page.splitlines() if line != example)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_with_a_default_states_it(command: str) -> None:
    for parameter in main.commands[command].params:
        if isinstance(parameter, click.Option) and not parameter.is_flag and not parameter.required:
            known = parameter.default if isinstance(parameter.default, (str, int, float)) else None
            stated = parameter.show_default or "default:" in (parameter.help or "").lower()
            assert stated or known is None, f"{command} {parameter.name} does not state its default"


def test_versions_are_printed_without_importing_what_they_are_of() -> None:
    script = "import sys; from pykvbench.cli import main; main(['--version'], standalone_mode=False);"
    script += "print([name for name in ('torch', 'mlx', 'numpy') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    package, torch, mlx, imported = ran.stdout.splitlines()
    assert package == f"pykvbench {__version__}"
    assert torch.startswith("torch ")
    assert mlx.startswith("mlx ")
    assert imported == "[]"


def test_a_version_that_is_not_there_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykvbench.machine.packages.installed", lambda name: None)
    result = CliRunner().invoke(main, ["--version"], catch_exceptions=False)
    assert result.output == f"pykvbench {__version__}\ntorch is not installed\nmlx is not installed\n"


@pytest.mark.parametrize(("words", "answers"), [("att", ["attn"]), ("attn --backend ml", ["mlx", "mlx-cpu"])])
def test_a_shell_completes_commands_and_names(words: str, answers: list[str]) -> None:
    variables = {"_PYKVBENCH_COMPLETE": "bash_complete", "COMP_WORDS": f"pykvbench {words}"}
    variables["COMP_CWORD"] = str(len(words.split()))
    ran = subprocess.run(RUN, capture_output=True, text=True, env={**os.environ, **variables}, check=False)
    assert ran.stdout.split() == [f"plain,{answer}" for answer in answers]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_completion_that_bash_is_given_is_bash() -> None:
    variables = {"_PYKVBENCH_COMPLETE": "bash_source"}
    made = subprocess.run(RUN, capture_output=True, text=True, env={**os.environ, **variables}, check=False).stdout
    assert "pykvbench" in made
    subprocess.run(["bash", "-n"], input=made, text=True, check=True)


def _on_a_terminal(command: list[str], variables: dict[str, str]) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**environ, **variables}) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                chunk = os.read(ours, 1 << 16)
            except OSError:  # Linux says so when the other end is closed
                break
            if not chunk:
                break
            written += chunk
        process.wait()
    os.close(ours)
    return written.decode()


@pytest.mark.skipif(not hasattr(pty, "openpty"), reason="there are no terminals here")
def test_colour_is_for_terminals_that_want_it(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("length,time_ms\n" + "".join(f"{n},{5 if n == 9 else 1}\n" for n in range(1, 20)))
    command = [*RUN, "analyze", str(table)]
    assert "\033[" in _on_a_terminal(command, {})
    assert "\033[" not in _on_a_terminal(command, {"NO_COLOR": "1"})
    assert "\033[" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", ["analyze", "compare"])
def test_a_ratio_that_is_none_is_one_sentence(command: str) -> None:
    result = CliRunner().invoke(main, [command, "run.jsonl", "--min-ratio", "1"], catch_exceptions=False)
    said = "Error: --min-ratio 1 is not possible; give a ratio above 1, such as 1.10.\n"
    assert (result.exit_code, result.stderr) == (2, said)
