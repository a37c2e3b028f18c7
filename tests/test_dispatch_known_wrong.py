"""Cells that are wrong in certain releases are named, and their neighbours are not."""

from __future__ import annotations

import pytest

from pykvbench.cell import Cell
from pykvbench.dispatch.known_wrong import known_wrong
from pykvbench.dispatch.route import Environment
from pykvbench.geometry import Geometry


def geometry(heads: int, kv: int, dim: int, dtype: str, batch: int = 1) -> Geometry:
    return Geometry(batch, 12, heads, kv, dim, dtype)


GPT2 = geometry(12, 12, 64, "float32")

TORCH_HALF = (
    "torch 2.9.1 writes past its buffers in float16 from L = 1024 on, so results there are wrong and not deterministic "
    "(#174861); upgrade to torch 2.11 or newer."
)


@pytest.mark.parametrize("version", ["2.8.0", "2.9.1", "2.10.0"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_known_wrong_in_torch_2_8_to_2_10(version: str, dtype: str) -> None:
    shape = geometry(12, 12, 64, dtype)
    cell, device = Cell("mps", "fused", "prealloc", shape), Environment(torch=version, macos="15.0")
    assert known_wrong(cell, device, range(900, 1024)) == ()
    expected = TORCH_HALF.replace("2.9.1", version).replace("float16", dtype)
    assert known_wrong(cell, device, range(900, 1025)) == (expected,)
    assert known_wrong(Cell("mps", "manual", "prealloc", shape), device, range(900, 1025)) == ()
    assert known_wrong(Cell("mps", "fused", "padded", shape), device, range(900, 1025)) == ()


def test_the_neighbours_of_that_defect_are_right() -> None:
    half = geometry(12, 12, 64, "float16")
    for version in ("2.7.1", "2.11.0", "2.13.0"):
        device = Environment(torch=version, macos="15.0")
        assert known_wrong(Cell("mps", "fused", "concat", half), device, [2048]) == ()
    device = Environment(torch="2.9.1", macos="15.0")
    assert known_wrong(Cell("mps", "fused", "concat", GPT2), device, [2048]) == ()
    assert known_wrong(Cell("mps", "fused", "concat", geometry(12, 12, 80, "float16")), device, [2048]) == ()


def mlx_wrong(version: str, architecture: str, shape: Geometry, *sampled: int, **variables: str) -> tuple[str, ...]:
    device = Environment(mlx=version, architecture=architecture, variables=variables)
    return known_wrong(Cell("mlx", "fused", "concat", shape), device, sampled)


def test_groups_of_8_in_batches_are_known_wrong_in_mlx_0_32_2() -> None:
    shape = geometry(16, 2, 128, "float16", batch=2)
    sentence = (
        "mlx 0.32.2 ignores the batch index for groups of 8 from L = 8192 on (#4431); upgrade to 0.32.3 or newer.",
    )
    assert mlx_wrong("0.32.2", "applegpu_g15g", shape, 8192) == sentence
    assert mlx_wrong("0.32.2", "applegpu_g15g", shape, 4000, 9000) == sentence
    assert mlx_wrong("0.32.2", "applegpu_g15g", shape, 8191) == ()
    assert mlx_wrong("0.32.3", "applegpu_g15g", shape, 8192) == ()
    assert mlx_wrong("0.32.2", "applegpu_g15g", geometry(16, 2, 128, "float16"), 8192) == ()
    assert mlx_wrong("0.32.2", "applegpu_g15g", geometry(16, 2, 96, "float16", batch=2), 8192) == ()


def test_older_defects_of_mlx_are_named() -> None:
    batch = geometry(12, 12, 64, "float32", batch=2)
    assert mlx_wrong("0.25.1", "applegpu_g15g", batch, 300) == (
        "mlx 0.25.1 can be wrong for batches above 1 in fused attention (#2152); upgrade to 0.25.2 or newer.",
    )
    assert mlx_wrong("0.25.2", "applegpu_g15g", batch, 300) == ()
    assert mlx_wrong("0.32.0", "applegpu_g13g", GPT2, 300) == (
        "mlx 0.32.0 does not check that its 1-pass kernel fits an M1-class GPU; where it does not, it is silently not "
        "launched and returns zeros, very fast (#4018); upgrade to 0.32.1 or newer.",
    )
    assert mlx_wrong("0.32.1", "applegpu_g13g", GPT2, 300) == ()
    assert mlx_wrong("0.32.0", "applegpu_g14g", GPT2, 300) == ()
    half = geometry(12, 12, 64, "bfloat16")
    assert mlx_wrong("0.30.5", "applegpu_g14d", half, 2048) == (
        "mlx 0.30.5 can fail in its 2-pass kernel in bfloat16 on M1 and M2 (#3099); upgrade to 0.30.6 or newer.",
    )
    assert mlx_wrong("0.30.6", "applegpu_g14d", half, 2048) == ()
    assert mlx_wrong("0.30.5", "applegpu_g15d", half, 2048) == ()
    assert mlx_wrong("0.30.5", "applegpu_g14d", half, 512) == ()
    assert mlx_wrong("0.32.0", "applegpu_g15d", GPT2, 2048, MLX_SDPA_BLOCKS="40") == (
        "mlx 0.32.0 drops keys when MLX_SDPA_BLOCKS is not a multiple of 32; unset it.",
    )
    assert mlx_wrong("0.32.1", "applegpu_g15d", GPT2, 2048, MLX_SDPA_BLOCKS="40") == ()


def test_nothing_is_known_wrong_elsewhere() -> None:
    assert known_wrong(Cell("cpu", "fused", "prealloc", GPT2), Environment(torch="2.9.1"), [2048]) == ()
    assert mlx_wrong("0.25.1", "sm_90", geometry(12, 12, 64, "float32", batch=2), 300) == ()
    assert mlx_wrong("0.32.4", "applegpu_g15g", GPT2) == ()
