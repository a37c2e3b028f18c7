"""A stand-in for torch's MPS device: tensors on the CPU, the time of a simulated device, and faults as programmed.

Tensors that the driver puts on "mps" lie on the CPU. Every attention over L keys also queues BASE_NS + SLOPE_NS * L of
work on a device of its own, which runs beside the host; torch.mps.synchronize, or reading a result, waits for it. The
variable STANDIN_MPS holds a program, a JSON object of

    first      how many times as long the first attention at each length takes (a graph is compiled)
    slow       {"processes": [...], "ratio": r, "lengths": [first, last]}: some of the processes, counted from 0
    abort      a length at which the process dies by SIGABRT
    hang       a length after which synchronize does not return
    early      whether synchronize returns at once, while reading a result still waits
    wrong      {"length": L, "how": "transposed" or "over-read", "ratio": r}: a wrong result, and how long it takes
    grow       bytes by which the driver's memory grows at each new length

and STANDIN_FOLDER a folder in which the processes of one run count themselves.
"""

from __future__ import annotations

import json
import os
import time
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

BASE_NS, SLOPE_NS = 2_000_000, 1_000
LIVE, DRIVER = 1 << 20, 64 << 20


class StandIn(TorchFunctionMode):
    """Sees every torch call: moves "mps" to the CPU, takes time for attention, and goes wrong where it is told to."""

    def __init__(self, program: dict[str, Any], process: int) -> None:
        from pykvbench._simulated_device import Device

        super().__init__()
        self.device = Device()
        self.seen: set[int] = set()
        self.length = self.beyond = 0
        self.first = program.get("first", 1)
        self.abort, self.hang, self.grow = program.get("abort"), program.get("hang"), program.get("grow", 0)
        self.early = program.get("early", False)
        self.wrong = program.get("wrong", {})
        slow = program.get("slow", {"processes": []})
        self.slow_ratio = slow["ratio"] if process in slow["processes"] else 1
        self.slow_first, self.slow_last = slow.get("lengths", (0, 1 << 40))

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(_on_cpu(value) for value in args)
        kwargs = {name: _on_cpu(value) for name, value in (kwargs or {}).items()}
        if function is torch.softmax:
            length = args[0].shape[-1] - self.beyond
            self.attend(length)
            result = function(*args, **kwargs)
            return result.flip(-1) if self.at(length, "transposed") else result
        if function is torch.matmul:
            return function(args[0], self.over_read(args[1]))
        if function is scaled_dot_product_attention:
            q, k, v = args
            self.attend(k.shape[-2])
            v = v.flip(-2) if self.at(v.shape[-2], "transposed") else self.over_read(v)
            return function(q, self.over_read(k), v, **kwargs)
        if function is torch.Tensor.cpu:
            self.device.wait()
        return function(*args, **kwargs)

    def attend(self, length: int) -> None:
        """Queue the work of one attention over `length` keys."""
        if length == self.abort:
            os.abort()
        cost = float(BASE_NS + SLOPE_NS * length)
        if length not in self.seen:
            cost *= self.first
        if self.slow_first <= length <= self.slow_last:
            cost *= self.slow_ratio
        if length == self.wrong.get("length"):
            cost *= self.wrong["ratio"]
        self.seen.add(length)
        self.length = length
        self.device.submit(int(cost))

    def at(self, length: int, how: str) -> bool:
        return bool(self.wrong) and (length, how) == (self.wrong["length"], self.wrong["how"])

    def over_read(self, rows: torch.Tensor) -> torch.Tensor:
        """K or V, or K transposed, with one row more where the program says so; that row holds no token."""
        self.beyond = 0
        for dim in (2, 3):
            if self.at(rows.shape[dim], "over-read"):
                self.beyond = 1
                shape = list(rows.shape)
                shape[dim] += 1
                return rows.as_strided(shape, rows.stride())
        return rows

    def synchronize(self) -> None:
        while self.length and self.length == self.hang:
            time.sleep(60)
        if not self.early:
            self.device.wait()


def set_in() -> None:
    """Put the stand-in where torch has its MPS device, for the rest of this process."""
    standin = StandIn(json.loads(os.environ["STANDIN_MPS"]), _process(Path(os.environ["STANDIN_FOLDER"])))
    torch.backends.mps.is_available = lambda: True
    torch.backends.mps.get_name = lambda: "a stand-in on the CPU"
    torch.backends.mps.get_core_count = lambda: 10
    torch.mps.synchronize = standin.synchronize
    torch.mps.current_allocated_memory = lambda: LIVE
    torch.mps.driver_allocated_memory = lambda: DRIVER + standin.grow * len(standin.seen)
    torch.set_num_threads(1)  # the host's part should stay short beside the device's
    standin.__enter__()


def _process(folder: Path) -> int:
    """Which process of the run this is, from 0."""
    for number in count():
        try:
            (folder / f"process-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError


def _on_cpu(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "mps" else value
