"""Routes of MLX on Metal, CUDA and the CPU, by version and architecture, against the tables of its dispatch."""

from __future__ import annotations

import pytest

from pykvbench.cell import Cell
from pykvbench.dispatch.predict import predict
from pykvbench.dispatch.route import Environment, Route
from pykvbench.geometry import Geometry


def route(
    length: int,
    suffix: str = "g",
    group: int = 1,
    *,
    version: str | None = "0.32.4",
    dim: int = 64,
    kv: int = 2,
    kernel: str = "fused",
    cache: str = "prealloc",
    dtype: str = "float16",
    architecture: str | None = None,
    batch: int = 1,
    capacity: int = 131072,
    **variables: str,
) -> Route:
    cell = Cell("mlx", kernel, cache, Geometry(batch, 4, kv * group, kv, dim, dtype))
    device = f"applegpu_g15{suffix}" if architecture is None else architecture
    return predict(cell, Environment(mlx=version, architecture=device, variables=variables), length, capacity)


BLOCKS = [
    # letter, group, length, blocks
    ("s", 1, 1024, 64),
    ("s", 4, 100000, 64),
    ("s", 5, 1024, 64),
    ("s", 5, 1025, 128),
    ("s", 5, 8192, 128),
    ("s", 5, 8193, 256),
    ("s", 5, 32768, 256),
    ("s", 5, 32769, 512),
    ("s", 5, 65536, 512),
    ("s", 5, 65537, 1024),
    ("d", 1, 1024, 128),
    ("d", 2, 8192, 128),
    ("d", 2, 8193, 256),
    ("d", 1, 100000, 256),
    ("d", 3, 8193, 128),
    ("d", 5, 100000, 128),
    ("d", 6, 16383, 128),
    ("d", 6, 16384, 512),
    ("d", 6, 65535, 512),
    ("d", 6, 65536, 1024),
    ("g", 2, 4096, 32),
    ("g", 3, 100000, 32),
    ("g", 4, 4096, 64),
    ("g", 8, 100000, 64),
    ("p", 4, 4096, 64),
    ("c", 3, 4096, 32),
]


@pytest.mark.parametrize(("letter", "group", "length", "blocks"), BLOCKS)
def test_block_counts_follow_the_table(letter: str, group: int, length: int, blocks: int) -> None:
    assert route(length, letter, group).name == f"mlx 2-pass, {blocks} blocks"


@pytest.mark.parametrize(
    ("letter", "group", "first_two_pass"),
    [("d", 1, 1024), ("s", 1, 1024), ("d", 4, 1024), ("s", 4, 1024), ("g", 2, 4096), ("p", 2, 4096), ("c", 2, 4096)],
)
def test_two_passes_begin_where_the_letter_says(letter: str, group: int, first_two_pass: int) -> None:
    assert route(first_two_pass - 1, letter, group).name == "mlx 1-pass"
    assert route(first_two_pass, letter, group).name.startswith("mlx 2-pass")


def test_without_groups_a_base_chip_never_leaves_the_first_kernel() -> None:
    assert {route(length, "g", 1).name for length in (1, 1024, 4096, 8192, 131072)} == {"mlx 1-pass"}


def test_before_0_30_4_blocks_are_32_and_max_chips_wait_for_4096() -> None:
    assert route(1024, "d", version="0.30.3").name == "mlx 2-pass, 32 blocks"
    assert route(1024, "s", version="0.30.3").name == "mlx 1-pass"
    assert route(4096, "s", 2, version="0.30.3").name == "mlx 2-pass, 32 blocks"
    assert route(1024, "s", version="0.30.4").name == "mlx 2-pass, 64 blocks"


def test_the_m4_pro_letter_is_read_not_inferred() -> None:
    assert route(1024, architecture="applegpu_g16s").name == "mlx 2-pass, 64 blocks"


