"""The parent's side of a worker: start it, hand it its task, read its lines, and make sure that it ends."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pykvbench
from pykvbench import _timer
from pykvbench.experiment.interpreter import Interpreter
from pykvbench.record import RunWriter

# Where this package lies. `python -m` looks for modules in its working directory first, which in a clone of the
# repository would be the sources without the compiled modules instead of the installed package.
HOME = Path(pykvbench.__file__).resolve().parent.parent
TOLD = ("failed", "out-of-memory", "unavailable")  # events by which a worker says itself why it ends
START_TIMEOUT_S = 300.0  # importing a framework and compiling its first kernels; a cold disk can take a minute


class WorkerProcess:
    """A fresh process for one sweep, from launch to its last line."""

    def __init__(self, backend: str, interpreter: Interpreter | None = None) -> None:
        """Start it under another Python if one is given."""
        program, folder = (interpreter.program, interpreter.folder) if interpreter else (sys.executable, HOME)
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by kill)
        self._process = subprocess.Popen(
            [program, "-m", "pykvbench.experiment.worker", backend],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C reaches the parent alone, and the whole group can be killed
            bufsize=0,
        )
        self._rest = b""
        self.ready = False
        self.failure: tuple[str, str] | None = None

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def send(self, task: dict[str, Any]) -> None:
        """Hand over the task; a worker that is already dead is noticed when its lines are read."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(task).encode() + b"\n")

    def follow(
        self, writer: RunWriter, timeout_s: float, progress: Callable[[], int] = lambda: 0
    ) -> Iterator[dict[str, Any]]:
        """Append the worker's lines to the run file and yield each, until it ends or stops answering.

        Once it has warmed up, a worker that neither writes nor changes `progress` for `timeout_s` hangs. Afterwards
        `failure` is None, or the event's name and detail: "hung", or "crashed" unless the worker told what went wrong.
        """
        self.ready, told, seen = False, False, progress()
        while (lines := self._lines(timeout_s if self.ready else START_TIMEOUT_S + timeout_s)) != []:
            if lines is None:
                if progress() == seen:
                    self.failure = ("hung", f"no answer within {timeout_s:g} s")
                    return
                seen = progress()
                continue
            writer.write_lines(b"".join(lines))
            for line in lines:
                value = json.loads(line)
                self.ready = self.ready or value.get("event") == "warmed-up"
                told = told or value.get("event") in TOLD
                yield value
        ending = self._ending()
        if not told and ending is not None:
            self.failure = ("crashed", ending)

    def _lines(self, timeout_s: float) -> list[bytes] | None:
        """The next complete lines; an empty list when the worker has ended, None when nothing came in time."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = _timer.now_ns() + int(timeout_s * 1e9)
        while True:
            left_s = (deadline - _timer.now_ns()) / 1e9
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                return None
            data = os.read(descriptor, 1 << 16)
            if not data:
                self._process.wait()
                return []
            lines = (self._rest + data).splitlines(keepends=True)
            self._rest = lines.pop() if not lines[-1].endswith(b"\n") else b""
            if lines:
                return lines

    def _ending(self) -> str | None:
        """How it ended: the signal's name, or the exit status and the last line of a traceback; None for status 0."""
        status = self._process.wait()
        if status == 0:
            return None
        if status < 0:
            name = signal.Signals(-status).name
            return name + (", probably by the system for lack of memory" if name == "SIGKILL" else "")
        self._stderr.seek(0)
        last = self._stderr.read()[-4000:].decode(errors="replace").strip().splitlines()
        words = (last[-1] if last else "").split()
        return f"exit status {status}" + (
            ": " + " ".join("(path)" if "/" in word else word for word in words)[:300] if words else ""
        )

    def kill(self) -> None:
        """End the worker and all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
