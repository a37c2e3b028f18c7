"""In the worker: many sequences, each with its own caches, served on one device by the scheduler's decisions."""

from __future__ import annotations

import gc
import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pykvbench import _timer, kvfile
from pykvbench.dispatch.footprint import footprint, rows_of
from pykvbench.drivers.driver import Driver, Sequences
from pykvbench.drivers.numpy_driver import TOLERANCE, numerics_error
from pykvbench.drivers.resident import available_bytes, resident_bytes
from pykvbench.experiment.scheduler import Load, serve
from pykvbench.sizes import format_size

if TYPE_CHECKING:
    from pykvbench.experiment.worker import Worker

PREFILL = 512  # tokens a call when caches are computed again, so that scores stay small beside the caches
MARGIN = 64 << 20  # bytes of the machine's memory that are left alone


def measure(worker: Worker, sequences: Sequences, item: dict[str, Any]) -> None:
    """Serve one load under one policy and write its line.

    The first sequence is decoded alone before, which visits every length once, and in the first repeat all others are
    afterwards: what each gives alone is what it must give among others, bit for bit.
    """
    engine = Engine(worker, sequences, item)
    gc.collect()
    gc.freeze()  # before any driver is made: what is frozen is never freed, and drivers refer to themselves
    before = {"rss": resident_bytes(), **sequences.memory()}
    engine.drivers[0] = engine.sequence(0)
    worker.warm_up(engine.drivers[0])
    alone = [engine.alone(engine.drivers[0])]
    context, tokens = item["context"], item["tokens"]
    load = Load(
        sequences=item["concurrency"],
        context=context,
        tokens=tokens,
        held=lambda length: engine.size(length).allocated,
        growth=lambda length: engine.size(length).growth,
    )
    began = _timer.now_ns()
    served = serve(load, item["policy"], item["budget"], engine)
    ended = _timer.now_ns()
    if item["repeat"] == 0:
        alone += [engine.alone(engine.sequence(number)) for number in range(1, load.sequences)]
    error = engine.error
    worker.write(
        "serving",
        **{name: item[name] for name in ("context", "concurrency", "policy", "repeat", "order", "tokens")},
        at=worker.at(began),
        wall=ended - began,
        took=served.took_ns,
        done=served.done,
        rejected=list(served.rejected),
        out=served.out_ns,
        into=served.in_ns,
        resident=served.most_resident,
        held=served.most_held,
        predicted=engine.size(context + tokens).to_json(),
        before=before,
        peak=engine.peak,
        outputs=[digest.hexdigest() for digest in engine.digests],
        alone=alone,
        error=error if error is not None and np.isfinite(error) else None,
        correct=None if error is None else bool(error <= TOLERANCE[worker.cell.geometry.dtype]),
    )


class Engine:
    """Carries out the scheduler's decisions with one driver a sequence; times are of the work alone."""

    def __init__(self, worker: Worker, sequences: Sequences, item: dict[str, Any]) -> None:
        self.worker, self.item, self.sequences = worker, item, sequences
        self.context = int(item["context"])
        self.room = rows_of(self.context, item["tokens"])
        self.drivers: dict[int, Driver] = {}
        self.saved: dict[int, kvfile.Layers] = {}
        self.length = [self.context] * item["concurrency"]
        self.digests = [_digest() for _ in self.length]
        self.stamps = np.zeros((1, 3), dtype=np.int64)
        self.progress = np.memmap(item["progress"], dtype=np.int64, mode="r+", shape=(1,))
        self.caches: dict[int, int] = {}
        self.peak: dict[str, int] = {}
        self.error: float | None = None

    def size(self, length: int) -> Any:
        """The predicted footprint of a sequence of `length` tokens."""
        return footprint(self.worker.cell, self.item["allocator"], length, self.room)

    def sequence(self, number: int) -> Driver:
        """New caches for a sequence, unless the machine's memory would not hold them."""
        needed, available = self.size(self.context).allocated + MARGIN, available_bytes()
        if self.item["on_host"] and available is not None and needed > available:
            raise MemoryError(f"{format_size(needed)} are needed and {format_size(available)} are available")
        return self.sequences.sequence(number, self.room)

    def alone(self, driver: Driver) -> str:
        """Decode a sequence with no other beside it; returns the digest of its outputs."""
        digest = _digest()
        driver.reset(self.context)
        for _ in range(self.item["tokens"]):
            self._step(driver, digest)
        return digest.hexdigest()

    def fill(self, number: int) -> None:
        if number not in self.drivers:
            self.drivers[number] = self.sequence(number)
        self.drivers[number].reset(self.context)
        self._count(number)

    def step(self, number: int) -> int:
        result = self._step(self.drivers[number], self.digests[number])
        self.length[number] += 1
        self._count(number)
        if number == 0 and self.length[0] == self.context + self.item["tokens"]:
            expected = np.load(self.worker.task["reference"], mmap_mode="r")[self.item["row"]]
            self.error = numerics_error(self.drivers[0].outputs(result), expected)
        return int(self.stamps[0, 2] - self.stamps[0, 0])

    def leave(self, number: int) -> int:
        began = _timer.now_ns()
        if self.item["policy"] == "spill-host":
            self.saved[number] = self._rows(number)
        elif self.item["policy"] == "spill-disk":
            kvfile.write(self._file(number), self._rows(number), self._label(number))
        self._drop(number)
        return _timer.now_ns() - began

    def enter(self, number: int) -> int:
        began = _timer.now_ns()
        driver = self.drivers[number] = self.sequence(number)
        assert driver.restore is not None and driver.prefill is not None  # as in _rows
        if self.item["policy"] == "spill-host":
            driver.restore(self.saved.pop(number))
        elif self.item["policy"] == "spill-disk":
            driver.restore(kvfile.read(self._file(number), self._label(number)).layers)
            self._file(number).unlink()
        else:
            driver.reset(0)
            for first in range(0, self.length[number], PREFILL):
                driver.prefill(min(PREFILL, self.length[number] - first))
        took = _timer.now_ns() - began
        self._count(number)
        return took

    def end(self, number: int) -> None:
        self._drop(number)

    def _step(self, driver: Driver, digest: Any) -> object:
        """One token; what it gave goes into the digest, outside the time."""
        result = _timer.run(driver.step, driver.sync, self.stamps, driver.advance)
        digest.update(np.ascontiguousarray(driver.outputs(result)).tobytes())
        self.progress[0] += 1
        return result

    def _rows(self, number: int) -> kvfile.Layers:
        """A sequence's keys and values on the host. In a method of its own: what names a driver keeps its memory."""
        save = self.drivers[number].save
        assert save is not None  # every driver of attention alone has it
        return save()

    def _drop(self, number: int) -> None:
        del self.drivers[number]
        self.caches.pop(number, None)
        gc.collect()  # a driver holds methods of its own, so that its memory goes only now

    def _count(self, number: int) -> None:
        """Keep the most that each counter has reached; caches are added up over the sequences in memory."""
        counts = {"rss": resident_bytes(), **self.drivers[number].memory()}
        counts.pop("peak", None)  # of the last step alone
        if "caches" in counts:
            self.caches[number] = counts["caches"]
            counts["caches"] = sum(self.caches.values())
        for name, value in counts.items():
            self.peak[name] = max(self.peak.get(name, 0), value)

    def _file(self, number: int) -> Path:
        return Path(self.item["folder"]) / f"sequence-{number}.safetensors"

    def _label(self, number: int) -> kvfile.Label:
        return kvfile.Label.of(self.worker.cell, self.length[number], number)


_digest = partial(hashlib.blake2b, digest_size=8)
