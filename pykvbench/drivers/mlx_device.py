"""What is particular to an MLX device: finding it, its settings, waiting for it, its counters, its description."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import mlx.core as mx

from pykvbench.cell import Cell
from pykvbench.drivers.availability import wheel_tags
from pykvbench.errors import BackendUnavailable

CACHE_LIMIT = 2 * 1024**3


def find_device(backend: str) -> mx.Device:
    """The device of a backend: MLX's GPU for `mlx` where there is one, the CPU otherwise."""
    gpu = backend == "mlx" and mx.is_available(mx.gpu)
    return mx.Device(mx.gpu if gpu else mx.cpu)


def fix_settings(device: mx.Device) -> dict[str, Any]:
    """Fix what changes speed or rounding, for the whole process, and say what it is now.

    The pool of freed buffers gets one limit everywhere: MLX's own is 32 MiB on a CPU and nearly all memory on Metal.
    MLX-CUDA would raise after 512 KV lengths or so ("cache thrashing"), which a sweep over lengths is by design.
    """
    os.environ["MLX_ENABLE_TF32"] = "0"
    os.environ.setdefault("MLX_ENABLE_CACHE_THRASHING_CHECK", "0")
    mx.set_default_device(device)
    default_limit = mx.set_cache_limit(CACHE_LIMIT)
    return {
        "tf32": False,
        "cache_limit": CACHE_LIMIT,
        "default_cache_limit": default_limit,
        "cache_thrashing_check": os.environ["MLX_ENABLE_CACHE_THRASHING_CHECK"],
    }


def check_dtype(cell: Cell, dtype: mx.Dtype, device: mx.Device) -> None:
    """Raise BackendUnavailable if the device cannot hold the cell's dtype."""
    try:
        mx.eval(mx.zeros(1, dtype=dtype, stream=device))
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise BackendUnavailable(
            f"MLX cannot hold {cell.geometry.dtype} on {cell.backend} ({reason}); "
            "use another --dtype or --backend mlx-cpu."
        ) from None


def finish(device: mx.Device) -> Callable[[Any], object]:
    """What waits until the device has computed a result; in MLX it also starts the work."""
    return mx.eval


def device_times(
    device: mx.Device, step: Callable[[], object]
) -> tuple[Callable[[], object], Callable[[int], list[int]] | None]:
    """The step, and nothing that tells how long it took on the device: MLX has no such thing, up to 0.32."""
    return step, None


def restart_peak(device: mx.Device) -> int:
    """Count the peak of memory from now on; returns the bytes live now."""
    mx.reset_peak_memory()
    return mx.get_active_memory()


def counters(device: mx.Device, live_before: int, buffers: Sequence[mx.array]) -> dict[str, int]:
    """Bytes of the caches' buffers, live in arrays, freed and kept (pooled), live's peak above live_before.

    MLX restarts its peak at 0, so a step that allocates nothing new would show less than was there before.
    """
    counts = {
        "live": mx.get_active_memory(),
        "pooled": mx.get_cache_memory(),
        "peak": max(0, mx.get_peak_memory() - live_before),
    }
    if hasattr(mx, "get_array_buffer_size"):  # since 0.32
        counts["caches"] = mx.get_array_buffer_size(*buffers)
    return counts


def describe(device: mx.Device) -> dict[str, Any]:
    """Version, build and device, for the run file."""
    return {
        "framework": "mlx",
        "version": version("mlx"),
        "wheel": wheel_tags("mlx", "mlx-metal", "mlx-cpu", "mlx-cuda-12", "mlx-cuda-13"),
        "device": "gpu" if device == mx.Device(mx.gpu) else "cpu",
        "device_info": mx.device_info(device),
    }
