"""Heap classes of PyTorch's MPS allocator: every row of the table of lengths at which a tensor changes heaps."""

from __future__ import annotations

import pytest

from pykvbench.cell import Cell
from pykvbench.dispatch.landmarks import landmarks
from pykvbench.dispatch.route import Environment, Landmark
from pykvbench.geometry import Geometry

MAC = Environment(torch="2.13.0", macos="15.3.1")
SMALL = "each K and V tensor goes from small to large heaps (8 to 32 MiB)"
LARGE = "each K and V tensor goes from large to extra large heaps (32 MiB to 1 GiB)"
OWN = "each K and V tensor gets a heap of its own"


def geometry(heads: int, kv: int, dim: int, dtype: str, batch: int = 1, layers: int = 12) -> Geometry:
    return Geometry(batch, layers, heads, kv, dim, dtype)


GPT2 = geometry(12, 12, 64, "float32")


def lengths(marks: tuple[Landmark, ...], words: str) -> list[int]:
    return [mark.length for mark in marks if words in mark.what]


HEAPS = [
    # geometry, first length in large heaps, in extra large raw, in extra large with pages, with its own heap
    (GPT2, 342, 3414, 3409, 174_763),
    (geometry(12, 12, 64, "float16"), 683, 6827, 6817, 349_526),
    (geometry(12, 12, 64, "bfloat16"), 683, 6827, 6817, 349_526),
    (geometry(25, 25, 64, "float32"), 164, 1639, 1636, 83_887),
    (geometry(25, 25, 64, "float16"), 328, 3277, 3272, 167_773),
    (geometry(32, 32, 128, "float32"), 65, 640, 640, 32_768),
    (geometry(32, 32, 128, "float16"), 129, 1280, 1279, 65_536),
    (geometry(32, 8, 128, "float32"), 257, 2560, 2557, 131_072),
    (geometry(32, 8, 128, "float16"), 513, 5120, 5113, 262_144),
]


@pytest.mark.parametrize(("shape", "large", "raw", "paged", "own"), HEAPS)
@pytest.mark.parametrize("version", ["2.6.0", "2.9.1", "2.14.1"])
def test_heap_classes_of_a_concatenated_cache(
    version: str, shape: Geometry, large: int, raw: int, paged: int, own: int
) -> None:
    cell = Cell("mps", "manual", "concat", shape)
    marks = landmarks(cell, Environment(torch=version, macos="15.0"), 1, 400_000)
    assert lengths(marks, SMALL) == [large]
    assert lengths(marks, LARGE) == ([raw] if raw == paged else [paged, raw])
    assert own in lengths(marks, OWN)
    if raw != paged:
        assert lengths(marks, LARGE + " if sizes are rounded up to 16 KiB") == [paged]
        assert lengths(marks, LARGE + " if sizes are not rounded") == [raw]


def test_the_edge_lies_between_the_last_small_and_the_first_large_length() -> None:
    for shape, large, *_ in HEAPS:
        bytes_per_key = shape.num_kv_heads * shape.head_dim * shape.itemsize
        assert (large - 1) * bytes_per_key <= 1 << 20 < large * bytes_per_key


def test_a_batch_divides_the_edges() -> None:
    cell = Cell("mps", "manual", "concat", geometry(12, 12, 64, "float32", batch=2))
    assert lengths(landmarks(cell, MAC, 1, 2000), SMALL) == [171]


def test_fixed_buffers_have_no_heap_edge_of_their_own() -> None:
    for cache in ("prealloc", "padded"):
        assert landmarks(Cell("mps", "manual", cache, GPT2), MAC, 1, 4000) == ()


def test_copies_made_each_step_have_heap_edges() -> None:
    old = Environment(torch="2.9.1", macos="15.0")
    marks = landmarks(Cell("mps", "fused", "prealloc", GPT2), old, 300, 1100, capacity=1100)
    assert [(mark.length, mark.what) for mark in marks] == [
        (342, "the step's copy of K goes from small to large heaps (8 to 32 MiB)"),
        (1024, "sdpa-vector-1pass -> sdpa-vector-2pass"),
        (1100, "K and V copied whole -> no copy"),
    ]
    assert lengths(landmarks(Cell("mps", "fused", "prealloc", GPT2), MAC, 300, 1000), "heaps") == []


def test_unused_weights_of_the_first_kernel_leave_the_small_heaps() -> None:
    # B * H * L beyond 262,144 in float32: only batches reach that before L = 1024.
    cell = Cell("mps", "fused", "prealloc", geometry(32, 32, 64, "float32", batch=16))
    assert lengths(landmarks(cell, MAC, 2, 1023), "unused attention weights") == [513]
    assert lengths(landmarks(Cell("mps", "fused", "prealloc", GPT2), MAC, 2, 100_000), "unused attention weights") == []


def test_a_chunked_cache_changes_heaps_when_it_grows() -> None:
    marks = landmarks(Cell("mps", "manual", "chunked", GPT2), MAC, 1, 4000)
    assert lengths(marks, "each K and V buffer goes from small to large") == [257]
    assert lengths(marks, "each K and V buffer goes from large to extra large") == [3329]
    assert lengths(marks, "the chunked cache grows by 256") == [1 + 256 * n for n in range(16)]


def test_the_composite_copies_k_in_float32_for_every_query_head() -> None:
    old = Environment(torch="2.7.1", macos="14.7")
    copy = "the step's scaled copy of K goes from small to large"
    for dtype in ("float32", "float16"):
        cell = Cell("mps", "fused", "prealloc", geometry(12, 12, 64, dtype))
        assert lengths(landmarks(cell, old, 2, 1000), copy) == [342]
    grouped = Cell("mps", "fused", "prealloc", geometry(12, 4, 64, "float32"))
    assert lengths(landmarks(grouped, old, 2, 1000), copy) == [342]


def test_torch_before_2_6_was_not_looked_at() -> None:
    assert lengths(landmarks(Cell("mps", "manual", "concat", GPT2), Environment(torch="2.5.1"), 2, 1000), "heaps") == []
