"""The extension modules under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer.

    python benchmarks/sanitizers.py [--only address,undefined,thread] [--tests tests/test_timer.py ...]

Builds csrc with each sanitizer into a copy of the package and runs the tests of the timer and the simulated device
there. Needs g++ (or $CXX) with its sanitizers' libraries, and Linux, where they can be preloaded. Python itself is not
instrumented: leaks are not looked for, and the address sanitizer sees Python's memory only because PYTHONMALLOC=malloc
takes every object from it. Exit status 1 when a test fails or a sanitizer reports anything.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pybind11

ROOT = Path(__file__).resolve().parent.parent
MODULES = {"_timer": "timer.cpp", "_simulated_device": "simulated_device.cpp"}
TESTS = ("tests/test_timer.py", "tests/test_simulated_device.py", "tests/test_hooks.py")
LIBRARIES = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}
SETTINGS = {
    "address": {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=66", "PYTHONMALLOC": "malloc"},
    "undefined": {"UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=66"},
    "thread": {"TSAN_OPTIONS": "halt_on_error=0:exitcode=66:ignore_noninstrumented_modules=1:report_signal_unsafe=0"},
}
REPORT = re.compile(r"(ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error):.*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="address,undefined,thread")
    parser.add_argument("--tests", nargs="+", default=list(TESTS))
    options = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("Sanitizers are preloaded into Python here, which needs Linux.")
    clean = [sanitized(name, options.tests) for name in options.only.split(",")]
    sys.exit(0 if all(clean) else 1)


def sanitized(name: str, tests: list[str]) -> bool:
    """Whether the tests pass in silence under one sanitizer."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copytree(ROOT / "pykvbench", home / "pykvbench", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        shutil.copytree(ROOT / "tests", home / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", home)
        build(name, home / "pykvbench")
        # The sanitizer looks for __cxa_throw when it starts, and Python alone does not load the C++ library.
        preloaded = " ".join(library(file) for file in (LIBRARIES[name], "libstdc++.so.6"))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *tests],
            cwd=home,
            env={**os.environ, **SETTINGS[name], "LD_PRELOAD": preloaded, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
        )
    said = done.stdout + done.stderr
    reports = [found.group(0) for found in REPORT.finditer(said)]
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "nothing was printed"
    print(f"{name}: {last}; {len(reports)} reports", flush=True)
    if reports or done.returncode != 0:
        print(said[-6000:], flush=True)
    return done.returncode == 0 and not reports


def build(name: str, target: Path) -> None:
    """Compile both modules with a sanitizer, debug information and every check of the standard library."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{pybind11.get_include()}"]
    flags = ["-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-D_GLIBCXX_ASSERTIONS"]
    checks = [f"-fsanitize={name}", "-fno-omit-frame-pointer"]
    if name == "undefined":
        checks += ["-fno-sanitize-recover=all", "-fsanitize=float-divide-by-zero"]
    for module, source in MODULES.items():
        command = [compiler(), *flags, *checks, *includes, str(ROOT / "csrc" / source)]
        subprocess.run([*command, "-pthread", "-o", str(target / f"{module}{suffix}")], check=True)


def library(name: str) -> str:
    """Where the compiler's library of that name lies."""
    asked = subprocess.run([compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def compiler() -> str:
    """The C++ compiler of the environment, else g++."""
    return os.environ.get("CXX", "g++")


if __name__ == "__main__":
    main()
