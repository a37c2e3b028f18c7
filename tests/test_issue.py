"""Reports as texts: word by word from stored runs, harmless whatever the run file says, and silent on who and where."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import pytest
import recorded
from click.testing import CliRunner

from pykvbench.analysis.attribution import Attribution, Contrast
from pykvbench.analysis.case import Case
from pykvbench.analysis.file import analyze_file
from pykvbench.analysis.reproduction import Attempt, Reproduction
from pykvbench.cli.report import command
from pykvbench.report import bundle, evidence, foreign, issue

SHOWS = Attempt(1, 21.0, "observed 21.00x")
NOT = Attempt(0, 1.01, "observed 1.01x")


@pytest.fixture(autouse=True)
def _no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign._own_names.cache_clear()


@pytest.mark.parametrize("name", sorted(recorded.stored()))
def test_a_stored_run_gives_its_stored_report(name: str) -> None:
    made = recorded.report(recorded.FOLDER / f"{name}.jsonl", recorded.outcomes().get(name))
    assert made.text == (recorded.FOLDER / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("attempts", "first"),
    [
        ((SHOWS, SHOWS, SHOWS), "**Title:** Decode attention over 421 keys takes 21.4x as long as over longer caches"),
        ((SHOWS, SHOWS, NOT), "**Title:** Decode attention over 421 keys takes 21.4x as long as over longer caches"),
        (
            (NOT, SHOWS, NOT),
            "**Not reproduced:** the reproducer shows the effect in 1 of 3 fresh processes "
            "(observed 1.01x, 21.0x, 1.01x; claimed 21.4x).",
        ),
        (
            (Attempt(1, None, "RuntimeError: no"), Attempt(None, None, "given up")),
            "**Not reproduced:** the reproducer did not come to its end in 2 fresh processes; see its output below.",
        ),
        ((), "**The reproducer was not executed here:** no Mac."),
    ],
)
def test_the_first_line_says_whether_it_reproduces(attempts: tuple[Attempt, ...], first: str) -> None:
    made = recorded.report(recorded.FOLDER / "mps_spike.jsonl", Reproduction(attempts, "" if attempts else "no Mac."))
    assert made.text.startswith(first)


def test_an_effect_of_some_processes_is_reproduced_by_one() -> None:
    done = Reproduction((NOT, SHOWS, NOT, NOT, NOT))
    assert done.reproduced(in_some=True)
    assert not done.reproduced()


def test_contrasts_and_workaround_are_told() -> None:
    run, result = analyze_file(recorded.FOLDER / "mps_spike.jsonl")
    assert run is not None
    gone = Contrast(
        "layout:contiguous",
        "Is it there when V is contiguous?",
        1.01,
        0.99,
        1.03,
        10.0,
        None,
        "0/5",
        "absent",
        "at | 1.01x",
    )
    attribution = Attribution(
        0,
        "spike",
        (421, 421),
        (421,),
        (420, 422),
        21.3,
        "5/5",
        (gone,),
        0.98,
        "P V",
        "All of it in P V.",
        "Copy V.",
        (),
    )
    case = Case(0, result.findings[0], (421,), (420, 422), 21.3)
    assert evidence.attribution_of(case, (attribution,)) is attribution
    text = issue.render(issue.Subject(run, result, case, attribution, "code\n", Reproduction((SHOWS,))))
    assert "| Is it there when V is contiguous? | absent | 1.01x (0.99 to 1.03) | at \\| 1.01x |" in text
    assert "The parts' excesses add up to 98% of the whole step's." in text
    assert "**Workaround.** Copy V." in text
    assert "**Cause.** P V" in text


HOSTILE = (
    "x\n\n# heading\n```\nimport os; os.system('touch owned')\n```\n| a | b |\n<script>alert(1)</script> @everyone "
    "![i](http://evil.example/x) [l](javascript:1) </details> \"\"\" ''' \\ \u202e \x1b[31m {0} %s ${HOME} <dtype>"
)


def _hostile(value: Any, keep: frozenset[str]) -> Any:
    """The same value with every string replaced by a hostile one, except under keys that must keep theirs."""
    if isinstance(value, dict):
        return {key: one if key in keep else _hostile(one, keep) for key, one in value.items()}
    if isinstance(value, list):
        return [_hostile(one, keep) for one in value]
    return HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("name", sorted(recorded.stored()))
def test_hostile_strings_become_neither_code_nor_markup(tmp_path: Path, name: str) -> None:
    keep = frozenset(
        {"kind", "event", "command", "lengths", "backend", "kernel", "cache", "dtype", "body", "framework"}
    )
    lines = [_hostile(line, keep) for line in recorded.stored()[name]]
    lines[0]["notes"] = [HOSTILE]
    lines[0]["cells"][0].update(build=HOSTILE, interpreter=0)
    lines.insert(2, recorded.predicted(0, 413, 429, HOSTILE, [[421, HOSTILE, HOSTILE], [HOSTILE, 1, 2], 3]))
    clean = recorded.report(recorded.FOLDER / f"{name}.jsonl", recorded.outcomes().get(name))
    made = recorded.report(recorded.write(tmp_path / "run.jsonl", lines), recorded.outcomes().get(name))
    assert made.script == clean.script
    assert "system" not in (made.script or "")
    outside, expected = _outside_code(made.text), _outside_code(clean.text)
    for markup in ("<script", "![", "](", "@everyone", "http://", "\x1b", "\u202e", "${", '"""x'):
        assert markup not in outside, markup
    for mark in ("<details>", "</details>"):
        assert outside.count(mark) == expected.count(mark)
    assert [line for line in outside.splitlines() if line.startswith("#")] == [
        line for line in expected.splitlines() if line.startswith("#")
    ]
    assert made.text.count("```") == clean.text.count("```")


