"""What a driver is: a small record of callables that the worker times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pykvbench.kvfile import Layers


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
    memory()         counters in bytes by name, such as live, driver, pooled; only those this backend has.
    describe         versions, device and settings that belong in the run file.
    begin(prompt, budget)  a trajectory begins; None where that changes nothing, as it does on every real device.
    device_ns(n)     ns that the last n steps took by the device's own clock; None where none can be trusted.
    work(result, n)  n units of extra work for the device after a step, injected on purpose; returns both, to be waited
                     for together. A unit is whatever the device can do little of; None where nothing can be injected.
    tokens(result)   the tokens the step chose, one a sequence of the batch; None for a body that chooses none.
    prefill(count)   compute the prompt's next `count` tokens into the caches, after reset(0) the first, as one chunk of
                     causal attention; the result for the last, which `outputs` takes (a model gives none).
    save()           K and V of the tokens so far, each layer's [B, Hkv, L, D], on the host: see kvfile.Layers.
    copy()           the same in other memory of the device.
    restore(layers)  put what save or copy gave into the caches, as their policy would have left them.
                     After prefill and restore, as after reset, device work is finished and the next step attends one
                     key more. These four are None where there is no cache to look into.

    Other bodies return and give other outputs: a block the last token's hidden state [1, B, 1, hidden], a model its
    logits [1, B, 1, vocabulary], a library's model its tokens [1, B, 1, 1].
    """

    reset: Callable[[int], None]
    advance: Callable[[], None]
    step: Callable[[], object]
    sync: Callable[[Any], object]
    outputs: Callable[[Any], npt.NDArray[np.float64]]
    memory: Callable[[], dict[str, int]]
    describe: dict[str, Any]
    begin: Callable[[int, int], None] | None = None
    device_ns: Callable[[int], list[int]] | None = None
    tokens: Callable[[Any], list[int]] | None = None
    prefill: Callable[[int], object] | None = None
    save: Callable[[], Layers] | None = None
    copy: Callable[[], Any] | None = None
    restore: Callable[[Any], None] | None = None
    work: Callable[[Any, int], object] | None = None


@dataclass(frozen=True)
class Sequences:
    """Many sequences of one cell in this process, each with caches of its own.

    sequence(number, room)  a driver of sequence `number` whose fixed buffers hold `room` tokens; its token t has row
                            number + t of the rows that all share, so that no two sequences hold the same. Its caches
                            are freed when the driver is dropped.
    memory()                the process's counters in bytes, as Driver.memory, without any caches.
    describe                versions, device and settings that belong in the run file.
    """

    sequence: Callable[[int, int], Driver]
    memory: Callable[[], dict[str, int]]
    describe: dict[str, Any]
