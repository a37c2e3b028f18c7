"""In the worker: a visit, which is one length's first call, second call and K steady calls, checked for being right."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pykvbench import _timer
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import TOLERANCE, numerics_error
from pykvbench.drivers.parts import STEP, Part
from pykvbench.drivers.resident import resident_bytes
from pykvbench.experiment.inject import Injector, parse_injection, undisturbed
from pykvbench.experiment.plan import CALLS_BEFORE_STEADY

if TYPE_CHECKING:
    from pykvbench.experiment.worker import Worker


def measure(worker: Worker, driver: Driver, item: dict[str, int]) -> None:
    """Visit item's length, then compare the last sample's output with the float64 reference, and write the line."""
    task, length = worker.task, item["length"]
    prepare = partial(driver.reset, length - 1)
    injector = Injector(driver, map(parse_injection, task["inject"]), task["process"], task["warmup_length"])
    step = injector.step("whole", Part(driver.reset, driver.step, STEP), length)
    stamps = np.zeros((CALLS_BEFORE_STEADY + task["samples"], 3), dtype=np.int64)
    before = _timer.usage()
    result = _timer.run(step, driver.sync, stamps, prepare)
    after = _timer.usage()
    spans = np.stack([stamps[:, 1] - stamps[:, 0], stamps[:, 2] - stamps[:, 0]], axis=1)  # dispatch, total
    device = {} if driver.device_ns is None else {"device": driver.device_ns(task["samples"])}
    error = numerics_error(driver.outputs(undisturbed(result)), _expected(task["reference"], item["row"]))
    worker.write(
        "visit",
        order=item["order"],
        length=length,
        at=worker.at(int(stamps[0, 0])),
        gap=int(stamps[0, 0]) - worker.previous_end,
        first=spans[0].tolist(),
        second=spans[1].tolist(),
        dispatch=spans[CALLS_BEFORE_STEADY:, 0].tolist(),
        total=spans[CALLS_BEFORE_STEADY:, 1].tolist(),
        **device,
        error=error if np.isfinite(error) else None,
        correct=bool(error <= TOLERANCE[worker.cell.geometry.dtype]),
        memory={"rss": resident_bytes(), **driver.memory()},
        cpu=after[0] - before[0],
        switches=[after[1] - before[1], after[2] - before[2]],
    )
    worker.previous_end = int(stamps[-1, 2])


def _expected(path: str, row: int) -> npt.NDArray[Any]:
    """One length's reference. The file is not kept open: rows left in memory would look like growth per length."""
    return np.array(np.load(path, mmap_mode="r")[row])
