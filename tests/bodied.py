"""Steps every body of a small model in this process and prints what came out as JSON: bodied.py BACKEND FOLDER."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from pykvbench.cell import CACHES, KERNELS, NO_CACHE, Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import numerics_error, reference
from pykvbench.drivers.numpy_model import model_reference
from pykvbench.drivers.opening import open_driver
from pykvbench.errors import PykvbenchError
from pykvbench.geometry import Geometry, geometry
from pykvbench.weights import tokens

SEED = 3
PROMPTS = (3, 9, 5, 5)  # a longer prompt, then a shorter one, then the same again
STEPS = 4
GROUPED = Geometry(2, 2, 4, 2, 8, "float32")
UNGROUPED = Geometry(1, 2, 4, 4, 8, "float32")
SINGLE = Geometry(1, 2, 4, 2, 8, "float32")
ACROSS_A_CHUNK = Geometry(1, 1, 2, 1, 8, "float32")
LIBRARY_MODELS = ("gpt2", "bloom-560m", "opt-350m", "llama-3.2-1b", "qwen2.5-0.5b", "mistral-7b")


def walk(driver: Driver, prompt: int, steps: int) -> tuple[list[Any], list[list[int]]]:
    """One trajectory: each step's outputs and tokens."""
    outputs, chosen = [], []
    driver.reset(prompt)
    for step in range(steps):
        if step:
            driver.advance()
        result = driver.step()
        driver.sync(result)
        outputs.append(driver.outputs(result))
        chosen.append(driver.tokens(result) if driver.tokens else [])
    return outputs, chosen


def worst_error(cell: Cell, prompts: tuple[int, ...] = PROMPTS, steps: int = STEPS) -> float:
    """The worst step's distance from the float64 reference, over trajectories one after the other."""
    capacity = max(prompts) + steps + 1
    driver, worst = open_driver(cell, capacity, SEED), 0.0
    for prompt in prompts:
        outputs, chosen = walk(driver, prompt, steps)
        lengths = range(prompt + 1, prompt + steps + 1)
        if cell.body == "attention":
            expected: Any = reference(cell.geometry, lengths, SEED)
        else:
            ids = None
            if cell.body == "model":
                given = tokens(cell, capacity, SEED)[:, : prompt + 1]
                ids = np.hstack([given, np.array(chosen, dtype=np.int64).T])
            expected = model_reference(cell, lengths, SEED, ids)
        worst = max(worst, *(numerics_error(*pair) for pair in zip(outputs, expected, strict=True)))
    return worst


def prefix_error(cell: Cell) -> float:
    """The worst of the rows before the last in an uncached step, which the step's own output does not show."""
    driver, rows = open_driver(cell, 9, SEED), range(1, 8)
    driver.reset(7)
    results: Any = driver.step()
    outputs = [driver.outputs([o[:, :, :row] for o in results]) for row in rows]
    return max(numerics_error(*pair) for pair in zip(outputs, reference(cell.geometry, rows, SEED), strict=True))


def library(cell: Cell, weights: Path | None = None, prompt: int = 9) -> Any:
    """Twenty tokens of a library's model, or why it has none."""
    try:
        driver = open_driver(cell, 32, SEED, weights=weights)
        chosen = [[step[0] for step in walk(driver, prompt, 20)[1]] for _ in range(2)]
    except PykvbenchError as error:
        return str(error)
    assert chosen[0] == chosen[1]
    return chosen[0]


def save_model(folder: Path) -> None:
    """A small GPT-2 with random weights, saved as Hugging Face saves one."""
    import torch
    import transformers

    from pykvbench.drivers.library import configuration

    torch.manual_seed(SEED)
    cell = Cell("cpu", "manual", "concat", UNGROUPED, "library")
    config = transformers.AutoConfig.for_model(**{**configuration(cell), "vocab_size": 300, "initializer_range": 0.5})
    with torch.inference_mode(False):
        model = transformers.AutoModelForCausalLM.from_config(config)
        model.save_pretrained(folder / "prefixed")
        model.transformer.save_pretrained(folder)  # without the prefix, as the published GPT-2 is


def main(backend: str, folder: Path) -> dict[str, Any]:
    """Everything that the tests look at."""
    mlx = backend.startswith("mlx")
    errors = {
        f"{body} {shape.num_kv_heads} {kernel} {cache}": worst_error(Cell(backend, kernel, cache, shape, body))
        for body in ("attention", "block", "model")
        for shape in (GROUPED, UNGROUPED)
        for kernel in KERNELS
        for cache in (*CACHES, NO_CACHE)
        if (cache == NO_CACHE if body == "attention" else body == "block" or shape is GROUPED)
    }
    for kernel in KERNELS:
        errors[f"prefix {kernel}"] = prefix_error(Cell(backend, kernel, NO_CACHE, GROUPED))
    for cache in CACHES:
        grown = Cell(backend, "manual", cache, ACROSS_A_CHUNK, "block")
        errors[f"grown {cache}"] = worst_error(grown, (254, 3, 254), 5)
    narrow = Cell(backend, "manual", "concat", SINGLE, "model")
    greedy = [step[0] for step in walk(open_driver(narrow, 400, SEED), 5, 300)[1]]
    own = "chunked" if mlx else "concat"
    runs = {
        f"{name} {kernel} {cache}": library(
            Cell(backend, kernel, cache, UNGROUPED if name in LIBRARY_MODELS[:3] else SINGLE, "library", name)
        )
        for name in LIBRARY_MODELS
        for kernel in KERNELS
        for cache in ((own,) if mlx else (own, NO_CACHE))
    }
    if not mlx:
        save_model(folder)
    saved = Cell(backend, "fused", own, UNGROUPED, "library")
    return {
        "errors": errors,
        "greedy": greedy,
        "library": runs,
        "saved": library(saved, folder),
        "prefixed": library(saved, folder / "prefixed") if mlx else None,
        "other shape": library(Cell(backend, "fused", own, geometry("gpt2"), "library"), folder),
        "no prompt": library(saved, folder, 0),
        "offline": os.environ.get("HF_HUB_OFFLINE"),
        "frameworks": [name for name in ("torch", "mlx.core") if sys.modules.get(name) is not None],
        "describe": open_driver(saved, 32, SEED).describe,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
