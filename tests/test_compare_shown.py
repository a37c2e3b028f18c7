"""What compare prints: exact texts, markdown, JSON, pictures and exit statuses."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from compared import LENGTHS, QUIET, run, versions

from pykvbench.analysis.pairs import Named, compare_run, compare_runs
from pykvbench.analysis.synthetic import stairs
from pykvbench.cli import main
from pykvbench.errors import UsageError
from pykvbench.report import comparison_plot, comparison_text

BASE = stairs(LENGTHS)
SPIKED = np.where(LENGTHS == 421, 20 * BASE, 1.3 * BASE)
EVENT = {
    "event": "ceiling",
    "cell": 0,
    "probes": [
        {"what": "copy", "bytes": 6 << 20, "bytes_per_s": 160e9},
        {"what": "sum", "bytes": 256 << 20, "bytes_per_s": 80e9},
    ],
}
TINY = ["attn", "--backend", "simulated", "--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0"]


def pykvbench(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_the_text_names_the_spike_first_and_ends_with_the_verdict() -> None:
    said = comparison_text.text(compare_run(run([BASE, SPIKED], events=[EVENT])), 100)
    assert said.startswith("mlx-cpu manual prealloc float32 against cpu manual prealloc float32\n  lengths     first")
    assert re.search(
        r"\nSpike at 421 \(15\.\dx\) in mlx-cpu manual prealloc float32 and not in cpu manual prealloc float32\.\n",
        said.replace("\n  ", " "),
    )
    assert "% of the 160 GB/s that a copy or sum of 6.00 MiB reaches (as large as the caches are) and " in said.replace(
        "\n  ", " "
    )
    assert "First, memory: live 1.00 MiB at most.\n" in said
    assert "Differs: backend: cpu and mlx-cpu.\n" in said
    assert re.search(
        r"\nSLOWER: mlx-cpu manual prealloc float32 takes 1\.[23]\d\dx \(.*\) the time, over 5 pairs", said
    )
    assert all(len(line) <= 100 for line in said.splitlines())


def test_a_crossover_is_said() -> None:
    jump = BASE * np.where(LENGTHS < 471, 0.8, 1.25)
    said = comparison_text.text(compare_run(run([BASE, jump])), 200)
    assert re.search(
        r"\nCrossover at length 471 \(\d+ to \d+\): from there on mlx-cpu manual prealloc float32 is the slower ",
        said,
    )
    assert "AMBIGUOUS: it depends on the length: the curves cross at 471; " in said


def test_markdown_holds_a_table_and_the_verdict() -> None:
    said = comparison_text.markdown(compare_run(run([BASE, SPIKED])))
    assert "### mlx-cpu manual prealloc float32 against cpu manual prealloc float32\n\n**SLOWER: " in said
    assert "\n| lengths | first | second | K, V first | K, V second | ratio | verdict |\n|---|---|---|" in said
    assert "\n- Spike at 421 (" in said


def test_the_table_by_version_is_shown() -> None:
    runs = [
        Named(name, run([curve], seed=seed, events=versions(name)))
        for seed, (name, curve) in enumerate([("2.11", BASE), ("2.12", SPIKED), ("2.13", BASE)])
    ]
    report = compare_runs(runs)
    said = comparison_text.text(report, 200)
    assert "Findings by run\n  finding    torch 2.11  torch 2.12  torch 2.13\n  spike 421  no          " in said
    assert "| finding | torch 2.11 | torch 2.12 | torch 2.13 |" in comparison_text.markdown(report)


def test_the_document_is_plain_json() -> None:
    document = json.loads(json.dumps(comparison_text.to_json(compare_run(run([BASE, SPIKED]))), allow_nan=False))
    (comparison,) = document["comparisons"]
    assert document["schema"] == 1
    assert comparison["verdict"] == "SLOWER"
    assert comparison["ratio"]["low"] < 1.3 < comparison["ratio"]["high"]
    assert [point["length"] for point in comparison["curve"]] == LENGTHS.tolist()
    assert comparison["findings"][0]["missing"] == "absent"
    declined = comparison_text.to_json(compare_run(run([BASE, SPIKED], count=2)))
    assert json.loads(json.dumps(declined, allow_nan=False))["comparisons"][0]["ratio"] is None


def test_the_picture_says_verdict_and_crossover_and_is_reproducible(tmp_path: Path) -> None:
    jump = BASE * np.where(LENGTHS < 471, 0.8, 1.25)
    report = compare_run(run([BASE, jump, SPIKED], backends=("cpu", "mlx-cpu", "mlx")))
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in (first, second):
        comparison_plot.draw(report, path)
    assert first.read_bytes() == second.read_bytes()
    said = "\n".join(re.findall(r"<!-- (.*?) -->", first.read_text()))
    assert "crossover 471" in said
    assert "AMBIGUOUS: it depends on the length" in said
    assert "second / first" in said
    with pytest.raises(UsageError, match=r"a\.txt is not a kind of picture"):
        comparison_plot.draw(report, tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "--fail-if-slower x is not a percentage; write one such as 5%."),
        ("-1%", "--fail-if-slower -1% is not a percentage; write one such as 5%."),
    ],
)
def test_a_limit_that_is_none_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("")
    result = pykvbench("compare", str(path), "--fail-if-slower", text)
    assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")


def test_through_the_command_line_before_against_after(tmp_path: Path) -> None:
    before, after = (str(tmp_path / f"{name}.jsonl") for name in ("before", "after"))
    for path, program in ((before, "noise=1%,base=2ms"), (after, "noise=1%,base=2ms,all=2x")):
        options = ["--len", "40:60", "--simulate", program, "--sweeps", "4", "--samples", "1"]
        assert pykvbench(*TINY, *options, "-o", path).exit_code == 0
    result = pykvbench("compare", before, after, "--json", "--fail-if-slower", "5%")
    assert result.exit_code == 1
    (comparison,) = json.loads(result.stdout)["comparisons"]
    assert comparison["verdict"] == "SLOWER"
    assert 1.5 < comparison["ratio"]["value"] < 2.5
    assert pykvbench("compare", after, before, "--fail-if-slower", "5%").exit_code == 0
    picture = tmp_path / "picture.png"
    assert pykvbench("compare", before, after, "-o", str(picture), "--markdown").exit_code == 0
    assert picture.read_bytes()[:5] == b"\x89PNG\r"
    both = pykvbench("compare", before, after, "--json", "--markdown")
    assert (both.exit_code, both.stderr) == (
        2,
        "Error: --json and --markdown cannot both be printed; choose one of them.\n",
    )


def test_a_decode_run_is_refused() -> None:
    of = run([BASE], noise=QUIET)
    of.header["command"] = "decode"
    with pytest.raises(UsageError, match=r"before holds whole generations of `pykvbench decode`; compare takes runs"):
        compare_runs([Named("before", of), Named("after", of)])
