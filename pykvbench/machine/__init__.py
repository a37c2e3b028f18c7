"""The machine a run was made on: chip, system, power, versions and variables; what among them disturbs timing."""

from pykvbench.machine.disturbance import disturbances
from pykvbench.machine.facts import machine
from pykvbench.machine.variables import timing_variables

__all__ = ["disturbances", "machine", "timing_variables"]
