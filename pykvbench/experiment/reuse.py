"""In the worker: the first token's time after a prompt that is computed again, or whose KV is restored."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pykvbench import _timer, kvfile, pagecache
from pykvbench.analysis.reuse_table import RECOMPUTE
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import TOLERANCE, numerics_error
from pykvbench.errors import KVFileError
from pykvbench.kvfile import Label

if TYPE_CHECKING:
    from pykvbench.experiment.worker import Worker

SAMPLES, ENOUGH_NS = 25, 500_000_000  # of one tier in one process: so many, or as many as begin within half a second
Outputs = npt.NDArray[np.float64]


def measure(worker: Worker, driver: Driver, item: dict[str, Any]) -> None:
    """Measure one prompt length: a line for recomputing and one for each tier, in an order of this process's own."""
    bench = _Bench(worker, driver, item)
    bench.prepare()
    tiers = [RECOMPUTE, *item["tiers"]]
    rng = np.random.default_rng([worker.task["seed"], item["order"], item["length"]])
    for place, index in enumerate(rng.permutation(len(tiers)).tolist()):
        bench.write(tiers[index], place)


class _Sample(dict[str, Any]):
    """One time to first token in parts, ns: read, check, restore, step; what the step gave, and how reading went."""


class _Bench:
    """One prompt in one process: its KV on device, host and disk, and the output that all must lead to."""

    def __init__(self, worker: Worker, driver: Driver, item: dict[str, Any]) -> None:
        self.worker, self.driver, self.item = worker, driver, item
        self.length, self.path = int(item["length"]), Path(item["path"])
        self.label = Label.of(worker.cell, self.length, worker.task["seed"])
        self.progress = np.memmap(item["progress"], dtype=np.int64, mode="r+", shape=(1,))
        self.sources: dict[str, Any] = {}  # by tier
        self.first_ns = 0
        self.written_ns: int | None = None
        self.memory: mmap.mmap | None = None  # that files are read into
        self.output: Outputs
        self.prefill_error: float | None = None

    def prepare(self) -> None:
        """Compute the prompt for the first time, keep what it gave, and write the file unless there is one."""
        self.first_ns = self.prefill()
        save, copy = self.driver.save, self.driver.copy
        assert save is not None and copy is not None  # every driver with a cache has them
        layers = save()
        self.sources = {"host": layers, "device": copy() if "device" in self.item["tiers"] else None}
        _, self.output = self.step()
        if "disk" in self.item["tiers"]:
            if not self.path.exists():
                self.store()
            self.memory = pagecache.room(self.path.stat().st_size)

    def store(self) -> None:
        """Write the KV and the output that it leads to, and time it until the disk has it."""
        began = _timer.now_ns()
        kvfile.write(self.path, self.sources["host"], self.label, {"output": self.output})
        self.written_ns = _timer.now_ns() - began

    def prefill(self) -> int:
        """Compute the prompt by chunks into empty caches; the ns it took, without emptying them."""
        compute, chunk = self.driver.prefill, self.item["chunk"]
        assert compute is not None  # as in prepare
        self.driver.reset(0)
        result: object = None
        began = _timer.now_ns()
        for first in range(0, self.length, chunk):
            result = compute(min(chunk, self.length - first))
            self.progress[0] += 1
        took = _timer.now_ns() - began
        if self.item["rows"] is not None:
            self.prefill_error = self.error(self.driver.outputs(result), 0)
        return took

    def step(self) -> tuple[int, Outputs]:
        """One decode step: the ns it took, and what it gave."""
        began = _timer.now_ns()
        result = self.driver.step()
        self.driver.sync(result)
        took = _timer.now_ns() - began
        self.progress[0] += 1
        return took, self.driver.outputs(result)

    def error(self, outputs: Outputs, place: int) -> float:
        """The distance from the float64 reference, of the prompt's last token (place 0) or the step (1)."""
        expected = np.load(self.worker.task["reference"], mmap_mode="r")[self.item["rows"][place]]
        return numerics_error(outputs, expected)

    def recompute(self) -> _Sample:
        took = self.prefill()
        return self.sample(restore=took)

    def restore(self, layers: Any, **parts: Any) -> _Sample:
        put_back = self.driver.restore
        assert put_back is not None  # as in prepare
        began = _timer.now_ns()
        put_back(layers)
        return self.sample(restore=_timer.now_ns() - began, **parts)

    def from_disk(self) -> _Sample:
        """Restore from the file; one that cannot be used is said, computed again, and written anew."""
        try:
            stored = kvfile.read(self.path, self.label, self.memory)
        except KVFileError as error:
            at = self.worker.at(_timer.now_ns())
            self.worker.write("event", event="refused", at=at, length=self.length, detail=str(error))
            sample = _Sample(self.recompute(), refused=True)
            self.store()
            return sample
        read = {"read": stored.read_ns, "check": stored.check_ns}
        told = {"how": stored.how, "cold": stored.cold, "size": stored.size, "saved": stored.extras.get("output")}
        return self.restore(stored.layers, **read, **told)

    def sample(self, restore: int, **parts: Any) -> _Sample:
        """The step after a prompt that took `restore` ns, and the parts that came before it."""
        step_ns, output = self.step()
        return _Sample({"read": 0, "check": 0, **parts, "restore": restore, "step": step_ns, "output": output})

    def write(self, tier: str, place: int) -> None:
        """Sample one tier and write its line."""
        ways: dict[str, Callable[[], _Sample]] = {
            RECOMPUTE: self.recompute,
            "device": lambda: self.restore(self.sources["device"]),
            "host": lambda: self.restore(self.sources["host"]),
            "disk": self.from_disk,
        }
        began, samples = _timer.now_ns(), [ways[tier]()]
        while len(samples) < SAMPLES and not samples[-1].get("refused") and _timer.now_ns() - began < ENOUGH_NS:
            samples.append(ways[tier]())
        last = samples[-1]
        error = None
        if self.item["rows"] is not None:
            errors = [self.error(sample["output"], 1) for sample in samples]
            error = max(errors + ([self.prefill_error or 0.0] if tier == RECOMPUTE else []))
        correct = None if error is None else bool(error <= TOLERANCE[self.worker.cell.geometry.dtype])
        self.worker.write(
            "reuse",
            length=self.length,
            tier=tier,
            **{name: self.item[name] for name in ("repeat", "order", "search")},
            place=place,
            at=self.worker.at(began),
            **{name: [sample[name] for sample in samples] for name in ("read", "check", "restore", "step")},
            first=self.first_ns if tier == RECOMPUTE else None,
            bytes=last.get("size", self.worker.cell.geometry.kv_bytes(self.length)),
            write=self.written_ns if tier == "disk" else None,
            how=last.get("how"),
            cold=all(sample["cold"] for sample in samples) if "cold" in last else None,
            recomputed=bool(last.get("refused")),
            equal=self.equal(samples),
            error=error if error is not None and np.isfinite(error) else None,
            correct=correct,
            memory=self.driver.memory(),
        )

    def equal(self, samples: list[_Sample]) -> bool | None:
        """Whether every output is, bit for bit, that of the KV that was saved; None where only rounding differs.

        That is let pass for a file of an earlier run alone: another version may have computed it.
        """
        saved = samples[-1].get("saved")
        saved = self.output if saved is None else saved
        if all(sample["output"].tobytes() == saved.tobytes() for sample in samples):
            return True
        tolerance = TOLERANCE[self.worker.cell.geometry.dtype]
        close = all(numerics_error(sample["output"], saved) <= tolerance for sample in samples)
        return None if close and self.item["foreign"] else False
