"""Build and metadata; CMake builds both extension modules in one go."""

import re
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
README = ROOT / "README.md"
VERSION = re.findall(r'__version__ = "(.+)"', (ROOT / "pykvbench" / "__init__.py").read_text(encoding="utf-8"))[0]
MLX_ON_LINUX = "sys_platform == 'linux' and (platform_machine == 'x86_64' or platform_machine == 'aarch64')"
MLX_ON_MACOS = "sys_platform == 'darwin' and platform_machine == 'arm64'"


class CMakeBuild(build_ext):  # type: ignore[misc]  # setuptools is untyped
    """Configure and build with the CMake and pybind11 of the build environment."""

    def build_extensions(self) -> None:
        import pybind11

        build = Path(self.build_temp).resolve()
        target = Path(self.get_ext_fullpath(self.extensions[0].name)).resolve().parent
        configure = [
            f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target}",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            "-DCMAKE_BUILD_TYPE=Release",
        ]
        # --fresh would need CMake 3.24; an isolated build moves pybind11, so a cache of an earlier build is of no use.
        (build / "CMakeCache.txt").unlink(missing_ok=True)
        subprocess.run(["cmake", "-S", ROOT, "-B", build, *configure], check=True)
        subprocess.run(["cmake", "--build", build, "--parallel", "2"], check=True)


def extension(name: str) -> Extension:
    """Name the sources, so that the sdist carries them."""
    return Extension(f"pykvbench.{name}", [f"csrc/{name.lstrip('_')}.cpp"], depends=["csrc/clock.h", "CMakeLists.txt"])


setup(
    name="pykvbench",
    version=VERSION,
    description="Is attention decoding slow at some KV lengths because of the kernel, or because of something else?",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.10",
    packages=find_packages(include=["pykvbench", "pykvbench.*"]),
    package_data={"pykvbench": ["py.typed", "*.pyi"]},
    ext_modules=[extension("_timer"), extension("_simulated_device")],
    cmdclass={"build_ext": CMakeBuild},
    zip_safe=False,
    install_requires=[
        "torch",
        f"mlx[cpu]; {MLX_ON_LINUX}",
        f"mlx; {MLX_ON_MACOS}",
        f"mlx-lm; ({MLX_ON_LINUX}) or ({MLX_ON_MACOS})",
        "numpy",
        "safetensors>=0.8",
        "click>=8.1",
        "matplotlib",
    ],
    extras_require={
        "test": ["pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "ruff", "mypy", "pybind11>=3", "ziglang"]
    },
    entry_points={"console_scripts": ["pykvbench = pykvbench.__main__:run"]},
)
