"""What surrounds the attention in `decode`: against float64, against each other, and the libraries' own models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bodied
import numpy as np
import pytest

import pykvbench
from pykvbench.cell import Cell
from pykvbench.drivers.library import check_library, check_weights
from pykvbench.drivers.numpy_driver import TOLERANCE
from pykvbench.errors import BackendUnavailable, UsageError
from pykvbench.geometry import Geometry, geometry
from pykvbench.weights import inputs, layer_weights, model_weights, tokens

SMALL = Geometry(1, 2, 4, 4, 8, "float32")

Answers = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What each framework gave, in a process of its own; torch first, which saves the model that both load."""
    folder = tmp_path_factory.mktemp("saved")
    found = {}
    for backend in ("cpu", "mlx-cpu"):
        command = [sys.executable, "-W", "error::FutureWarning", bodied.__file__, backend, str(folder)]
        root = str(Path(pykvbench.__file__).parents[1])
        environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        found[backend] = json.loads(done.stdout.splitlines()[-1])
    return found.__getitem__


@pytest.mark.parametrize("backend", ["cpu", "mlx-cpu"])
def test_every_body_cache_and_kernel_agrees_with_float64(answers: Answers, backend: str) -> None:
    errors = answers(backend)["errors"]
    assert len(errors) == 2 * 2 + 3 * 2 * 5 + 2 + 4
    assert {name: error for name, error in errors.items() if not error < TOLERANCE["float32"]} == {}


def test_greedy_tokens_agree_between_the_frameworks_and_vary(answers: Answers) -> None:
    greedy = answers("cpu")["greedy"]
    assert len(greedy) == 300
    assert greedy == answers("mlx-cpu")["greedy"]
    assert len(set(greedy)) > 100


@pytest.mark.parametrize("model", bodied.LIBRARY_MODELS)
def test_hugging_faces_models_give_the_same_tokens_with_and_without_their_cache(answers: Answers, model: str) -> None:
    runs = answers("cpu")["library"]
    assert len(runs[f"{model} manual concat"]) == 20
    assert runs[f"{model} manual concat"] == runs[f"{model} manual none"]
    if model == "bloom-560m":
        assert runs[f"{model} fused concat"] == "Hugging Face's BLOOM has no fused attention; use --kernel manual."
    else:
        assert runs[f"{model} fused concat"] == runs[f"{model} manual concat"]


@pytest.mark.parametrize("model", bodied.LIBRARY_MODELS)
def test_mlx_lm_runs_the_models_it_has_and_names_them_for_the_others(answers: Answers, model: str) -> None:
    run = answers("mlx-cpu")["library"][f"{model} fused chunked"]
    if model in ("bloom-560m", "opt-350m"):
        assert run == (
            f"mlx-lm cannot run {model}; use --model distilgpt2, gpt2, gpt2-medium, gpt2-large, gpt2-xl, qwen2.5-0.5b, "
            "llama-3.2-1b, llama-3.2-3b, llama-3-8b or mistral-7b, or another --backend such as cpu."
        )
    else:
        assert len(run) == 20


def test_a_saved_model_gives_the_same_tokens_in_both_libraries(answers: Answers) -> None:
    saved = answers("cpu")["saved"]
    assert saved == answers("mlx-cpu")["saved"]
    assert len(set(saved)) > 5
    assert max(saved) < 300
    assert answers("mlx-cpu")["prefixed"].endswith("; give one saved for this library.")
    for backend in ("cpu", "mlx-cpu"):
        assert answers(backend)["other shape"].endswith("has n_embd 32, not 768; give its shape with --model.")


@pytest.mark.parametrize(("backend", "framework"), [("cpu", "torch"), ("mlx-cpu", "mlx.core")])
def test_nothing_is_downloaded_and_one_framework_is_loaded(answers: Answers, backend: str, framework: str) -> None:
    assert answers(backend)["offline"] == "1"
    assert answers(backend)["frameworks"] == [framework]
    assert answers(backend)["describe"]["random_weights"] is True


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            Cell("cpu", "manual", "prealloc", SMALL, "library"),
            "--body library caches as Hugging Face's DynamicCache does, not by prealloc; use --cache concat or none.",
        ),
        (
            Cell("mlx", "fused", "none", SMALL, "library"),
            "--body library on MLX is mlx-lm's own generation; use --cache chunked, not none.",
        ),
        (
            Cell("mlx-cpu", "fused", "chunked", Geometry(2, 2, 4, 4, 8, "float32"), "library"),
            "--body library on MLX is mlx-lm's own generation; use --batch 1, not 2.",
        ),
        (
            Cell("cpu", "manual", "concat", bodied.GROUPED, "library", "opt-350m"),
            "opt-350m has no grouped heads, so --body library cannot give it 2 KV heads for 4 heads; "
            "leave out --num-kv-heads.",
        ),
    ],
)
def test_what_a_library_cannot_run_says_what_to_change(cell: Cell, message: str) -> None:
    with pytest.raises(UsageError) as error:
        check_library(cell)
    assert str(error.value) == message


@pytest.mark.parametrize("backend", ["cpu", "mlx-cpu"])
def test_a_prompt_of_nothing_is_refused(answers: Answers, backend: str) -> None:
    assert answers(backend)["no prompt"] == (
        "A model cannot generate from an empty prompt; use a --prompt of at least 1."
    )


def test_a_missing_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykvbench.drivers.library.find_spec", lambda name: None)
    with pytest.raises(BackendUnavailable) as error:
        check_library(Cell("mlx", "fused", "chunked", SMALL, "library"))
    assert str(error.value) == "--body library runs mlx-lm's models, and mlx-lm is not installed; pip install mlx-lm."


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no readable config\.json; give the folder of a saved model\.$"):
        check_weights(Cell("cpu", "manual", "concat", SMALL, "library"), tmp_path)


def test_a_shorter_range_of_inputs_is_the_beginning_of_a_longer_one() -> None:
    cell = Cell("cpu", "manual", "concat", Geometry(2, 2, 4, 4, 8, "float32"), "model")
    assert (tokens(cell, 7, 1) == tokens(cell, 90, 1)[:, :7]).all()
    assert (inputs(cell, 7, 1) == inputs(cell, 90, 1)[:, :7]).all()
    assert (model_weights(cell, 7, 1).positions == model_weights(cell, 90, 1).positions[:7]).all()


def test_weights_have_the_published_shapes_and_fit_the_dtype() -> None:
    cell = Cell("cpu", "manual", "concat", geometry("qwen2.5-0.5b", "float16"), "block", "qwen2.5-0.5b")
    weights = layer_weights(cell, 0, 1)
    assert weights.qkv_weight.shape == ((14 + 2 * 2) * 64, 896)
    assert weights.up_weight.shape == (4864, 896)
    assert (weights.down_weight == weights.down_weight.astype(np.float16)).all()


@pytest.mark.slow
def test_distilgpt2_chooses_the_same_tokens_in_both_frameworks() -> None:
    program = (
        "import sys, bodied; from pykvbench.cell import Cell; from pykvbench.geometry import geometry;"
        "driver = bodied.open_driver("
        "Cell(sys.argv[1], 'manual', 'concat', geometry('distilgpt2'), 'model', 'distilgpt2'), 90, 0);"
        "print(bodied.walk(driver, 65, 20)[1])"
    )
    path = os.pathsep.join([str(Path(pykvbench.__file__).parents[1]), str(Path(bodied.__file__).parent)])
    chosen = [
        subprocess.run(
            [sys.executable, "-c", program, backend],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": path},
        ).stdout
        for backend in ("cpu", "mlx-cpu")
    ]
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0].split())) > 10
