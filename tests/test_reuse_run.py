"""reuse in real processes: every tier leads to the same output, a bad file is refused, and nothing is left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykvbench import record
from pykvbench.cli import main

TINY = ["--num-layers", "2", "--num-heads", "4", "--num-kv-heads", "2", "--head-dim", "8", "--warmup", "0"]
MLX = "mlx-cpu"  # imported in a tenth of the time that torch takes


def command(*options: str, backend: str = MLX) -> list[str]:
    return [sys.executable, "-m", "pykvbench", "reuse", "--backend", backend, *TINY, *options]


def reuse(*options: str, backend: str = MLX) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*options, backend=backend), capture_output=True, text=True, timeout=250)


def test_every_tier_leads_to_the_same_output_and_nothing_is_left_behind(tmp_path: Path) -> None:
    dead = tmp_path / ".pykvbench-kv-4194303"  # beyond what Linux gives a process: as a run leaves that was killed
    dead.mkdir()
    (dead / "kv.safetensors").write_bytes(b"half")
    path = tmp_path / "run.jsonl"
    options = ["--len", "9,300", "--chunk", "128", "--repeats", "1", "--cache", "chunked", "--json", "-o", str(path)]
    done = reuse(*options)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "unresolved" and document["findings"] == []
    assert [file.name for file in tmp_path.iterdir()] == ["run.jsonl"]
    run = record.read(path)
    assert not run.notes
    asked = [line for line in run.reuses if not line["search"]]
    assert sorted((line["length"], line["tier"]) for line in asked) == [
        (length, tier) for length in (9, 300) for tier in ("device", "disk", "host", "recompute")
    ]
    for line in run.reuses:
        assert line["equal"] is True and line["correct"] is True and line["recomputed"] is False
        assert 1 <= len(line["step"]) <= 25
        assert (min(line["read"]) > 0) == (line["tier"] == "disk")
        assert line["memory"]
    assert [line["write"] is not None for line in asked if line["tier"] == "disk"] == [True, True]
    assert str(tmp_path) not in path.read_text()
    assert run.header["plan"]["chunk"] == 128
    drawn = CliRunner().invoke(main, ["plot", str(path), "-o", str(tmp_path / "run.png")])
    assert drawn.exit_code == 0, drawn.output
    compared = CliRunner().invoke(main, ["compare", str(path)])
    assert compared.exit_code == 0, compared.output
    assert "disk against mlx-cpu manual chunked float32, recompute" in compared.stdout


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


def swap(path: Path) -> None:
    shutil.copy(next(file for file in path.parent.iterdir() if file != path), path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (flip, "is damaged: "),
        pytest.param(cut, "is cut short at", marks=pytest.mark.slow),
        pytest.param(swap, "has length 25, and 24 is needed; compute it again.", marks=pytest.mark.slow),
    ],
)
def test_a_kept_file_that_is_bad_is_refused_and_computed_again(
    tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    kept, options = tmp_path / "kept", ["--tier", "disk", "--keep", str(tmp_path / "kept")]
    lengths = "24,25" if damage is swap else "24"
    done = reuse(*options, "--len", lengths, "--repeats", "1", "-o", str(tmp_path / "first.jsonl"))
    assert done.returncode == 0, done.stderr
    (file,) = [path for path in kept.iterdir() if "-24-" in path.name]
    damage(file)
    done = reuse(*options, "--len", "24", "--repeats", "2", "-o", str(tmp_path / "second.jsonl"))
    assert done.returncode == 0, done.stderr
    run = record.read(tmp_path / "second.jsonl")
    (refused,) = [event for event in run.events if event["event"] == "refused"]
    assert words in refused["detail"]
    first, second = [line for line in run.reuses if line["tier"] == "disk"]
    assert first["recomputed"] is True and first["equal"] is True and first["correct"] is True
    assert second["recomputed"] is False and second["equal"] is True  # the first process wrote the file anew
    told = " ".join(done.stderr.split())
    assert "A file of KV was refused and the prompt computed again at 24" in told
    assert "a file of KV was refused 1 time" in " ".join(done.stdout.split())


def test_ctrl_c_keeps_what_was_measured_and_removes_the_files(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with subprocess.Popen(
        command("--len", "64:96", "--repeats", "9", "-o", str(path)), stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 120
        while not (path.exists() and b'"reuse"' in path.read_bytes().partition(b"\n")[2]):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 3
    assert "The run is interrupted; what was measured is in" in told
    assert [file.name for file in tmp_path.iterdir()] == ["run.jsonl"]
    run = record.read(path)
    assert run.reuses and run.end is not None and run.end["status"] == "interrupted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tier", "tape"], "--tier tape is unknown; choose from device, host, disk."),
        (["--chunk", "0"], "--chunk 0 is not possible; give tokens from 1 to 65536, such as 512."),
        (["--repeats", "0"], "--repeats 0 measures nothing; use at least 3, or leave the default of 5."),
        (["--len", "0"], "--len 0 contains 0; the smallest value is 1, such as 1:10."),
        (["--seed", "-1"], "--seed -1 is negative; use a whole number of at least 0."),
        (["--keep", __file__], f"--keep {__file__} is not a folder; name one for the files of K and V."),
        (
            ["--backend", "simulated"],
            "--backend simulated has no KV that could be restored; use --backend cpu.",
        ),
        (
            ["--body", "model", "--len", "1024"],
            "--len 1024 and one token more need 1025 positions and gpt2 has 1024; lower --len or use another --model.",
        ),
        (["--len", "16000000", "--head-dim", "4096"], "K and V of 16000002 tokens, held 5 times, need "),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["reuse", "--backend", "cpu", *TINY, "-o", "runs/run.jsonl", *options])
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"Error: {message}")
    assert result.stdout == ""
    assert not any(tmp_path.iterdir())


def test_a_disk_without_room_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9, 9, 1000))
    options: list[Any] = ["reuse", "--backend", "cpu", *TINY, "-o", "runs/run.jsonl"]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "Error: The files of K and V need 2.25 MiB on the disk and 1000 B are free; make room, name a run file "
        "elsewhere with -o, or leave out the disk."
    )
    assert not any(tmp_path.iterdir())
