"""Compile every file of csrc for the platforms that are not at hand; one line a target, exit 1 when one fails.

    python benchmarks/cross_compile.py

Objects only, with the compiler that the ziglang package ships: that settles headers, types and warnings, not linking.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pybind11

CSRC = Path(__file__).parent.parent / "csrc"
TARGETS = ("x86_64-linux-gnu", "aarch64-linux-gnu", "aarch64-macos")


def compile_object(source: Path, target: str, folder: Path) -> str:
    """Compile one file for one target; what the compiler said, empty when it was content."""
    # pyconfig.h is this machine's. What it says of sizes holds on every 64-bit target and nothing is linked, so no
    # define is needed; only Debian's own python3 will not do, as its pyconfig.h names a file for each architecture.
    includes = (pybind11.get_include(), sysconfig.get_path("include"))
    command = [sys.executable, "-m", "ziglang", "c++", "-target", target, "-std=c++17", "-O2", "-fvisibility=hidden"]
    command += ["-Wall", "-Wextra", "-Werror", *(f"-isystem{path}" for path in includes)]
    command += ["-c", str(source), "-o", str(folder / f"{target}-{source.stem}.o")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else ended.stderr.strip() or f"exit status {ended.returncode}"


def main() -> int:
    """Try every target; 1 when any file of any target does not compile."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for target in TARGETS:
            said = {source.name: compile_object(source, target, Path(folder)) for source in sorted(CSRC.glob("*.cpp"))}
            wrong = {name: text for name, text in said.items() if text}
            print(f"{target:<20} {'FAILED ' + ', '.join(wrong) if wrong else 'compiles ' + ', '.join(said)}")
            for text in wrong.values():
                print(text, file=sys.stderr)
            failures += len(wrong)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
