"""Routes of PyTorch on Apple GPUs, by version, against the table of what each release does."""

from __future__ import annotations

import pytest

from pykvbench.cell import Cell
from pykvbench.dispatch.predict import predict
from pykvbench.dispatch.route import Environment, Route
from pykvbench.geometry import Geometry

RELEASES = ("2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1")


def shape(heads: int = 12, kv: int = 12, dim: int = 64, dtype: str = "float32", batch: int = 1) -> Geometry:
    return Geometry(batch, 12, heads, kv, dim, dtype)


def route(
    torch: str | None,
    length: int,
    *,
    macos: str | None = "15.3.1",
    kernel: str = "fused",
    cache: str = "prealloc",
    geometry: Geometry | None = None,
    capacity: int = 4096,
) -> Route:
    cell = Cell("mps", kernel, cache, geometry or shape())
    return predict(cell, Environment(torch=torch, macos=macos), length, capacity)


@pytest.mark.parametrize("version", RELEASES)
def test_every_release_takes_its_own_route_for_a_contiguous_cache(version: str) -> None:
    names = {"2.4.1": ("composite",) * 2} | dict.fromkeys(("2.5.1", "2.6.0", "2.7.1"), ("mpsgraph-sdpa",) * 2)
    expected = names.get(version, ("sdpa-vector-1pass", "sdpa-vector-2pass"))
    assert (route(version, 1023, cache="concat").name, route(version, 1024, cache="concat").name) == expected


@pytest.mark.parametrize(
    ("version", "macos", "name", "copies"),
    [
        ("2.4.1", "15.0", "composite", ("K scaled into a copy",)),
        ("2.5.1", "15.0", "composite", ("K scaled into a copy",)),
        ("2.6.0", "14.7", "composite", ("K scaled into a copy",)),
        ("2.7.1", "14.7", "composite", ("K scaled into a copy",)),
        ("2.6.0", "15.0", "mpsgraph-sdpa", ()),
        ("2.7.1", "26.0", "mpsgraph-sdpa", ()),
        ("2.8.0", "14.7", "composite", ("K scaled into a copy",)),
        ("2.8.0", "15.0", "sdpa-vector-1pass", ("K and V copied whole",)),
        ("2.11.0", "15.0", "sdpa-vector-1pass", ("K and V copied whole",)),
        ("2.12.1", "14.7", "sdpa-vector-1pass", ("K and V copied whole",)),
        ("2.13.0", "14.7", "sdpa-vector-1pass", ()),
        ("2.14.1", "26.0", "sdpa-vector-1pass", ()),
    ],
)
def test_a_sliced_cache_is_copied_gathered_or_read_in_place_by_version_and_macos(
    version: str, macos: str, name: str, copies: tuple[str, ...]
) -> None:
    found = route(version, 512, macos=macos)
    assert (found.name, found.copies) == (name, copies)


def test_a_slice_that_covers_its_buffer_or_has_one_row_is_not_copied() -> None:
    assert route("2.8.0", 4096).copies == ()
    assert route("2.8.0", 512, cache="chunked").copies == ()
    assert route("2.8.0", 513, cache="chunked").copies == ("K and V copied whole",)
    assert route("2.8.0", 513, geometry=shape(1, 1)).copies == ()
    assert route("2.8.0", 513, geometry=shape(1, 1, batch=2)).copies == ("K and V copied whole",)


@pytest.mark.parametrize(
    ("version", "dims"),
    [("2.7.1", ()), ("2.8.0", (64, 96, 128)), ("2.12.1", (64, 96, 128)), ("2.13.0", (64, 96, 128, 256))],
)
def test_only_some_head_sizes_have_a_decode_kernel(version: str, dims: tuple[int, ...]) -> None:
    for dim in (32, 64, 72, 80, 96, 128, 192, 256):
        found = route(version, 300, cache="concat", geometry=shape(dim=dim))
        assert (found.name == "sdpa-vector-1pass") == (dim in dims)
        if dim not in dims:
            assert found.name == "mpsgraph-sdpa"
            assert found.detail == "a new graph is compiled at each new length"


@pytest.mark.parametrize("version", RELEASES)
def test_a_padded_cache_is_attended_whole_under_a_float_mask(version: str) -> None:
    found = route(version, 300, cache="padded", capacity=2048)
    expected = {"2.4.1": "composite", "2.13.0": "sdpa-vector-2pass", "2.14.1": "sdpa-vector-2pass"}
    assert found.name == expected.get(version, "mpsgraph-sdpa")
    if found.name == "mpsgraph-sdpa":
        assert found.detail == "one graph"
    assert found == route(version, 2000, cache="padded", capacity=2048)


