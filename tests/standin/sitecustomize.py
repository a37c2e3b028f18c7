"""Python imports this file when it starts in a process that has this folder on PYTHONPATH: the stand-in sets in.

A worker gets the stand-in device as soon as it has imported torch; any other process, the parent, is told that it runs
on a Mac with Apple silicon, which is all it looks at.
"""

from __future__ import annotations

import platform
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class AfterTorch(MetaPathFinder, Loader):
    """Imports torch as usual, then puts the stand-in in."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            self.usual, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.usual.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.usual.exec_module(module)
        import standin_mps

        standin_mps.set_in()


# A worker, or a process of benchmarks/device_check.py.
if {"pykvbench.experiment.worker", "--in-this-process"} & set(sys.orig_argv):
    sys.meta_path.insert(0, AfterTorch())
else:
    platform.system = lambda: "Darwin"
    platform.machine = lambda: "arm64"
