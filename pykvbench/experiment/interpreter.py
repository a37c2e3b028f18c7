"""Other Pythons that workers run under, so that two builds of a framework are compared in one run."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pykvbench
from pykvbench import __version__
from pykvbench.cell import Cell
from pykvbench.errors import UsageError

TIMEOUT_S = 60.0
_PACKAGE = Path(pykvbench.__file__).resolve().parent
_FRAMEWORKS = {"mps": "torch", "cuda": "torch", "cpu": "torch", "mlx": "mlx", "mlx-cpu": "mlx", "simulated": "numpy"}
_LOOK = """
import json, sys
from pykvbench import __version__, _timer
from pykvbench.drivers.availability import availability
from pykvbench.machine.packages import versions
found = {name: availability(name) for name in sys.argv[1:]}
refusals = [f"{one.reason} {one.remedy}" for one in found.values() if not one.available]
print(json.dumps({"pykvbench": __version__, "refusals": refusals, **versions()}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python for workers: its program, the folder it starts in, and what is installed in it."""

    program: str
    folder: Path
    python: str
    packages: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """What the run file holds of it: versions, no path."""
        return {"python": self.python, "packages": self.packages}


@contextlib.contextmanager
def interpreters(programs: Sequence[str], backends: Sequence[str]) -> Iterator[tuple[Interpreter, ...]]:
    """Look into each Python and keep it ready; none for no programs, which means the one that runs this.

    Workers start in a folder that holds this package and nothing else: the folder it is installed in would bring its
    own torch. Raises UsageError for one that cannot run workers, or lacks what `backends` need.
    """
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        ours.mkdir()
        theirs.mkdir()
        (ours / "pykvbench").symlink_to(_PACKAGE, target_is_directory=True)
        yield tuple(_open(program, backends, (ours, theirs)) for program in programs)


def under(cells: Sequence[Cell], pythons: Sequence[Interpreter]) -> tuple[Cell, ...]:
    """Every cell under every Python, labelled by the version of its framework there; the cells as they are for none."""
    made = []
    for cell in cells:
        name = _FRAMEWORKS[cell.backend]
        builds = [f"{name} {python.packages.get(name, {}).get('version', '')}".strip() for python in pythons]
        for index, build in enumerate(builds):
            number = f" (python {index + 1})" if builds.count(build) > 1 else ""
            made.append(replace(cell, interpreter=index, build=build + number))
    return tuple(made) if pythons else tuple(cells)


def check_same(recorded: object, pythons: Sequence[Interpreter]) -> None:
    """Raise UsageError unless these are the Pythons that a run to be continued was measured under."""
    known = recorded if isinstance(recorded, list) else []
    if known != [python.to_json() for python in pythons]:
        what = "; ".join(str(one.get("python")) for one in known if isinstance(one, dict)) or "the one that runs this"
        raise UsageError(
            f"The run was measured under other Pythons ({what}); give the same ones again with --python, in the same "
            "order and with the same packages."
        )


def _open(program: str, backends: Sequence[str], folders: tuple[Path, Path]) -> Interpreter:
    """With this package's own code if its compiled modules fit, else with the same version installed there."""
    for folder in folders:
        found = _look(program, folder, backends)
        if found is None:
            continue
        if found["pykvbench"] != __version__:
            break
        if found["refusals"]:
            raise UsageError(f"--python {program}: {found['refusals'][0]}")
        return Interpreter(program, folder, str(found["python"]), dict(found["packages"]))
    raise UsageError(
        f"--python {program} cannot run pykvbench's workers: it lacks numpy, or its version of Python does not fit the "
        f"compiled modules here; install pykvbench {__version__} into it."
    )


def _look(program: str, folder: Path, backends: Sequence[str]) -> dict[str, Any] | None:
    command = [program, "-c", _LOOK, *dict.fromkeys(backends)]
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UsageError(f"--python {program} does not answer within {TIMEOUT_S:.0f} s; name another.") from None
    except OSError as error:
        raise UsageError(f"--python {program} cannot be started ({error.strerror}); name a Python's program.") from None
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        return None