def _outside_code(text: str) -> str:
    """What Markdown takes for markup: without blocks and spans of code, and without what is escaped."""
    outside = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\\[^\w\s]", "", outside)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("2.56 ms against 212 us", "2.56 ms against 212 us"),
        ("1. one", "1\\. one"),
        ("3) three", "3\\) three"),
        ("- item", "\\- item"),
        ("===", "==="),
        ("=", "\\="),
        ("-1 of them", "-1 of them"),
        ("a_b *c* <d> #1 |", "a\\_b \\*c\\* \\<d\\> \\#1 \\|"),
        ("@all http://x.example", "(at)all http: //x.example"),
    ],
)
def test_text_renders_as_it_reads(text: str, markdown: str) -> None:
    assert foreign.plain(text) == markdown


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("12/64 GB/s and/or n/a, 14_0/15_0", "12/64 GB/s and/or n/a, 14_0/15_0"),
        ("see /home/alice/run.py:3, or", "see (path), or"),
        ("C:\\Users\\alice\\run.py", "(path)"),
        ("~/runs/x.jsonl", "(path)"),
        ("file:///opt/thing", "(path)"),
        ("\\\\server\\share\\x", "(path)"),
        ("ran on Alices-Mac.local as alice1", "ran on (name) as (name)"),
        ("malice1s alice12", "malice1s alice12"),
    ],
)
def test_paths_and_names_are_taken_out(monkeypatch: pytest.MonkeyPatch, text: str, clean: str) -> None:
    monkeypatch.setattr(platform, "node", lambda: "Alices-Mac.local")
    monkeypatch.setattr("getpass.getuser", lambda: "alice1")
    foreign._own_names.cache_clear()
    assert foreign.scrub(text) == clean
    foreign._own_names.cache_clear()


