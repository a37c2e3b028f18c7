"""Environment variables that change what is timed: recorded with every run, and explained before one."""

from __future__ import annotations

import getpass
import os
import platform
import re
from collections.abc import Iterable, Mapping

_FRAMEWORKS = ("PYTORCH_", "TORCH_", "MLX_", "MTL_", "METAL_", "CUDA_", "NVIDIA_")
_LIBRARIES = ("OMP_", "MKL_", "KMP_", "OPENBLAS_", "VECLIB_")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
# What may say where or who: paths, addresses, identifiers of a device.
_PRIVATE = re.compile(r"[/\\~@]|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}")
_HIDDEN = "(set)"

# What each variable does. "0" counts as unset, except for those in _BY_PRESENCE.
EFFECTS = {
    "MTL_CAPTURE_ENABLED": "makes PyTorch commit every MPSGraph operation separately",
    "MTL_DEBUG_LAYER": "validates every Metal call",
    "MTL_SHADER_VALIDATION": "checks memory accesses inside Metal kernels",
    "PYTORCH_MPS_LOG_PROFILE_INFO": "logs every MPS operation",
    "PYTORCH_MPS_TRACE_SIGNPOSTS": "traces MPS operations, commits each separately, and with bit 4 waits for each",
    "PYTORCH_DEBUG_MPS_ALLOCATOR": "logs MPS allocations",
    "PYTORCH_MPS_PREFER_METAL": "sends 2-D matrix products to Metal kernels instead of MPSGraph, even when it is 0",
    "PYTORCH_ENABLE_MPS_FALLBACK": "runs operations that MPS lacks on the CPU without saying so",
    "PYTORCH_MPS_FAST_MATH": "compiles Metal kernels with less exact arithmetic",
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO": "moves the memory limit of MPS",
    "PYTORCH_MPS_LOW_WATERMARK_RATIO": "moves the memory level from which MPS commits after every operation",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "allocates from the CUDA driver at every step",
    "PYTORCH_CUDA_ALLOC_CONF": "changes how CUDA memory is reused",
    "PYTORCH_ALLOC_CONF": "changes how CUDA memory is reused",
    "MLX_METAL_GPU_ARCH": "makes MLX choose kernels for another GPU, so the results are synthetic",
    "MLX_SDPA_BLOCKS": "fixes the block count of MLX's 2-pass attention",
    "MLX_SDPA_D512_MIN_KL": "moves the length from which MLX fuses heads of 512",
    "MLX_MAX_OPS_PER_BUFFER": "changes how many operations MLX puts into a command buffer",
    "MLX_MAX_MB_PER_BUFFER": "changes how much data MLX puts into a command buffer",
    "MLX_ENABLE_TF32": "allows (1) or forbids (0) reduced precision of float32 products in MLX",
    "MLX_DISABLE_COMPILE": "switches MLX's compilation off",
    "MLX_CUDA_USE_CUDNN_SDPA": "switches MLX's cuDNN attention on (1) or off (0)",
    "MLX_USE_CUDA_GRAPHS": "switches MLX's CUDA graphs on (1) or off (0)",
    "CUDA_LAUNCH_BLOCKING": "waits for every CUDA kernel",
    "NVIDIA_TF32_OVERRIDE": "decides about reduced precision of float32 products in every CUDA library",
    "OMP_NUM_THREADS": "fixes the number of CPU threads",
    "MKL_NUM_THREADS": "fixes the number of CPU threads of MKL",
    "OPENBLAS_NUM_THREADS": "fixes the number of CPU threads of OpenBLAS",
    "VECLIB_MAXIMUM_THREADS": "fixes the number of CPU threads of Accelerate",
    "OMP_PROC_BIND": "binds CPU threads to cores",
    "KMP_AFFINITY": "binds CPU threads to cores",
    "KMP_BLOCKTIME": "changes how long idle CPU threads spin",
}
_BY_PRESENCE = (
    "PYTORCH_MPS_PREFER_METAL",
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO",
    "PYTORCH_MPS_LOW_WATERMARK_RATIO",
    "MLX_SDPA_D512_MIN_KL",
    "MLX_ENABLE_TF32",
    "MLX_CUDA_USE_CUDNN_SDPA",
    "MLX_USE_CUDA_GRAPHS",
    "NVIDIA_TF32_OVERRIDE",
    "KMP_BLOCKTIME",
)


def recorded(environ: Mapping[str, str] = os.environ, private: Iterable[str] | None = None) -> dict[str, str]:
    """Variables of the frameworks and their libraries, by name; a value that may tell where or who is "(set)".

    `private` are words that must not appear, by default this machine's name and its user's.
    """
    words = [word.lower() for word in (_own_names() if private is None else private) if len(word) > 2]
    found = {}
    for name in sorted(environ):
        if _NAME.fullmatch(name) and name.startswith(_FRAMEWORKS + _LIBRARIES):
            value = environ[name]
            telling = _PRIVATE.search(value) or any(word in value.lower() for word in words)
            found[name] = _HIDDEN if telling else value[:100]
    return found


def timing_variables(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """A sentence for each variable that is set and changes timing, with what it does."""
    return tuple(
        f"{name} is set and {effect}; unset it unless that is what you measure."
        for name, effect in EFFECTS.items()
        if environ.get(name, "") not in (("",) if name in _BY_PRESENCE else ("", "0"))
    )


def _own_names() -> list[str]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = ""
    node = platform.node()
    return [user, node, node.partition(".")[0]]