@pytest.mark.parametrize("architecture", ["applegpu_g15x", "applegpu_new"])
def test_an_unknown_letter_is_unknown_only_where_it_matters(architecture: str) -> None:
    assert route(1023, architecture=architecture).name == "mlx 1-pass"
    unknown = route(1024, architecture=architecture)
    assert unknown.name == "unknown"
    assert unknown.detail == f"the route of architecture {architecture} at this length is not in the rules"
    assert route(1024, architecture=architecture, dim=80).name == "decomposed"


def test_an_unknown_device_is_unknown() -> None:
    assert route(10, architecture="").detail == "mlx device architecture not known is not in the rules"
    assert route(10, architecture="gfx942").detail == "mlx device architecture gfx942 is not in the rules"


def test_an_override_of_the_architecture_is_what_mlx_routes_by() -> None:
    assert route(1024, "g", MLX_METAL_GPU_ARCH="applegpu_g15d").name == "mlx 2-pass, 128 blocks"


@pytest.mark.parametrize(
    ("version", "asked", "blocks"),
    [
        ("0.31.0", "96", 128),
        ("0.32.0", "40", 40),
        ("0.32.1", "40", 64),
        ("0.32.4", "96", 96),
        ("0.32.4", "0", 128),
        ("0.32.4", "x", 128),
    ],
)
def test_a_block_count_from_the_environment(version: str, asked: str, blocks: int) -> None:
    assert route(1024, "d", version=version, MLX_SDPA_BLOCKS=asked).name == f"mlx 2-pass, {blocks} blocks"


@pytest.mark.parametrize("dim", [32, 48, 72, 80, 112, 160, 192])
def test_these_head_sizes_are_never_fused(dim: int) -> None:
    assert route(300, dim=dim).name == "decomposed"


@pytest.mark.parametrize(("version", "name"), [("0.24.2", "decomposed"), ("0.25.0", "mlx 1-pass")])
def test_masks_and_heads_of_256_are_fused_since_0_25(version: str, name: str) -> None:
    assert route(300, version=version, cache="padded", capacity=512).name == name
    assert route(300, version=version, dim=256).name == name


def test_heads_of_512_are_fused_for_groups_of_8_from_1024_on_since_0_32_3() -> None:
    assert route(1023, group=8, dim=512).name == "decomposed"
    assert route(1024, "d", group=8, dim=512).name == "mlx 2-pass, 128 blocks"
    assert route(1024, "g", group=8, dim=512).name == "mlx 1-pass"
    assert route(1024, "g", group=4, dim=512).name == "decomposed"
    assert route(1024, "g", group=8, dim=512, version="0.32.2").name == "decomposed"
    assert route(1024, "g", group=8, dim=512, cache="padded").name == "decomposed"
    assert route(64, "g", group=8, dim=512, MLX_SDPA_D512_MIN_KL="64").name == "mlx 1-pass"


def test_groups_above_32_are_decomposed_since_0_30_4() -> None:
    assert route(300, group=33).name == "decomposed"
    assert route(300, group=32).name == "mlx 1-pass"
    assert route(300, group=33, version="0.30.3").name == "mlx 1-pass"


@pytest.mark.parametrize(
    ("version", "group", "dim", "cache", "reuse"),
    [
        ("0.32.1", 8, 128, "concat", False),
        ("0.32.2", 8, 128, "concat", True),
        ("0.32.2", 8, 64, "concat", True),
        ("0.32.2", 8, 96, "concat", False),
        ("0.32.2", 16, 128, "concat", False),
        ("0.32.3", 16, 128, "concat", True),
        ("0.32.3", 12, 128, "concat", True),
        ("0.32.3", 12, 64, "concat", False),
        ("0.32.3", 4, 128, "concat", False),
        ("0.32.4", 8, 128, "padded", False),
    ],
)
def test_pass_1_reuses_keys_from_8192_on(version: str, group: int, dim: int, cache: str, reuse: bool) -> None:
    assert route(8191, "g", group, version=version, dim=dim, cache=cache, capacity=8191).detail == "generic pass 1"
    expected = f"pass 1 for groups of {group}" if reuse else "generic pass 1"
    assert route(8192, "g", group, version=version, dim=dim, cache=cache, capacity=8192).detail == expected


