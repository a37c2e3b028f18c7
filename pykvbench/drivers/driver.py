"""What a driver is: a small record of callables that the worker times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Driver:
    """One cell, ready to be stepped in this process.

    reset(length)    fill every cache with `length` tokens exactly as its policy would have left them and finish all
                     device work; the next step attends length + 1 keys. Called outside the timed window.
    advance()        make the next token's K and V rows ready after a step that is to be followed by another
                     (trajectories). Called outside the timed window.
    step()           one token through all layers: write the new K/V row, attend, add to the query of the next layer.
                     Returns the attention output of each layer, possibly not computed yet.
    sync(result)     return when the device has finished the result.
    outputs(result)  the result on the host: float64 [num_layers, B, H, D]. Not timed.
    memory()         counters in bytes by name, such as live, driver, pooled, rss; only those this backend has.
    describe         versions, device and settings that belong in the run file.
    """

    reset: Callable[[int], None]
    advance: Callable[[], None]
    step: Callable[[], object]
    sync: Callable[[Any], object]
    outputs: Callable[[Any], npt.NDArray[np.float64]]
    memory: Callable[[], dict[str, int]]
    describe: dict[str, Any]
