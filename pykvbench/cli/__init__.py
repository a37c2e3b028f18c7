"""The command line: commands declare options, call one core function, and print. click is imported nowhere else."""

from pykvbench.cli import analyze, attn, capacity, compare, decode, doctor, plot, report, reuse, selftest
from pykvbench.cli.main import main

for module in (attn, decode, capacity, reuse, compare, report, plot, analyze, selftest, doctor):
    main.add_command(module.command)

__all__ = ["main"]
