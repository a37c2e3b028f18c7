"""What a user types and gets: exit statuses, single sentences, and nothing written when nothing can be done."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykvbench.cell import BACKENDS, Cell
from pykvbench.cli import main
from pykvbench.cli.show import dated
from pykvbench.drivers.availability import availability
from pykvbench.geometry import geometry

COMMANDS = sorted(main.commands)
TINY = ["attn", "--backend", "simulated", "--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0"]


def pykvbench(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--len", "530:380"], "--len 530:380 is empty; write 380:530."),
        (["--len", "0:10"], "--len 0:10 contains 0; the smallest value is 1, such as 1:10."),
        (
            ["--len", "abc"],
            "--len abc is not a range; write whole numbers such as 380:530, 380:530:2, 64:4096:*2 or 128,256.",
        ),
        (
            ["--len", "1:10000000"],
            "--len 1:10000000 has more than 100000 values; add a step, such as 1:10000:8 or 64:65536:*2.",
        ),
        (["--backend", "tpu"], "--backend tpu is unknown; choose one of mps, cuda, mlx, cpu, mlx-cpu, simulated."),
        (["--backend", "cpu,tpu"], "--backend tpu is unknown; choose one of mps, cuda, mlx, cpu, mlx-cpu, simulated."),
        (["--cache", "none"], "--cache none is unknown; choose one of prealloc, concat, chunked, padded."),
        (
            ["--num-heads", "12", "--num-kv-heads", "5"],
            "12 heads cannot share 5 KV heads; make --num-heads a multiple of --num-kv-heads.",
        ),
        (["--num-layers", "0"], "--num-layers 0 is not possible; give a whole number of at least 1."),
        (["--sweeps", "0"], "--sweeps 0 measures nothing; use at least 3, or leave the default of 5."),
        (
            ["--backend", "cpu", "--simulate", "421=2x"],
            "--simulate programs the simulated device only; add --backend simulated.",
        ),
        (["--min-ratio", "nan"], "--min-ratio nan is not possible; give a ratio above 1, such as 1.10."),
        (["--min-ratio", "inf"], "--min-ratio inf is not possible; give a ratio above 1, such as 1.10."),
        (["--min-ratio", "1"], "--min-ratio 1 is not possible; give a ratio above 1, such as 1.10."),
        (["--inject", "9:2x"], "--inject 9:2x is outside the measured lengths 380:530; inject at one of them."),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = pykvbench("attn", *arguments)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {message}\n"
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_model_names_the_known_ones() -> None:
    result = pykvbench("attn", "--model", "gpt5")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: --model gpt5 is unknown; choose one of distilgpt2, gpt2, ")


@pytest.mark.skipif(sys.platform != "linux", reason="says what Linux lacks")
def test_mps_on_linux_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = pykvbench("attn", "--backend", "mps")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: mps needs macOS on Apple silicon; this is Linux")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="says what Linux lacks")
def test_cuda_without_an_nvidia_gpu_says_what_is_missing_and_what_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if availability("cuda").available:
        pytest.skip("this machine has CUDA")
    monkeypatch.chdir(tmp_path)
    result = pykvbench("attn", "--backend", "cuda", "--len", "4:6")
    assert result.exit_code == 2
    message = (
        r"^Error: cuda needs an NVIDIA GPU and torch built for CUDA; .+\. (Install torch for CUDA or u|U)se --backend "
    )
    assert re.search(message, result.stderr, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="says what Linux lacks")
def test_mlx_without_a_gpu_is_said_to_be_the_cpu(tmp_path: Path) -> None:
    if availability("mlx").gpu:
        pytest.skip("this machine has a GPU that MLX can use")
    tiny = ["--num-layers", "1", "--num-heads", "1", "--head-dim", "8", "--warmup", "0", "--sweeps", "1"]
    result = pykvbench("attn", "--backend", "mlx", *tiny, "--len", "4:6", "-o", str(tmp_path / "run.jsonl"))
    assert result.exit_code == 0
    warning = " on the CPU, with no GPU that it can use: these are times of the CPU, not of Metal or CUDA."
    assert warning in result.stderr
    assert warning in " ".join(result.stdout.split())


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("precious")
    result = pykvbench(*TINY, "--len", "4:6", "-o", str(path))
    assert result.exit_code == 2
    assert (
        f"Error: {path} exists; name another file with -o, or finish it with pykvbench attn --resume {path}."
        in result.stderr
    )
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "{} is a folder; name a file with -o, such as {}/run.jsonl."),
        ("x" * 300, "{} cannot be written (File name too long); name another file with -o."),
    ],
)
def test_what_cannot_be_a_run_file_is_said_before_measuring(tmp_path: Path, name: str, message: str) -> None:
    path = str(tmp_path / name)
    result = pykvbench(*TINY, "--len", "4:6", "-o", path)
    assert result.exit_code == 2
    assert f"Error: {message.format(path, path)}\n" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_caches_beyond_the_memory_are_refused_before_measuring(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    result = pykvbench(*TINY, "--num-layers", "1000000000", "--len", "400:401", "-o", str(path))
    assert result.exit_code == 2
    message = r"K and V of 402 tokens need 23961 GiB and this machine has \d+ GiB; lower the longest length"
    assert re.search(message, result.stderr)
    assert not path.exists()


def test_a_decode_run_cannot_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    tiny = ["decode", *TINY[1:], "--budget", "2", "--prompt", "3", "--repeats", "1"]
    assert pykvbench(*tiny, "-o", str(path)).exit_code == 0
    result = pykvbench("attn", "--resume", str(path))
    assert result.exit_code == 2
    assert "is a run of `decode`, and only `attn` runs can be continued; start a new run." in result.stderr


def test_resuming_a_complete_run_adds_nothing_to_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert pykvbench(*TINY, "--len", "4:8", "--sweeps", "1", "-o", str(path)).exit_code == 0
    before = path.read_bytes()
    assert pykvbench("attn", "--resume", str(path)).exit_code == 0
    assert path.read_bytes() == before


def test_two_runs_that_begin_in_one_second_get_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = (Cell("cpu", "manual", "prealloc", geometry("gpt2")),)
    names = []
    for _ in range(3):
        names.append(dated("attn", cells))
        names[-1].parent.mkdir(exist_ok=True)
        names[-1].touch()
    assert len(set(names)) == 3
    assert names[0].name.endswith("-attn-cpu.jsonl")


def test_a_budget_table_speaks_of_budgets(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("budget,time_s\n128,1\n256,2\n384,3\n512,4\n")
    assert pykvbench("analyze", str(table)).stdout.startswith("table: 4 budgets from 128 to 512, 1 sweep\n")


def test_ctrl_c_before_a_run_has_begun_is_not_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pykvbench.analysis.file.analyze_file", interrupted)
    monkeypatch.setattr("pykvbench.record.read", interrupted)
    result = pykvbench("attn", "--resume", "run.jsonl")
    assert (result.exit_code, result.stderr) == (3, "Error: Interrupted.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_and_a_closed_terminal_make_no_traceback(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("length,time_ms\n1,1\n2,1\n3,1\n")
    command = f"{sys.executable} -m pykvbench analyze {table}"
    full = subprocess.run(f"{command} > /dev/full", shell=True, capture_output=True, text=True, timeout=60)
    assert full.returncode == 2
    assert full.stderr == "Error: The output cannot be written (No space left on device); make room and try again.\n"
    closed = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True, timeout=60)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_a_place_that_cannot_be_written_is_said_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = pykvbench(*TINY, "--len", "4:6", "-o", str(tmp_path / "file" / "run.jsonl"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


@pytest.mark.parametrize("content", [b"", b"hello\n", b"{}\n", b"\x00\xff\xfe", b"length\n1\n", b"length,time_ms\n"])
def test_a_foreign_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    result = pykvbench("analyze", str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    result = pykvbench("analyze", str(tmp_path / "none.csv"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be read (No such file or directory); name a run file or a CSV table." in result.stderr


def test_a_table_is_analysed_and_json_is_all_that_stdout_holds(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [(length, 5.0 if length == 421 else 1.0) for length in range(400, 441)]
    table.write_text("length,time_ms\n" + "".join(f"{length},{time}\n" for length, time in rows))
    result = pykvbench("analyze", str(table), "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document.keys() >= {"schema", "verdict", "findings", "limit_of_detection", "smallest_p", "notes"}
    assert document["schema"] == 1
    assert document["verdict"] == "unresolved"
    finding = document["findings"][0]
    assert finding.keys() >= {"kind", "lengths", "ratio", "votes", "p", "confidence", "cause", "note"}
    assert (finding["kind"], finding["lengths"], finding["confidence"], finding["votes"]) == (
        "spike",
        [421, 421],
        "apparent",
        None,
    )
    assert pykvbench("analyze", str(table), "--fail-on-finding").exit_code == 1


def test_a_cut_off_run_is_analysed_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert pykvbench(*TINY, "--len", "4:6", "--sweeps", "3", "-o", str(path)).exit_code == 0
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1])[:-9])
    result = pykvbench("analyze", str(path))
    assert result.exit_code == 0
    assert "The last line was cut off and is left out" in " ".join(result.stdout.split())


def test_defaults_are_printed_with_the_result(tmp_path: Path) -> None:
    result = pykvbench(*TINY, "--len", "4:6", "--sweeps", "3", "-o", str(tmp_path / "run.jsonl"))
    shown = " ".join(result.stdout.split())
    assert "1 layer, 1 head x 8 lengths 4:6, 3 sweeps x 7 samples, shuffled order, fresh process each, seed 0" in shown
    assert "3 lengths x 3 sweeps x 7 samples = 81 steps in 3 fresh processes" in result.stderr


def test_a_run_is_drawn(tmp_path: Path) -> None:
    run, picture = tmp_path / "run.jsonl", tmp_path / "run.png"
    pykvbench(*TINY, "--len", "4:9", "--sweeps", "3", "-o", str(run))
    assert pykvbench("plot", str(run), "-o", str(picture)).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_doctor_names_every_backend() -> None:
    examination = json.loads(pykvbench("doctor", "--json").stdout)
    assert [backend["backend"] for backend in examination["backends"]] == list(BACKENDS)
    assert all(backend["available"] or backend["remedy"] for backend in examination["backends"])
    assert examination["clock"]["monotonic"] is True


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = pykvbench(command, "--help")
    assert result.exit_code == 0
    assert f"pykvbench {command}" in result.output.partition("Example:")[2]
    for parameter in main.commands[command].params:
        assert parameter.param_type_name == "argument" or parameter.help, f"{command} {parameter.name} has no help"


def test_the_parent_imports_no_framework_and_help_needs_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pykvbench.cli import main\n"
        f"try: main({[*TINY, '--len', '4:6', '--sweeps', '3', '-o', str(tmp_path / 'run.jsonl')]!r})\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'mlx', 'mlx.core', 'transformers') if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    script = (
        "import sys, pykvbench.cli; print([name for name in ('numpy', 'matplotlib', 'torch') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
