"""What is said about backends on machines of every kind, without importing a framework."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from driving import in_fresh_process

from pykvbench.cell import BACKENDS, Cell
from pykvbench.drivers.availability import Surroundings, availability, best_backend, look_around, require, wheel_tags
from pykvbench.drivers.opening import open_driver
from pykvbench.errors import BackendUnavailable, DriverError
from pykvbench.geometry import geometry

CPU_ONLY = Surroundings(
    "Linux", "x86_64", {"torch": "2.13.0+cpu", "mlx": "0.32.4", "mlx-cpu": "0.32.4"}, torch_cuda=False, nvidia=False
)
NVIDIA = Surroundings(
    "Linux", "x86_64", {"torch": "2.13.0", "mlx": "0.32.4", "mlx-cuda-12": "0.32.4"}, torch_cuda=True, nvidia=True
)
MAC = Surroundings(
    "Darwin", "arm64", {"torch": "2.13.0", "mlx": "0.32.4", "mlx-metal": "0.32.4"}, torch_cuda=False, nvidia=False
)
BARE = Surroundings("Linux", "aarch64", {}, torch_cuda=False, nvidia=False)


def refusal(backend: str, here: Surroundings) -> str:
    with pytest.raises(BackendUnavailable) as caught:
        require(backend, here)
    found = availability(backend, here)
    assert not found.available
    assert str(caught.value) == f"{found.reason} {found.remedy}"
    return str(caught.value)


def test_a_linux_machine_without_a_gpu() -> None:
    assert refusal("mps", CPU_ONLY) == (
        "mps needs macOS on Apple silicon; this is Linux x86_64. Use --backend cpu or mlx-cpu."
    )
    assert refusal("cuda", CPU_ONLY) == (
        "cuda needs an NVIDIA GPU and torch built for CUDA; this Linux x86_64 machine shows no NVIDIA driver "
        "and torch 2.13.0+cpu is not built for CUDA. Use --backend cpu or mlx-cpu."
    )
    assert availability("cpu", CPU_ONLY).reason == "torch 2.13.0+cpu on the CPU"
    assert availability("mlx", CPU_ONLY).reason == "mlx 0.32.4 on the CPU, with no GPU that it can use"
    assert availability("mlx-cpu", CPU_ONLY).reason == "mlx 0.32.4 on the CPU"
    assert best_backend(CPU_ONLY) == "cpu"


def test_an_nvidia_machine() -> None:
    assert availability("cuda", NVIDIA).reason == "torch 2.13.0 on CUDA"
    assert availability("mlx", NVIDIA).reason == "mlx 0.32.4 on CUDA"
    assert best_backend(NVIDIA) == "cuda"
    cpu_wheel = replace(NVIDIA, versions={"torch": "2.13.0+cpu"}, torch_cuda=False)
    assert refusal("cuda", cpu_wheel) == (
        "cuda needs an NVIDIA GPU and torch built for CUDA; torch 2.13.0+cpu is not built for CUDA. "
        "Install torch for CUDA or use --backend cpu."
    )
    no_torch = replace(NVIDIA, versions={"mlx": "0.32.4", "mlx-cuda-12": "0.32.4"}, torch_cuda=False)
    assert best_backend(no_torch) == "mlx"


def test_an_apple_machine() -> None:
    assert availability("mps", MAC).reason == "torch 2.13.0 on Metal"
    assert availability("mlx", MAC).reason == "mlx 0.32.4 on Metal"
    assert best_backend(MAC) == "mps"
    intel = replace(MAC, machine="x86_64", versions={"torch": "2.2.2"})
    assert refusal("mps", intel) == "mps needs macOS on Apple silicon; this is Darwin x86_64. Use --backend cpu."
    assert refusal("mps", replace(MAC, versions={"mlx": "0.32.4"})) == (
        "mps needs torch, which is not installed. Pip install torch or use --backend mlx or mlx-cpu."
    )


def test_a_machine_with_nothing_installed() -> None:
    assert refusal("cpu", BARE) == "cpu needs torch, which is not installed. Pip install torch."
    assert refusal("mlx", BARE) == "mlx needs mlx, which is not installed. Pip install 'mlx[cpu]'."
    front_end = replace(BARE, versions={"mlx": "0.32.4"})
    assert refusal("mlx-cpu", front_end) == (
        "mlx-cpu needs a part of mlx 0.32.4 that is not installed. Pip install 'mlx[cpu]'."
    )
    with pytest.raises(BackendUnavailable, match="^No backend can run here: cpu needs torch, which is not installed. "):
        best_backend(BARE)
    assert availability("simulated", BARE).available


def test_every_backend_is_answered_here() -> None:
    for backend in BACKENDS:
        found = availability(backend)
        assert found.available != bool(found.remedy)
        assert found.reason
    require("simulated")
    assert look_around().versions.keys() >= {"torch", "mlx"}


def test_asking_loads_no_framework() -> None:
    assert in_fresh_process("loaded_frameworks") == []


def test_wheel_tags_are_read_and_what_is_absent_is_left_out() -> None:
    tags = wheel_tags("numpy", "no-such-distribution")
    assert list(tags) == ["numpy"]
    assert tags["numpy"].startswith("cp")


@pytest.mark.parametrize(("backend", "other"), [("mlx", "torch"), ("cpu", "mlx.core")])
def test_the_frameworks_never_share_a_process(monkeypatch: pytest.MonkeyPatch, backend: str, other: str) -> None:
    monkeypatch.setitem(sys.modules, other, ModuleType(other))
    with pytest.raises(
        DriverError, match=f"^{other} is already loaded in this process; open {backend} in a process of its own.$"
    ):
        open_driver(Cell(backend, "manual", "prealloc", geometry("gpt2")), 8, 0)
