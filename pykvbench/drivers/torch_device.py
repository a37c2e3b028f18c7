"""What is particular to a torch device: finding it, its settings, waiting for it, its counters, its description."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pykvbench.cell import Cell
from pykvbench.drivers.availability import wheel_tags
from pykvbench.errors import BackendUnavailable

_INFERENCE_MODE = torch.inference_mode()
_EVENT_PAIRS = 4096  # of the last steps; older ones are used again


def find_device(backend: str) -> torch.device:
    """The device of a backend, or BackendUnavailable with the remedy."""
    if backend == "mps":
        if _is_set("PYTORCH_ENABLE_MPS_FALLBACK"):
            raise BackendUnavailable(
                "PYTORCH_ENABLE_MPS_FALLBACK is set, so a step could run on the CPU unnoticed; unset it and run again."
            )
        if not torch.backends.mps.is_available():
            raise BackendUnavailable(f"torch {torch.__version__} finds no MPS device here; use --backend cpu.")
    if backend == "cuda" and not torch.cuda.is_available():
        raise BackendUnavailable(f"torch {torch.__version__} finds no CUDA device here; use --backend cpu.")
    return torch.device(backend)


def fix_settings(device: torch.device) -> dict[str, Any]:
    """Fix what changes speed or rounding, for the whole process, and say what it is now."""
    if not torch.is_inference_mode_enabled():
        _INFERENCE_MODE.__enter__()  # entered once for the process; as a decorator it cost 5 us a step
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    if device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(_spare_one_core())
    return {
        "inference_mode": torch.is_inference_mode_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "tf32": torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32,
        "fast_math": _is_set("PYTORCH_MPS_FAST_MATH"),
    }


def _spare_one_core() -> int:
    """All cores but one: every parallel step waits for its slowest thread, so any other process would stall them all.

    `OMP_NUM_THREADS=2 python benchmarks/time_to_verdict.py` on two cores, with another process about, shows it.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


def check_dtype(cell: Cell, dtype: torch.dtype, device: torch.device) -> None:
    """Raise BackendUnavailable if the device cannot hold the cell's dtype, as bfloat16 on an old macOS."""
    try:
        torch.zeros(1, dtype=dtype, device=device)
    except (RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise BackendUnavailable(
            f"torch cannot hold {cell.geometry.dtype} on {cell.backend} ({reason}); "
            "use another --dtype or --backend cpu."
        ) from None


def finish(device: torch.device) -> Callable[[Any], object]:
    """What waits until the device has computed a result."""
    if device.type == "mps":
        return lambda results: torch.mps.synchronize()
    if device.type == "cuda":
        return lambda results: torch.cuda.synchronize()
    return lambda results: None


def device_times(
    device: torch.device, step: Callable[[], object]
) -> tuple[Callable[[], object], Callable[[int], list[int]] | None]:
    """The step, and what tells how long its last n calls took on the device itself, in ns; None where nothing can.

    Only CUDA's events can. MPS takes the time of an event on the host, in a callback that may come late, out of order
    or never (pytorch#162872, #193578, #196395), up to torch 2.14.
    """
    if device.type != "cuda":
        return step, None
    pairs: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    def between_events() -> object:
        pair = pairs.popleft() if len(pairs) == _EVENT_PAIRS else (_event(), _event())
        pair[0].record()
        result = step()
        pair[1].record()
        pairs.append(pair)
        return result

    return between_events, lambda n: [round(began.elapsed_time(ended) * 1e6) for began, ended in [*pairs][-n:]]


def restart_peak(device: torch.device) -> int:
    """Count the peak of memory from now on; returns the bytes live now, 0 where neither is counted."""
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def counters(device: torch.device, live_before: int, buffers: Sequence[torch.Tensor]) -> dict[str, int]:
    """Bytes of the caches' buffers, live in arrays, taken from the system (driver), peak of live above live_before."""
    # Asked between a trajectory's steps: all buffers of a cell are of one size, and asking each of 4 cost the step
    # that followed 1.6 % (benchmarks/trajectory_overhead.py).
    counts = {"caches": len(buffers) * buffers[0].untyped_storage().nbytes()} if buffers else {}
    if device.type == "mps":
        counts["live"] = torch.mps.current_allocated_memory()
        counts["driver"] = torch.mps.driver_allocated_memory()
    if device.type == "cuda":
        counts["live"] = torch.cuda.memory_allocated()
        counts["driver"] = torch.cuda.memory_reserved()
        counts["peak"] = torch.cuda.max_memory_allocated() - live_before
    return counts


def describe(device: torch.device) -> dict[str, Any]:
    """Version, build, device and threads, for the run file."""
    facts: dict[str, Any] = {
        "framework": "torch",
        "version": torch.__version__,
        "git": torch.version.git_version,
        "wheel": wheel_tags("torch"),
        "device": device.type,
    }
    if device.type == "mps" and hasattr(torch.backends.mps, "get_name"):  # not in every supported torch
        facts["device_name"] = torch.backends.mps.get_name()
        facts["gpu_cores"] = torch.backends.mps.get_core_count()
    if device.type == "cuda":
        facts["device_name"] = torch.cuda.get_device_name()
        facts["capability"] = list(torch.cuda.get_device_capability())
        facts["cuda"] = torch.version.cuda
        facts["cudnn"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    if device.type == "cpu":
        facts["device_name"] = torch.backends.cpu.get_cpu_capability()
        facts["threads"] = torch.get_num_threads()
        facts["interop_threads"] = torch.get_num_interop_threads()
    return facts


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")