@pytest.mark.parametrize(
    ("version", "name", "copies"),
    [
        ("2.4.1", "unknown", ()),
        ("2.6.0", "unknown", ()),
        ("2.7.1", "mpsgraph-sdpa", ("K and V repeated 4-fold",)),
        ("2.8.0", "sdpa-vector-2pass", ("K and V repeated 4-fold",)),
        ("2.12.1", "sdpa-vector-2pass", ("K and V repeated 4-fold",)),
        ("2.13.0", "sdpa-vector-2pass", ()),
    ],
)
def test_grouped_heads_are_repeated_until_2_12(version: str, name: str, copies: tuple[str, ...]) -> None:
    found = route(version, 4096, geometry=shape(32, 8, 128, "float16"), capacity=8192)
    assert (found.name, found.copies) == (name, copies)
    assert found == route(version, 4095, geometry=shape(32, 8, 128, "float16"), capacity=8192)


def test_the_graph_path_still_repeats_grouped_heads_on_2_13() -> None:
    assert route("2.13.0", 100, geometry=shape(32, 8, 80)).copies == ("K and V repeated 4-fold",)


def test_the_composite_casts_half_precision_and_repeats_groups() -> None:
    found = route("2.7.1", 100, macos="14.0", geometry=shape(32, 8, 128, "float16"))
    assert found.name == "composite"
    assert found.copies == ("K scaled into a copy", "K and V cast to float32", "K and V repeated 4-fold")


def test_launch_sizes_are_given() -> None:
    assert route("2.13.0", 1023).detail == "12 threadgroups"
    assert route("2.13.0", 1024).detail == "384 + 12 threadgroups"


@pytest.mark.parametrize("version", RELEASES)
def test_the_manual_kernel_is_mpsgraph_at_every_length(version: str) -> None:
    routes = {route(version, length, kernel="manual") for length in (1, 341, 1024, 4095)}
    assert {(found.name, found.copies) for found in routes} == {("manual: mpsgraph bmm/softmax", ())}


def test_the_manual_kernel_gathers_slices_before_macos_15() -> None:
    assert route("2.9.1", 500, kernel="manual", macos="14.7.1").copies == ("K and V gathered",)
    assert route("2.9.1", 500, kernel="manual", macos="14.7.1", geometry=shape(1, 1)).copies == ("K gathered",)
    assert route("2.9.1", 500, kernel="manual", macos="14.7.1", cache="concat").copies == ()
    assert route("2.9.1", 500, kernel="manual", macos=None).copies == ("K and V gathered if macOS is older than 15",)


@pytest.mark.parametrize(
    "version",
    [
        None,
        "",
        "2.3.1",
        "2.14.2",
        "2.15.0",
        "3.0.0",
        "2.14.0.dev20260901",
        "2.13.0a0+git1234",
        "2.13.0+git12",
        "2.13.0rc1",
    ],
)
def test_other_versions_and_development_builds_are_unknown(version: str | None) -> None:
    for kernel in ("manual", "fused"):
        found = route(version, 512, kernel=kernel)
        assert found.name == "unknown"
        assert found.detail == f"torch {version or 'version'} is outside the rules, which cover 2.4.0 to 2.14.1"


def test_build_tags_do_not_matter() -> None:
    assert route("2.13.0+cpu", 1024) == route("2.13", 1024)


def test_an_unknown_macos_is_unknown_only_where_it_matters() -> None:
    assert route("2.8.0", 512, macos=None).name == "unknown"
    assert route("2.8.0", 512, macos=None, cache="concat").name == "sdpa-vector-1pass"
    assert route("2.12.1", 512, macos=None).name == "sdpa-vector-1pass"


def test_cuda_must_be_asked_and_the_cpu_is_not_predicted() -> None:
    environment = Environment(torch="2.13.0")
    fused = predict(Cell("cuda", "fused", "prealloc", shape()), environment, 512, 512)
    assert fused.name == "unknown"
    assert fused.detail.endswith("must be asked of torch on the device")
    for backend, kernel in (("cuda", "manual"), ("cpu", "fused"), ("cpu", "manual"), ("simulated", "manual")):
        assert predict(Cell(backend, kernel, "prealloc", shape()), environment, 512, 512).name == "not predicted"


def test_a_route_is_stored_as_plain_values() -> None:
    assert route("2.8.0", 1024).to_json() == {
        "name": "sdpa-vector-2pass",
        "parts": ("384 + 12 threadgroups",),
        "copies": ("K and V copied whole",),
        "source": "torch 2.8+, PR #152781",
    }