def test_a_slice_is_never_copied() -> None:
    assert route(300, "s", 4, batch=2).copies == ()


def test_the_manual_kernel_is_decomposed_with_its_own_edges() -> None:
    assert route(4095, kernel="manual", dim=128).detail == "QK^T gemv tile of 4 simdgroups; block softmax"
    assert route(4096, kernel="manual", dim=128).detail == "QK^T gemv tile of 8 simdgroups; block softmax"
    assert route(4097, kernel="manual", dim=128).detail == "QK^T gemv tile of 8 simdgroups; looped softmax"
    assert route(4096, kernel="manual", dim=64).detail == "block softmax"
    assert route(4096, kernel="manual", version="0.29.1").detail == "QK^T gemv tile of 8 simdgroups; block softmax"
    assert route(4096, kernel="manual", dim=128, group=4).detail == "block softmax"


def test_the_fallback_of_grouped_heads_is_a_gemv_unless_it_folds() -> None:
    assert route(4096, dim=80, group=4).detail == "QK^T gemv tile of 8 simdgroups; block softmax"
    assert route(4096, dim=80, group=4, kv=1).detail == "block softmax"
    assert route(4096, dim=80, group=4, kv=1, batch=2).detail == "QK^T gemv tile of 8 simdgroups; block softmax"


@pytest.mark.parametrize("version", [None, "0.20.0", "0.32.5", "0.33.0", "1.0.0", "0.32.4.dev2026+ab", "0.32.4rc1"])
@pytest.mark.parametrize("architecture", ["applegpu_g15d", "sm_90", "x86_64"])
def test_other_versions_are_unknown(version: str | None, architecture: str) -> None:
    for kernel in ("manual", "fused"):
        assert route(300, version=version, architecture=architecture, kernel=kernel).name == "unknown"


def test_the_cpu_is_always_decomposed() -> None:
    assert route(300, architecture="x86_64").name == "decomposed"
    cell = Cell("mlx-cpu", "fused", "prealloc", Geometry(1, 4, 8, 2, 64, "float32"))
    assert predict(cell, Environment(mlx="0.32.4"), 300, 300).name == "decomposed"


def cuda(length: int, **options: object) -> str:
    return route(length, **{"architecture": "sm_90", **options}).name  # type: ignore[arg-type]


@pytest.mark.parametrize("cache", ["chunked", "prealloc"])
def test_cuda_takes_cudnn_from_256_on_for_sliced_half_precision_caches(cache: str) -> None:
    assert cuda(255, cache=cache) == "mlx cuda 1-pass"
    assert cuda(256, cache=cache) == "cudnn"
    assert cuda(256, cache=cache, version="0.30.6") == "mlx cuda 1-pass"
    assert cuda(256, cache=cache, dtype="float32") == "mlx cuda 1-pass"
    assert cuda(256, cache=cache, architecture="sm_75") == "mlx cuda 1-pass"
    assert cuda(256, cache=cache, MLX_CUDA_USE_CUDNN_SDPA="0") == "mlx cuda 1-pass"
    assert cuda(256, cache=cache, architecture="sm_next") == "unknown"


def test_cuda_needs_a_capacity_in_chunks_of_256() -> None:
    assert cuda(300, capacity=300) == "mlx cuda 1-pass"
    assert cuda(511, cache="concat") == "mlx cuda 1-pass"
    assert cuda(512, cache="concat") == "cudnn"


def test_cuda_vector_kernel_goes_to_two_passes_at_1025() -> None:
    assert cuda(1024, dtype="float32") == "mlx cuda 1-pass"
    assert cuda(1025, dtype="float32") == "mlx cuda 2-pass, 32 blocks"


def test_cuda_decomposes_masks_and_other_head_sizes() -> None:
    assert cuda(300, dim=80) == "decomposed"
    assert cuda(300, dim=256) == "decomposed"
    assert cuda(300, cache="padded") == "decomposed"
    assert cuda(300, kernel="manual") == "decomposed"
    assert cuda(300, version="0.27.1") == "unknown"
