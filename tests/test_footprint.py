"""Predicted bytes of caches: linear in tokens and sequences, rounded as policy and allocator round."""

import pytest

from pykvbench.cell import CACHES, Cell
from pykvbench.dispatch.footprint import (
    ALLOCATORS,
    allocator_name,
    fitting,
    footprint,
    rows_of,
    whole_sequence,
)
from pykvbench.geometry import Geometry, geometry

SHAPE = Geometry(1, 3, 4, 2, 16, "float32")
PER_TOKEN = 2 * 3 * 2 * 16 * 4


def cell(cache: str, backend: str = "cpu") -> Cell:
    return Cell(backend, "manual", cache, SHAPE)


def test_keys_and_values_alone_are_the_geometrys() -> None:
    for cache in CACHES:
        assert footprint(cell(cache), "cpu", 100, 101).kv == 100 * PER_TOKEN


@pytest.mark.parametrize(
    ("cache", "rows"), [("prealloc", [300, 300, 300]), ("padded", [300, 300, 300]), ("concat", [255, 256, 257])]
)
def test_each_policy_holds_its_own_number_of_rows(cache: str, rows: list[int]) -> None:
    assert [footprint(cell(cache), "cpu", n, 300).buffers // PER_TOKEN for n in (255, 256, 257)] == rows


def test_chunks_are_of_256_rows() -> None:
    held = [footprint(cell("chunked"), "cpu", n, 999).buffers // PER_TOKEN for n in (1, 256, 257, 512, 513)]
    assert held == [256, 256, 512, 512, 768]


def test_growing_needs_the_old_buffers_besides() -> None:
    one = 2 * 16 * 4  # of one layer's K, a token
    assert footprint(cell("concat"), "cpu", 100, 101).growth == 99 * one
    assert footprint(cell("concat"), "mlx cpu", 100, 101).growth == 99 * PER_TOKEN  # all layers are computed at once
    assert footprint(cell("chunked"), "cpu", 257, 999).growth == 256 * one
    assert footprint(cell("chunked"), "cpu", 258, 999).growth == 0
    assert footprint(cell("prealloc"), "cpu", 100, 101).growth == 0


@pytest.mark.parametrize(
    ("allocator", "sizes"),
    [
        ("cpu", {1: 1, 5000: 5000}),
        ("cuda", {1: 512, 512: 512, 513: 1024}),
        ("mps", {1: 16384, 16385: 32768}),
        ("mlx metal", {5000: 5000, 16384: 16384, 16385: 32768}),
        ("mlx cuda", {5000: 8192, 16383: 16384, 16384: 16384, 16385: 32768}),
    ],
)
def test_allocators_round_each_buffer(allocator: str, sizes: dict[int, int]) -> None:
    assert {size: ALLOCATORS[allocator].rounded(size) for size in sizes} == sizes


def test_rounding_counts_for_every_buffer() -> None:
    assert footprint(cell("concat"), "mps", 1, 2).allocated == 2 * 3 * 16384


def test_memory_is_linear_in_tokens_and_sequences() -> None:
    llama = Cell("cpu", "manual", "concat", geometry("llama-3-8b", "float16"))
    sizes = [footprint(llama, "cpu", length, rows_of(length, 1)).allocated for length in (1024, 2048, 4096, 32768)]
    assert [size // sizes[0] for size in sizes] == [1, 2, 4, 32]
    assert sizes[-1] == 4 << 30  # 32 layers x 8 KV heads x 128 x 2 x 2 bytes x 32768


@pytest.mark.parametrize("allocator", ["cpu", "mps", "mlx cpu"])
@pytest.mark.parametrize("cache", CACHES)
def test_as_many_fit_as_can_be_added_up_one_by_one(cache: str, allocator: str) -> None:
    context, tokens = 250, 10
    one = whole_sequence(cell(cache), allocator, context, tokens)
    held = footprint(cell(cache), allocator, context + tokens, rows_of(context, tokens)).allocated
    for budget in (one - 1, one, one + held - 1, one + held, one + 7 * held):
        count = 0
        while one + count * held <= budget:
            count += 1
        assert fitting(cell(cache), allocator, context, tokens, budget) == count


def test_the_allocator_goes_by_backend_and_device() -> None:
    assert allocator_name(cell("concat", "mlx"), "macOS", True) == "mlx metal"
    assert allocator_name(cell("concat", "mlx"), "Linux", True) == "mlx cuda"
    assert allocator_name(cell("concat", "mlx"), "Linux", False) == "mlx cpu"
    assert allocator_name(cell("concat", "mlx-cpu"), "macOS", True) == "mlx cpu"
    for backend in ("cpu", "cuda", "mps", "simulated"):
        assert allocator_name(cell("concat", backend), "Linux", True) == backend
