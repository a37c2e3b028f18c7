"""Landmarks and coincidences, against the published tables of lengths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykvbench.cell import Cell
from pykvbench.dispatch.environment import environment
from pykvbench.dispatch.landmarks import coincidence, landmarks, landmarks_of_run
from pykvbench.dispatch.route import Environment, Landmark
from pykvbench.geometry import Geometry
from pykvbench.record import Run, read

MAC = Environment(torch="2.13.0", mlx="0.32.4", macos="15.3.1", architecture="applegpu_g15g")


def geometry(heads: int, kv: int, dim: int, dtype: str, batch: int = 1, layers: int = 12) -> Geometry:
    return Geometry(batch, layers, heads, kv, dim, dtype)


GPT2 = geometry(12, 12, 64, "float32")


def lengths(marks: tuple[Landmark, ...], words: str) -> list[int]:
    return [mark.length for mark in marks if words in mark.what]


@pytest.mark.parametrize(("first", "growth"), [(1, [1, 257, 513]), (2, [257, 513]), (257, [257, 513]), (258, [513])])
@pytest.mark.parametrize("backend", ["cpu", "cuda", "mps", "mlx", "mlx-cpu"])
def test_chunks_grow_at_257_513(backend: str, first: int, growth: list[int]) -> None:
    assert lengths(landmarks(Cell(backend, "manual", "chunked", GPT2), MAC, first, 600), "grows by 256") == growth


@pytest.mark.parametrize("version", ["2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1"])
@pytest.mark.parametrize("cache", ["prealloc", "concat", "chunked"])
def test_torch_goes_to_two_passes_at_1024(version: str, cache: str) -> None:
    marks = landmarks(Cell("mps", "fused", cache, GPT2), Environment(torch=version, macos="15.0"), 900, 1100)
    assert lengths(marks, "sdpa-vector-1pass -> sdpa-vector-2pass") == [1024]


@pytest.mark.parametrize("version", ["2.4.1", "2.5.1", "2.6.0", "2.7.1"])
def test_torch_has_no_such_edge_before_2_8(version: str) -> None:
    for cache in ("prealloc", "concat"):
        marks = landmarks(Cell("mps", "fused", cache, GPT2), Environment(torch=version, macos="15.0"), 1000, 1100, 2048)
        assert lengths(marks, "->") == []


def test_nothing_happens_at_4096_in_torch() -> None:
    cell = Cell("mps", "fused", "prealloc", geometry(32, 8, 128, "float16"))
    assert landmarks(cell, MAC, 4000, 4200, 8192) == ()


def test_a_chunked_cache_is_contiguous_where_it_is_full() -> None:
    marks = landmarks(Cell("mps", "fused", "chunked", GPT2), Environment(torch="2.9.1", macos="15.0"), 500, 520)
    assert [(mark.length, mark.what) for mark in marks] == [
        (512, "K and V copied whole -> no copy"),
        (513, "no copy -> K and V copied whole"),
        (513, "the chunked cache grows by 256 tokens and K and V are copied whole"),
    ]


def mlx_edges(suffix: str, group: int, dim: int = 64, version: str = "0.32.4", kernel: str = "fused") -> list[int]:
    """Lengths of all changes of route up to 70,000."""
    cell = Cell("mlx", kernel, "concat", geometry(2 * group, 2, dim, "float16"))
    marks = landmarks(cell, Environment(mlx=version, architecture=f"applegpu_g15{suffix}"), 1, 70_000)
    return [mark.length for mark in marks if "->" in mark.what]


MLX_EDGES = [
    # suffix, group, head size, version, lengths
    ("d", 1, 64, "0.32.4", [1024, 8193]),
    ("d", 2, 64, "0.32.4", [1024, 8193]),
    ("d", 4, 64, "0.32.4", [1024]),
    ("d", 3, 64, "0.30.4", [1024]),
    ("d", 6, 64, "0.32.4", [1024, 16384, 65536]),
    ("d", 8, 128, "0.32.4", [1024, 8192, 16384, 65536]),
    ("d", 8, 128, "0.32.1", [1024, 16384, 65536]),
    ("s", 1, 64, "0.32.4", [1024]),
    ("s", 4, 64, "0.32.4", [1024]),
    ("s", 5, 64, "0.32.4", [1024, 1025, 8193, 32769, 65537]),
    ("s", 16, 128, "0.32.3", [1024, 1025, 8192, 8193, 32769, 65537]),
    ("g", 1, 64, "0.32.4", []),
    ("p", 1, 64, "0.32.4", []),
    ("g", 2, 64, "0.32.4", [4096]),
    ("g", 4, 64, "0.32.4", [4096]),
    ("g", 8, 64, "0.32.4", [4096, 8192]),
    ("g", 12, 128, "0.32.3", [4096, 8192]),
    ("g", 12, 128, "0.32.2", [4096]),
    ("d", 6, 64, "0.30.3", [1024]),
    ("s", 1, 64, "0.30.3", []),
    ("s", 5, 64, "0.30.3", [4096]),
    ("g", 4, 64, "0.21.0", [4096]),
    ("d", 1, 64, "0.21.0", [1024]),
    ("d", 8, 512, "0.32.3", [1024, 16384, 65536]),
    ("d", 8, 512, "0.32.2", [4096, 4097]),
    ("g", 33, 128, "0.32.4", [4096, 4097]),
    ("g", 1, 80, "0.32.4", [4096, 4097]),
    ("g", 1, 48, "0.32.4", [4097]),
]


@pytest.mark.parametrize(("suffix", "group", "dim", "version", "edges"), MLX_EDGES)
def test_mlx_routes_change_at_the_published_lengths(
    suffix: str, group: int, dim: int, version: str, edges: list[int]
) -> None:
    assert mlx_edges(suffix, group, dim, version) == edges


def test_mlx_manual_kernel_has_the_edges_of_gemv_and_softmax() -> None:
    assert mlx_edges("g", 1, 128, kernel="manual") == [4096, 4097]
    assert mlx_edges("g", 1, 64, kernel="manual") == [4097]
    assert mlx_edges("g", 1, 64, "0.29.1", kernel="manual") == [4096, 4097]


def test_an_mlx_landmark_names_the_change_and_its_source() -> None:
    cell = Cell("mlx", "fused", "prealloc", geometry(10, 2, 64, "float16"))
    marks = landmarks(cell, Environment(mlx="0.32.4", architecture="applegpu_g14s"), 1000, 1100, 2048)
    assert marks == (
        Landmark(1024, "mlx 1-pass -> mlx 2-pass, 64 blocks", "mlx 0.30.4+, 1935ab445"),
        Landmark(1025, "mlx 2-pass, 64 blocks -> mlx 2-pass, 128 blocks", "mlx 0.30.4+, 1935ab445"),
    )
    cell = Cell("mlx", "manual", "prealloc", geometry(2, 2, 128, "float16"))
    what = [mark.what for mark in landmarks(cell, MAC, 4090, 4100, 8192)]
    tile = "QK^T gemv tile of {} simdgroups"
    assert what == [f"{tile.format(4)} -> {tile.format(8)}", "block softmax -> looped softmax"]


@pytest.mark.parametrize(("suffix", "mebi"), [("g", 41), ("p", 41), ("s", 51), ("d", 51)])
def test_one_layer_fills_a_metal_command_buffer(suffix: str, mebi: int) -> None:
    cell = Cell("mlx", "manual", "prealloc", geometry(32, 8, 128, "float16"))
    device = Environment(mlx="0.32.4", architecture=f"applegpu_g15{suffix}")
    expected = mebi * 2**20 // (8 * 128 * 2)
    assert lengths(landmarks(cell, device, 5000, 50_000), "command buffer") == [expected]
    assert lengths(landmarks(cell, Environment(mlx="0.22.1", architecture="applegpu_g15g"), 1, 50_000), "command") == []


def test_mlx_on_cuda() -> None:
    half, device = geometry(8, 2, 128, "float16"), Environment(mlx="0.32.4", architecture="sm_90")
    changes = [
        (m.length, m.what) for m in landmarks(Cell("mlx", "fused", "chunked", half), device, 200, 600) if "->" in m.what
    ]
    assert changes == [
        (256, "mlx cuda 1-pass -> cudnn"),
        (257, "plan for capacity 256 -> plan for capacity 512"),
        (513, "plan for capacity 512 -> plan for capacity 768"),
    ]
    single = Cell("mlx", "fused", "prealloc", geometry(8, 2, 128, "float32"))
    assert [m.length for m in landmarks(single, device, 1, 5000)] == [1025]
    concat = Cell("mlx", "fused", "concat", half)
    assert [m.length for m in landmarks(concat, device, 200, 600)] == [256, 257, 512, 513]


def test_what_is_not_known_has_no_landmarks() -> None:
    for version in (None, "2.15.0", "2.14.0.dev20260901"):
        for kernel in ("manual", "fused"):
            assert (
                landmarks(Cell("mps", kernel, "concat", GPT2), Environment(torch=version, macos="26.0"), 1, 5000) == ()
            )
    assert (
        landmarks(
            Cell("mlx", "fused", "concat", GPT2), Environment(mlx="0.33.0", architecture="applegpu_g17s"), 1, 5000
        )
        == ()
    )
    assert landmarks(Cell("cuda", "fused", "prealloc", GPT2), MAC, 1, 5000) == ()
    assert landmarks(Cell("cpu", "manual", "concat", GPT2), MAC, 1, 5000) == ()


def test_a_new_letter_says_where_it_stops_being_known() -> None:
    cell = Cell("mlx", "fused", "prealloc", GPT2)
    marks = landmarks(cell, Environment(mlx="0.32.4", architecture="applegpu_g18z"), 900, 1100, 2048)
    assert [(mark.length, mark.what) for mark in marks] == [(1024, "mlx 1-pass -> unknown")]


MARKS = (Landmark(342, "heap", "A"), Landmark(1024, "route", "B"))


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        ((341, 341), "coincides with heap at L = 342 (A)"),
        ((343, 343), "coincides with heap at L = 342 (A)"),
        ((340, 340), None),
        ((344, 344), None),
        ((900, 1023), "coincides with route at L = 1024 (B)"),
        ((1024, 1100), "coincides with route at L = 1024 (B)"),
        ((1000, 1050), None),
        ((342, 1023), "coincides with heap at L = 342 (A); route at L = 1024 (B)"),
    ],
)
def test_a_finding_within_one_length_of_a_landmark_coincides(finding: tuple[int, int], text: str | None) -> None:
    assert coincidence(finding, MARKS) == text


def run_file(folder: Path, describe: dict[str, object], lengths: str = "900:1100") -> Run:
    cells = [Cell("mlx", "fused", "prealloc", GPT2), Cell("mps", "fused", "prealloc", GPT2)]
    machine = {
        "os": "macOS",
        "os_version": "15.3.1",
        "packages": {"torch": {"version": "2.13.0"}, "mlx": {"version": "0.1"}},
    }
    header = {"kind": "header", "schema": 1, "cells": [cell.to_json() for cell in cells], "machine": machine}
    header["plan"] = {"lengths": lengths}
    lines = [header, {"kind": "event", "event": "worker-started", "cell": 0, "describe": describe}]
    (folder / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read(folder / "run.jsonl")


def test_a_run_carries_what_its_landmarks_need(tmp_path: Path) -> None:
    run = run_file(
        tmp_path, {"framework": "mlx", "version": "0.32.4", "device_info": {"architecture": "applegpu_g15d"}}
    )
    assert [(mark.length, mark.what) for mark in landmarks_of_run(run)] == [
        (1024, "mlx 1-pass -> mlx 2-pass, 128 blocks"),
        (1024, "sdpa-vector-1pass -> sdpa-vector-2pass"),
    ]


def test_no_length_of_a_run_fills_its_buffer() -> None:
    old = Environment(torch="2.9.1", macos="15.0")
    cell = Cell("mps", "fused", "prealloc", GPT2)
    assert lengths(landmarks(cell, old, 2, 100, capacity=100), "no copy") == [100]
    assert lengths(landmarks(cell, old, 2, 100), "no copy") == []
    assert lengths(landmarks(cell, old, 1, 100), "no copy") == []


def test_a_run_without_a_worker_or_with_an_unreadable_plan_has_fewer_landmarks(tmp_path: Path) -> None:
    assert [mark.what for mark in landmarks_of_run(run_file(tmp_path, {}))] == [
        "sdpa-vector-1pass -> sdpa-vector-2pass"
    ]
    assert landmarks_of_run(run_file(tmp_path, {}, "none")) == ()


def test_the_environment_of_a_damaged_header_is_unknown() -> None:
    assert environment({"packages": 3, "os": "macOS", "os_version": None, "variables": []}) == Environment()
    assert environment({"os": "Linux", "os_version": "24.04"}).macos is None
    assert environment({"os": "macOS", "os_version": "26.1"}).macos_major == 26
