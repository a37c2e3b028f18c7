"""In the worker: contrasts, which are a step, its parts and its variants, visited in turns at a few lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pykvbench import _timer
from pykvbench.cell import Cell
from pykvbench.drivers.driver import Driver
from pykvbench.drivers.numpy_driver import TOLERANCE, numerics_error
from pykvbench.drivers.opening import open_driver, open_parts
from pykvbench.drivers.parts import STEP, Part
from pykvbench.experiment.inject import Injector, parse_injection, undisturbed
from pykvbench.experiment.plan import CALLS_BEFORE_STEADY

if TYPE_CHECKING:
    from pykvbench.experiment.worker import Worker

LEAST_ROUNDS = 2  # are measured however long they take; the rest only while the process is young


@dataclass(frozen=True)
class Variant:
    """Something to be timed, what waits for it, and what adds injected work to it."""

    part: Part
    driver: Driver
    injector: Injector


@dataclass(frozen=True)
class Contrasts:
    """All variants of this process by name, and when its time is up."""

    variants: dict[str, Variant]
    until_ns: int


def open_contrasts(worker: Worker, driver: Driver) -> Contrasts:
    """Open every variant that the task names: parts of its cell, and other cells under the same framework."""
    task = worker.task

    def whole(opened: Driver) -> Variant:
        injector = Injector(opened, injections, task["process"], task["warmup_length"])
        return Variant(Part(opened.reset, opened.step, STEP), opened, injector)

    injections = [parse_injection(text) for text in task["inject"]]
    variants = {task["whole"]: whole(driver)}
    where = (task["seed"], task["simulate"], task["process"], task["began_ns"])
    if task["parts"]:
        injector = variants[task["whole"]].injector
        for name, part in open_parts(worker.cell, task["capacity"], *where).items():
            variants[name] = Variant(part, driver, injector)
    for name, other in task["others"].items():
        variants[name] = whole(open_driver(Cell.from_json(other["cell"]), other["capacity"], *where))
    return Contrasts(variants, _timer.now_ns() + int(task["limit_s"] * 1e9))


def measure(worker: Worker, contrasts: Contrasts, item: dict[str, Any]) -> None:
    """Visit one variant at one length and write the line; later rounds are left out once the time is up."""
    if item["round"] >= LEAST_ROUNDS and _timer.now_ns() > contrasts.until_ns:
        return
    name, length = item["variant"], item["length"]
    variant = contrasts.variants[name]
    stamps = np.zeros((CALLS_BEFORE_STEADY + worker.task["samples"], 3), dtype=np.int64)
    step: Callable[[], object] = variant.injector.step(name, variant.part, length)
    result = _timer.run(step, variant.driver.sync, stamps, partial(variant.part.reset, length - 1))
    spans = np.stack([stamps[:, 1] - stamps[:, 0], stamps[:, 2] - stamps[:, 0]], axis=1)  # dispatch, total
    checked: dict[str, Any] = {"error": None, "correct": None}
    if name == worker.task["whole"]:
        expected = np.array(np.load(worker.task["reference"], mmap_mode="r")[item["row"]])
        error = numerics_error(variant.driver.outputs(undisturbed(result)), expected)
        right = bool(error <= TOLERANCE[worker.cell.geometry.dtype])
        checked = {"error": error if np.isfinite(error) else None, "correct": right}
    worker.write(
        "contrast",
        cell=worker.task["target_cell"],
        variant=name,
        length=length,
        round=item["round"],
        order=item["order"],
        at=worker.at(int(stamps[0, 0])),
        first=spans[0].tolist(),
        second=spans[1].tolist(),
        dispatch=spans[CALLS_BEFORE_STEADY:, 0].tolist(),
        total=spans[CALLS_BEFORE_STEADY:, 1].tolist(),
        **checked,
    )
