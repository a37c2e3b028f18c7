"""A driver whose device takes exactly the time it is told to: ground truth for what measures and analyses."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache

import numpy as np
import numpy.typing as npt

from pykvbench import _timer
from pykvbench._simulated_device import Device
from pykvbench.cell import Cell
from pykvbench.drivers import numpy_driver
from pykvbench.drivers.driver import Driver, Sequences
from pykvbench.drivers.program import Cost, Program, parse_program
from pykvbench.errors import DriverError
from pykvbench.values import keys_and_values

_DESCRIBE = {"framework": "simulated", "device": "simulated device (a thread that takes the time it is told to)"}


SHARES = {"append": 0.1, "qk": 0.4, "softmax": 0.1, "pv": 0.4}
"""What each operation takes of a step."""


@cache
def the_device() -> Device:
    """The one simulated device of this process, which its drivers share, as they would share a real one."""
    return Device()


class Decoder:
    """Steps through lengths on a simulated device."""

    def __init__(self, cell: Cell, capacity: int, seed: int, program: Program, process: int, began_ns: int) -> None:
        self.geometry = cell.geometry
        self.kv = [keys_and_values(cell.geometry, layer, capacity, seed) for layer in range(cell.geometry.num_layers)]
        self.seed = seed
        self.program = program
        self.began_ns = began_ns
        self.device = the_device()
        self.rng = np.random.default_rng([seed, process, 7])
        modes = np.random.default_rng([seed, process, 11])
        self.costs = tuple(cost for cost in program.costs if modes.random() < cost.share)
        self.calls: Counter[int] = Counter()
        self.length = self.budget = 0

    def reset(self, length: int) -> None:
        self.length = length

    def advance(self) -> None:
        pass

    def begin(self, prompt: int, budget: int) -> None:
        self.budget = budget

    def step(self) -> int:
        """Queue one step's work and return at once, except for the share that is the host's."""
        self.length += 1
        self.calls[self.length] += 1
        self._fail(self.program.fault(self.length))
        self.run(SHARES, self.length)
        return self.length

    def run(self, shares: Mapping[str, float], length: int, host: bool = True) -> None:
        """Queue some operations of a step over `length` keys, each a share of it, and spend its time on the host."""
        smooth = self.program.base_ns + self.program.slope_ns * length
        smooth *= 1 + self.program.drift_per_minute * self._run_s() / 60
        spun, device, added = 0.0, smooth * sum(shares.values()), 0.0
        for cost in self.costs:
            if not self._applies(cost, length):
                continue
            if cost.where in SHARES:
                added += smooth * (cost.ratio - 1) if cost.where in shares else 0.0
            elif cost.where != "host":
                device *= cost.ratio
            elif host:
                spun += smooth * (cost.ratio - 1)
        device += added
        if self.program.noise:
            device *= float(np.exp(self.program.noise * self.rng.standard_normal()))
        if spun > 0:
            self.device.spin(int(spun))
        self.device.submit(int(device))

    def work(self, result: object, duration_ns: int) -> object:
        self.device.submit(duration_ns)
        return result, None

    def prefill(self, count: int) -> int:
        """Compute `count` tokens more at once, which takes what a step over all of them takes."""
        self.length += count
        self.device.submit(int(self.program.base_ns + self.program.slope_ns * self.length))
        self.device.wait()
        return self.length

    def save(self) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        return [(k[:, :, : self.length], v[:, :, : self.length]) for k, v in self.kv]

    def restore(self, layers: Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]) -> None:
        self.length = layers[0][0].shape[2]

    def sync(self, result: int) -> None:
        self.device.wait()

    def outputs(self, result: int) -> npt.NDArray[np.float64]:
        read = result + 1 if self.program.fault(result) == "wrong" else result
        answer = numpy_driver.reference(self.geometry, [read], self.seed, lambda _, layer, *rest: self.kv[layer])
        return np.asarray(answer[0], dtype=np.float64)

    def _run_s(self) -> float:
        return (_timer.now_ns() - self.began_ns) / 1e9

    def _applies(self, cost: Cost, length: int) -> bool:
        if not cost.covers(self.budget if cost.where == "budget" else length):
            return False
        if cost.where == "first" and self.calls[length] > 1:
            return False
        return cost.window_s is None or cost.window_s[0] <= self._run_s() < cost.window_s[1]

    def _fail(self, fault: str | None) -> None:
        if fault == "crash":
            os.abort()
        elif fault == "hang":
            time.sleep(3600)
        elif fault == "oom":
            raise MemoryError(f"simulated: no memory for {self.length} keys")
        elif fault == "error":
            raise DriverError(f"simulated: the step over {self.length} keys failed")


def open_driver(cell: Cell, capacity: int, seed: int, simulate: str | None, process: int, began_ns: int) -> Driver:
    """A driver for the simulated device running the program `simulate`."""
    return _driver(Decoder(cell, capacity, seed, parse_program(simulate or ""), process, began_ns))


def open_sequences(
    cell: Cell, capacity: int, seed: int, simulate: str | None, process: int, began_ns: int
) -> Sequences:
    """Sequences that take turns on one simulated device."""
    shared = Decoder(cell, capacity, seed, parse_program(simulate or ""), process, began_ns)

    def sequence(number: int, room: int) -> Driver:
        decoder = copy(shared)
        decoder.kv = [(k[:, :, number : number + room], v[:, :, number : number + room]) for k, v in shared.kv]
        return _driver(decoder)

    return Sequences(sequence, dict, _DESCRIBE)


def _driver(decoder: Decoder) -> Driver:
    return Driver(
        reset=decoder.reset,
        advance=decoder.advance,
        step=decoder.step,
        sync=decoder.sync,
        outputs=decoder.outputs,
        memory=dict,
        begin=decoder.begin,
        work=decoder.work,
        describe=_DESCRIBE,
        prefill=decoder.prefill,
        save=decoder.save,
        restore=decoder.restore,
    )
