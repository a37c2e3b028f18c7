"""Versions of Python and of the packages that decide what is measured, without importing any of them."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from pykvbench.drivers.availability import wheel_tags

NAMES = ("torch", "mlx", "mlx-metal", "mlx-cpu", "mlx-cuda-12", "mlx-cuda-13", "mlx-lm", "numpy")


def versions() -> dict[str, Any]:
    """python, and packages: version and wheel tags by name, of those installed.

    The tags matter: the macosx_14_0 and macosx_26_0 wheels of one mlx version hold different kernels.
    """
    packages = {
        name: {"version": version, "wheel": wheel_tags(name).get(name, "")}
        for name in NAMES
        if (version := installed(name)) is not None
    }
    return {"python": f"{platform.python_implementation()} {platform.python_version()}", "packages": packages}


def installed(name: str) -> str | None:
    """The version of an installed package, None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
