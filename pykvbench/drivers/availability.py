"""Which backends can run here, found without importing a framework, so that the process that asks stays small."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from pykvbench.errors import BackendUnavailable

_MLX_PARTS = {"mlx-metal": "Metal", "mlx-cuda-12": "CUDA", "mlx-cuda-13": "CUDA", "mlx-cpu": "the CPU"}
_FALLBACKS = ("mps", "cuda", "mlx", "cpu", "mlx-cpu")


@dataclass(frozen=True)
class Availability:
    """Whether a backend can run here: what it runs on, or one sentence on what is missing and one on what to do.

    gpu: on Metal or CUDA, which `mlx` is only where it finds one.
    """

    backend: str
    available: bool
    reason: str
    remedy: str
    gpu: bool = False


@dataclass(frozen=True)
class Surroundings:
    """The facts that decide it: system and machine as platform names them, installed versions, the GPU if any.

    versions: of torch, mlx and the parts of mlx that are installed. torch_cuda: torch was built for CUDA.
    nvidia: the NVIDIA driver's device files are present.
    """

    system: str
    machine: str
    versions: dict[str, str]
    torch_cuda: bool
    nvidia: bool


def look_around() -> Surroundings:
    """What is here, from package metadata and device files."""
    versions = {name: version for name in ("torch", "mlx", *_MLX_PARTS) if (version := _version(name))}
    return Surroundings(
        system=platform.system(),
        machine=platform.machine(),
        versions=versions,
        torch_cuda="torch" in versions and "+cpu" not in versions["torch"] and _has_cuda_library(),
        nvidia=any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists(),  # dxg: Windows' Linux subsystem
    )


def availability(backend: str, here: Surroundings | None = None) -> Availability:
    """Whether `backend` can run, with the reason and, if it cannot, the remedy as a sentence."""
    here = here or look_around()
    missing = _missing(backend, here)
    if missing is None:
        gpu = backend in ("mps", "cuda") or (backend == "mlx" and _mlx_gpu(here) != "")
        return Availability(backend, True, _runs_on(backend, here), "", gpu)
    others = [name for name in _FALLBACKS if _missing(name, here) is None and (name != "mlx" or _mlx_gpu(here))]
    reason, install = missing
    use = f"use --backend {_or(others)}" if others else ""
    remedy = " or ".join(part for part in (install, use) if part) or "use --backend simulated"
    return Availability(backend, False, f"{reason}.", f"{remedy[0].upper()}{remedy[1:]}.")


def best_backend(here: Surroundings | None = None) -> str:
    """The first of mps, cuda, mlx on a GPU and cpu that can run; raises BackendUnavailable when none can."""
    here = here or look_around()
    for backend in ("mps", "cuda", "mlx", "cpu"):
        if _missing(backend, here) is None and (backend != "mlx" or _mlx_gpu(here)):
            return backend
    raise BackendUnavailable(f"No backend can run here: {_refusal(availability('cpu', here))}")


def require(backend: str, here: Surroundings | None = None) -> None:
    """Raise BackendUnavailable, with what is missing and the remedy, unless `backend` can run here."""
    found = availability(backend, here)
    if not found.available:
        raise BackendUnavailable(_refusal(found))


def wheel_tags(*distributions: str) -> dict[str, str]:
    """The wheel tags of those that are installed: `macosx_14_0` and `macosx_26_0` hold different kernels."""
    tags = {}
    for name in distributions:
        try:
            lines = (metadata.distribution(name).read_text("WHEEL") or "").splitlines()
        except metadata.PackageNotFoundError:
            continue
        tags[name] = " ".join(line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))
    return tags


def _missing(backend: str, here: Surroundings) -> tuple[str, str] | None:
    """What keeps a backend from running, and what to install against it if anything; None if nothing does."""
    if backend == "simulated":
        return None
    if backend == "mps" and (here.system, here.machine) != ("Darwin", "arm64"):
        return f"mps needs macOS on Apple silicon; this is {here.system} {here.machine}", ""
    if backend in ("mps", "cuda", "cpu") and "torch" not in here.versions:
        return f"{backend} needs torch, which is not installed", "pip install torch"
    if backend == "cuda" and not (here.nvidia and here.torch_cuda):
        absent = "" if here.nvidia else f"this {here.system} {here.machine} machine shows no NVIDIA driver"
        build = "" if here.torch_cuda else f"torch {here.versions['torch']} is not built for CUDA"
        what = " and ".join(part for part in (absent, build) if part)
        return (
            f"cuda needs an NVIDIA GPU and torch built for CUDA; {what}",
            "install torch for CUDA" if here.nvidia else "",
        )
    if backend in ("mlx", "mlx-cpu"):
        if "mlx" not in here.versions:
            return f"{backend} needs mlx, which is not installed", f"pip install '{_mlx_extra(here)}'"
        if here.system != "Darwin" and not any(part in here.versions for part in _MLX_PARTS):
            return (
                f"{backend} needs a part of mlx {here.versions['mlx']} that is not installed",
                f"pip install '{_mlx_extra(here)}'",
            )
    return None


def _runs_on(backend: str, here: Surroundings) -> str:
    if backend == "simulated":
        return "a simulated device, for tests and demonstrations"
    if backend in ("mlx", "mlx-cpu"):
        gpu = _mlx_gpu(here) if backend == "mlx" else ""
        where = f"on {gpu}" if gpu else "on the CPU, with no GPU that it can use" if backend == "mlx" else "on the CPU"
        return f"mlx {here.versions['mlx']} {where}"
    place = {"mps": "on Metal", "cuda": "on CUDA", "cpu": "on the CPU"}[backend]
    return f"torch {here.versions['torch']} {place}"


def _mlx_gpu(here: Surroundings) -> str:
    """The GPU interface that MLX would use here, or nothing."""
    if here.system == "Darwin":
        return "Metal" if here.machine == "arm64" else ""
    return "CUDA" if here.nvidia and any(part.startswith("mlx-cuda") for part in here.versions) else ""


def _mlx_extra(here: Surroundings) -> str:
    return "mlx" if here.system == "Darwin" else "mlx[cuda12]" if here.nvidia else "mlx[cpu]"


def _refusal(found: Availability) -> str:
    return f"{found.reason} {found.remedy}"


def _or(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _has_cuda_library() -> bool:
    """Whether the installed torch ships its CUDA half; a plain version number does not tell."""
    spec = find_spec("torch")
    places = spec.submodule_search_locations if spec else None
    return any((Path(place) / "lib").glob("*torch_cuda*") for place in places or ())
