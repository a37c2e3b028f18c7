"""The device's own clock beside the host's: CUDA's events around each step, and nothing anywhere else."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import torch
from pykvbench.drivers import torch_device

class Event:
    made = 0
    def __init__(self, enable_timing):
        assert enable_timing
        Event.made += 1
    def record(self):
        self.at = clock[0]
    def elapsed_time(self, end):
        return (end.at - self.at) / 1e6

clock = [0]
torch.cuda.Event = Event
torch_device._EVENT_PAIRS = 4

def step():
    clock[0] += 1000 * (1 + calls)
    return calls

timed, device_ns = torch_device.device_times(torch.device("cuda"), step)
for calls in range(6):
    assert timed() == calls
assert device_ns(3) == [4000, 5000, 6000], device_ns(3)
assert Event.made == 8, "pairs are used again"
for name in ("cpu", "mps"):
    assert torch_device.device_times(torch.device(name), step) == (step, None)
"""


def test_only_cuda_is_timed_by_events_and_the_last_steps_are_kept() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
