"""The torch and MLX files are the same step: the same definitions in the same order, few lines different."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import pytest

import pykvbench

DRIVERS = Path(pykvbench.__file__).parent / "drivers"
ONE_SIDED = ("_is_set", "_spare_one_core", "_event", "allocated", "chain_written")  # what only torch's devices need


def definitions(path: Path) -> list[tuple[str, ...]]:
    """Every class, method and public function with its parameters and base classes, in order."""
    found: list[tuple[str, ...]] = []

    def visit(body: list[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                found.append((node.name, *map(ast.unparse, node.bases)))
                visit(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef) and node.name not in ONE_SIDED:
                found.append((inside + node.name, *(argument.arg for argument in node.args.args)))

    visit(ast.parse(path.read_text()).body, "")
    return found


@pytest.mark.parametrize(
    "part", ["driver", "cache", "device", "attention", "uncached", "model", "bandwidth", "parts", "work"]
)
def test_both_frameworks_define_the_same_names_in_the_same_order(part: str) -> None:
    torch, mlx = (definitions(DRIVERS / f"{framework}_{part}.py") for framework in ("torch", "mlx"))
    assert torch == mlx
    assert torch


@pytest.mark.parametrize(("part", "share"), [("driver", 0.2), ("attention", 0.45), ("uncached", 0.3), ("model", 0.3)])
def test_a_diff_of_the_drivers_shows_the_spelling_only(part: str, share: float) -> None:
    torch, mlx = ((DRIVERS / f"{framework}_{part}.py").read_text().splitlines() for framework in ("torch", "mlx"))
    changed = [line for line in difflib.ndiff(torch, mlx) if line[:2] in ("- ", "+ ")]
    spelling = (
        "torch",
        "Torch",
        "mx.",
        "mlx",
        "MLX",
        "scaled_dot_product",
        "gqa",
        ".numpy()",
        "np.array",
        "contiguous",
        "causal flag",
        ".repeat(",
        "transpose",
        "swapaxes",
        "F.",
        "gelu",
        "embedding[ids]",
    )
    assert [line for line in changed if not any(word in line for word in spelling)] == []
    assert len(changed) < share * len(torch)
