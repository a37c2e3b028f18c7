"""The reproducer: short, alone with its framework, right about the numerics, and truthful by its exit status."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys

import pytest

from pykvbench.analysis.case import Case
from pykvbench.analysis.finding import Finding
from pykvbench.analysis.reproduction import Attempt, attempt
from pykvbench.cell import CACHES, KERNELS, Cell
from pykvbench.drivers.numpy_driver import TOLERANCE
from pykvbench.experiment.reproduce import reproduce, run_script
from pykvbench.geometry import DTYPES, Geometry
from pykvbench.report import repro, repro_mlx, repro_torch
from pykvbench.report.repro import LINES, Reproducer, script

BACKENDS = {"torch": ("cpu", "mps", "cuda"), "mlx": ("mlx", "mlx-cpu")}
SMALL = {"num_heads": 4, "head_dim": 8, "num_layers": 2, "batch": 2}
BLOCK = """\
import runpy, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Blocked())
for file in sys.argv[1:]:
    try:
        runpy.run_path(file)
    except SystemExit as done:
        print("status", done.code)
"""


def case(slow: tuple[int, ...] = (257,), ratio: float | None = 2.0, kind: str = "spike") -> Case:
    others = (*range(slow[0] - 4, slow[0]), *range(slow[-1] + 1, slow[-1] + 5))
    finding = Finding(kind, (slow[0], slow[-1]), ratio, "5/5", 1e-6, "confirmed", "")
    return Case(0, finding, slow, others, ratio)


def text(
    backend: str,
    kernel: str = "manual",
    cache: str = "prealloc",
    dtype: str = "float32",
    kv_heads: int = 4,
    of: Case | None = None,
) -> str:
    geometry = Geometry(num_kv_heads=kv_heads, dtype=dtype, **SMALL)
    of = of or case()
    return script(Reproducer(of, Cell(backend, kernel, cache, geometry), max(of.others) + 1, 7, 1e5))


def quick(source: str) -> str:
    """The same script with one round of three calls and no warm-up."""
    source, found = re.subn(r"(ROUNDS, CALLS = .*), \d+, \d+\n", r"\1, 1, 3\n", source)
    assert found == 1
    return source.replace("time.perf_counter() + 1 ", "time.perf_counter() ")


def timed_as(source: str, seconds: str) -> str:
    """The same script with a programmed time for every step."""
    assert source.count("time.perf_counter() - began") == 1
    return quick(source).replace("time.perf_counter() - began", seconds)


def every(framework: str) -> list[tuple[str, str]]:
    """A script for every combination, with a name."""
    found = []
    for backend, kernel, cache, dtype, heads, ratio in itertools.product(
        BACKENDS[framework], KERNELS, CACHES, DTYPES, (4, 2), (2.0, None)
    ):
        name = f"{backend} {kernel} {cache} {dtype} {heads} {ratio}"
        found.append((name, text(backend, kernel, cache, dtype, heads, case(ratio=ratio))))
    return found


@pytest.mark.parametrize("framework", ["torch", "mlx"])
def test_every_combination_is_short_and_imports_its_framework_alone(framework: str) -> None:
    module = {"torch": "torch", "mlx": "mlx.core"}[framework]
    for name, source in every(framework):
        lines = source.splitlines()
        assert len(lines) <= LINES, name
        assert max(map(len, lines)) <= 120, name
        assert not re.search(r"(?<!\w)<[a-z ]+>|\t", source), name
        imported = {
            alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
        }
        assert imported - {"random", "time", "os"} == {module}, name
        assert "from " not in source.replace(" from {PRESENT}", ""), name


def test_many_long_lengths_stay_short() -> None:
    slow = tuple(range(100_001, 100_006))
    others = tuple(range(99_990, 99_996)) + tuple(range(100_006, 100_012))
    lines = text("mps", of=Case(0, case().finding, slow, others, 20.0)).splitlines()
    assert max(map(len, lines)) <= 120


def test_both_frameworks_say_the_same_things_in_the_same_order() -> None:
    names = [[name for name in vars(module) if name.isupper()] for module in (repro_torch, repro_mlx)]
    assert names[0] == names[1]
    for name in ("KEPT", "FRESH", "BEGIN", "UPDATE", "ATTEND", "MASKS"):
        one, other = getattr(repro_torch, name), getattr(repro_mlx, name)
        assert list(one) == list(other)
        assert [part.count("\n") for part in one.values()] == [part.count("\n") for part in other.values()]
    assert repro_torch.BEGIN == repro_mlx.BEGIN
    assert repro_torch.WRITE == repro_mlx.WRITE


def test_the_numerics_are_held_to_what_a_run_is_held_to() -> None:
    assert repro.TOLERANCE == TOLERANCE


def scripts(backend: str) -> dict[str, str]:
    """Scripts by what is known of them: every combination told to find its effect, and some with another truth."""
    found = {}
    for length, kernel, cache, dtype, heads in itertools.product((257, 5), KERNELS, CACHES, DTYPES, (4, 2)):
        source = text(backend, kernel, cache, dtype, heads, case((length,)))
        found[f"{kernel} {cache} {dtype} {heads} at {length}"] = timed_as(source, "2.0 if n in SLOW else 1.0")
    source, wrong = text(backend), quick(text(backend, of=case(ratio=None, kind="wrong-result")))
    found["below the threshold"] = timed_as(source, "1.4 if n in SLOW else 1.0")
    found["dearer than shorter ones only"] = timed_as(source, "1.0 if n >= 257 else 0.5")
    found["off"] = quick(source).replace("- began, o", "- began, o * 1.01")
    found["right"] = wrong
    found["wrong"] = wrong.replace("- began, o", "- began, o * (1.01 if n in SLOW else 1)")
    found["not a number"] = wrong.replace("- began, o", "- began, o * float('nan')")
    return found


@pytest.fixture(scope="module", params=["cpu", "mlx-cpu"])
def attempts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Attempt]:
    """How all the scripts of a framework end in a process that can import that framework alone."""
    folder, found = tmp_path_factory.mktemp("scripts"), scripts(request.param)
    files = [folder / f"{number}.py" for number in range(len(found))]
    for file, source in zip(files, found.values(), strict=True):
        file.write_text(source)
    blocked = ("mlx", "pykvbench") if request.param == "cpu" else ("torch", "numpy", "pykvbench")
    command = [sys.executable, "-W", "error", "-c", BLOCK.format(blocked=blocked), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=folder)
    assert done.returncode == 0, done.stderr
    *parts, rest = re.split(r"^status (.*)\n", done.stdout, flags=re.MULTILINE)
    assert rest == ""
    return {
        name: attempt(int(status), output) for name, output, status in zip(found, parts[::2], parts[1::2], strict=True)
    }


def test_every_combination_is_right_and_finds_its_effect(attempts: dict[str, Attempt]) -> None:
    combinations = {name: one for name, one in attempts.items() if " at " in name}
    assert len(combinations) == 96
    assert [name for name, one in combinations.items() if (one.status, one.observed) != (1, 2.0)] == []
    first = combinations["manual prealloc float32 4 at 257"]
    assert first.shows
    assert "observed 2.00x, expected 1.00x, claimed 2.0x, counted as there from 1.414x on" in first.output
    assert re.search(r"^    257 keys  2000000.0 us  slow$", first.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "status", "observed"),
    [("below the threshold", 0, 1.4), ("dearer than shorter ones only", 0, 1.0), ("not a number", 1, float("inf"))],
)
def test_the_exit_status_tells_what_was_observed(
    attempts: dict[str, Attempt], name: str, status: int, observed: float
) -> None:
    assert (attempts[name].status, attempts[name].observed) == (status, observed)


def test_a_wrong_result_is_an_effect_of_its_own_and_spoils_any_other(attempts: dict[str, Attempt]) -> None:
    assert (attempts["off"].status, attempts["off"].shows) == (2, False)
    assert attempts["right"].status == 0
    assert (attempts["right"].observed or 1.0) < 5e-5
    assert attempts["wrong"].shows
    assert (attempts["wrong"].observed or 0.0) > 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "mlx-cpu"])
def test_growth_of_a_chunked_cache_is_reproduced(backend: str) -> None:
    large = Geometry(1, 2, 12, 12, 64, "float32")
    source = script(Reproducer(case(ratio=1.5), Cell(backend, "manual", "chunked", large), 262, 7, 1e6))
    assert run_script(source, 200).shows
    without = script(Reproducer(case(ratio=1.5), Cell(backend, "manual", "prealloc", large), 262, 7, 1e6))
    assert run_script(without, 200).status == 0


def test_a_reproducer_that_hangs_or_fails_is_given_up() -> None:
    hung = run_script("import time\nprint('observed 3.00x', flush=True)\ntime.sleep(60)\n", 1.0)
    assert (hung.status, hung.shows) == (None, False)
    assert hung.output.endswith("given up after 1 s")
    failed = run_script("import warnings\nwarnings.warn('an old name')\n", 60)
    assert (failed.status, failed.observed, failed.shows) == (1, None, False)
    assert failed.output.endswith("UserWarning: an old name")


def test_output_is_read_for_what_was_observed_last() -> None:
    assert attempt(1, "observed 3x\nobserved 21.30x, expected\n").observed == 21.3
    assert attempt(1, "observed 2.5e-01, expected at most").observed == 0.25
    assert attempt(1, "I observed 3.0x\n").observed is None


def test_what_cannot_run_here_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("cpu", "manual", "prealloc", Geometry(num_kv_heads=4, dtype="float32", **SMALL))
    monkeypatch.setattr("pykvbench.experiment.reproduce.run_script", None)
    small = reproduce("", cell, 1 << 22, 1.0, {"memory_bytes": 1 << 30}, False)
    assert (small.executed, small.reason) == (False, "it needs 24 GiB and this machine has 1 GiB.")
    gpu = reproduce("", cell, 10, 1.0, {}, False, gpu=True)
    assert gpu.reason.startswith("the run was made on a GPU, and this is torch ")