def test_nothing_in_the_folder_says_who_or_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "planted-host.example")
    monkeypatch.setattr("getpass.getuser", lambda: "planteduser")
    foreign._own_names.cache_clear()
    lines = recorded.stored()["mps_spike"]
    lines[0]["notes"] = ["planteduser ran this on planted-host in /home/planteduser/secretfolder"]
    lines[0]["argv"] = ["attn", "-o", "/home/planteduser/secretfolder/run.jsonl"]
    lines[0]["machine"] = {**recorded.MAC, "cpu": "Chip of planteduser", "/home/planteduser": "key"}
    lines.insert(2, {"kind": "event", "event": "failed", "at": 1, "cell": 0, "detail": "in /home/planteduser/x.py"})
    folder = tmp_path / "secretfolder-planteduser"
    folder.mkdir()
    path = recorded.write(folder / "planteduser.jsonl", lines)
    done = CliRunner().invoke(command, [str(path), "-o", str(folder / "report")], catch_exceptions=False)
    assert done.exit_code == 0
    files = sorted(file.name for file in (folder / "report").iterdir())
    assert files == ["issue.md", "repro.py", "run.jsonl", "run.png"]
    for file in (folder / "report").iterdir():
        content = file.read_bytes().lower()
        for planted in (b"planted", b"secretfolder", str(tmp_path).lower().encode()):
            assert planted not in content, (file.name, planted)
    first = next(iter((folder / "report" / "run.jsonl").open()))
    assert json.loads(first)["notes"] == ["(name) ran this on (name) in (path)"]
    foreign._own_names.cache_clear()


def test_a_clean_run_file_is_copied_byte_by_byte(tmp_path: Path) -> None:
    path = recorded.FOLDER / "mps_smooth.jsonl"
    done = CliRunner().invoke(command, [str(path), "-o", str(tmp_path / "report")], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout == "No slow length found: no length costs 1.11x of what a longer one costs, or more.\n"
    assert (tmp_path / "report" / "run.jsonl").read_bytes() == path.read_bytes()
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == ["issue.md", "run.jsonl", "run.png"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"plan": {"lengths": "413:429", "inject": ["421:1.5x"]}},
            "has extra work injected on purpose, so its findings are no bugs; run it again without --inject.",
        ),
        (
            {"command": "decode"},
            "is not a run of `attn`, and only visits to single lengths can convict a length; "
            "measure the lengths in question with pykvbench attn --len.",
        ),
    ],
)
def test_a_run_that_cannot_be_reported_is_one_sentence(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    lines = recorded.stored()["mps_spike"]
    lines[0].update(change)
    path = recorded.write(tmp_path / "run.jsonl", lines)
    with pytest.raises(bundle.UsageError, match=re.escape(message)):
        CliRunner().invoke(command, [str(path), "-o", str(tmp_path / "report")], catch_exceptions=False)
    assert not (tmp_path / "report").exists()


def test_a_table_and_an_empty_run_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("length,time_ms\n1,1\n2,1\n")
    with pytest.raises(bundle.RunFileError, match="is a table, and a report needs raw samples; measure with pykvbench"):
        CliRunner().invoke(command, [str(table), "-o", str(tmp_path / "report")], catch_exceptions=False)
    run = recorded.write(tmp_path / "run.jsonl", recorded.stored()["mps_spike"][:2])
    with pytest.raises(bundle.RunFileError, match="holds no visit, so there is nothing to report"):
        CliRunner().invoke(command, [str(run), "-o", str(tmp_path / "report")], catch_exceptions=False)


def test_a_folder_with_something_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "mine").write_text("precious")
    path = str(recorded.FOLDER / "mps_smooth.jsonl")
    with pytest.raises(bundle.UsageError, match="exists and is not an empty folder; name another one with -o."):
        CliRunner().invoke(command, [path, "-o", str(tmp_path / "report")], catch_exceptions=False)
    assert [file.name for file in (tmp_path / "report").iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert CliRunner().invoke(command, [path, "-o", str(tmp_path / "empty")]).exit_code == 0
