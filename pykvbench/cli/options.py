"""Options that several commands share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pykvbench.cell import BACKENDS, KERNELS
from pykvbench.errors import UsageError
from pykvbench.geometry import DTYPES, MODELS

Command = Callable[..., Any]

_CACHES = {  # cache policies in the words of a help page
    "prealloc": "in a fixed buffer",
    "concat": "concatenated at every step, as in transformers",
    "chunked": "by 256 tokens at once, as in mlx-lm",
    "padded": "not at all: a fixed shape and a mask",
    "none": "there is none, all is computed again",
}

# The numbers after a command's own, in the order of its help page.
_GEOMETRY = ("num_layers", "num_heads", "num_kv_heads", "head_dim", "batch")
_REQUEST = ("backends", "kernels", "caches", "dtypes", "model", *_GEOMETRY, "simulate")


def cell_options(caches: Sequence[str], cache: str, layers: str) -> Callable[[Command], Command]:
    """Options that multiply into cells; the command receives them as one `request`.

    `caches` are the policies to choose from, `cache` is the default one, `layers` says how --num-layers defaults.
    """
    options = (
        _names(
            "--backend",
            BACKENDS,
            None,
            "PyTorch: mps, cuda, cpu. MLX: mlx, mlx-cpu. Several are interleaved. Default: the best one here.",
        ),
        _names("--kernel", KERNELS, "manual", "Attention by hand (matmul, softmax, matmul) or the framework's own."),
        _names("--cache", caches, cache, f"How the KV cache grows: {'; '.join(_CACHES[name] for name in caches)}."),
        _names("--dtype", tuple(DTYPES), "float32", "Element type of Q, K and V."),
        click.option(
            "--model", default="gpt2", show_default=True, metavar="NAME", help=f"Geometry preset: {', '.join(MODELS)}."
        ),
        click.option("--num-layers", type=int, help=f"Layers stepped through. Default: {layers}."),
        click.option("--num-heads", type=int, help="Query heads instead of the preset's."),
        click.option("--num-kv-heads", type=int, help="KV heads instead of the preset's."),
        click.option("--head-dim", type=int, help="Head dimension instead of the preset's."),
        click.option("--batch", type=int, default=1, show_default=True, help="Sequences stepped at once."),
        click.option("--simulate", metavar="PROGRAM", help="What --backend simulated costs, such as 421=21x,noise=3%."),
    )

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_request(*arguments: Any, **values: Any) -> Any:
            from pykvbench.experiment.request import Request

            request = Request(**{name: values.pop(name) for name in _REQUEST})
            return command(*arguments, request=request, **values)

        return _apply(options, with_request)

    return decorate


def run_options(command: Command) -> Command:
    """Options of every command that measures."""
    options = (
        click.option(
            "--seed",
            type=int,
            default=0,
            show_default=True,
            help="Seed of keys, values and orders; the same one repeats them.",
        ),
        click.option(
            "--warmup",
            type=float,
            default=1.0,
            show_default=True,
            metavar="SECONDS",
            help="Steps for this long, untimed, before each process measures.",
        ),
        click.option(
            "--timeout",
            type=float,
            default=60.0,
            show_default=True,
            metavar="SECONDS",
            help="Give up a process that is silent for longer.",
        ),
        click.option(
            "-o", "--out", type=click.Path(path_type=Path), help="Run file to write. Default: a dated one under runs/."
        ),
    )
    return _apply(options, command)


def min_ratio_option(command: Command) -> Command:
    """The least excess that is a finding."""
    return click.option(
        "--min-ratio",
        type=float,
        callback=_above_one,
        default=1.10,
        metavar="RATIO",
        show_default=True,
        help="Least excess that counts: 1.10 is 10 % more than expected.",
    )(command)


def result_options(command: Command) -> Command:
    """Options of every command that ends in a verdict."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else."),
        min_ratio_option,
        click.option("--fail-on-finding", is_flag=True, help="Exit with status 1 when there is a finding."),
    )
    return _apply(options, command)


def _above_one(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not 1 < value < math.inf:
        raise UsageError(f"--min-ratio {value:g} is not possible; give a ratio above 1, such as 1.10.")
    return value


def _names(option: str, known: Sequence[str], default: str | None, text: str) -> Callable[[Command], Command]:
    """A repeatable option that takes known names, several at once in a comma list."""

    def read(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        names = [name.strip() for value in values or ([default] if default else []) for name in value.split(",")]
        for name in names:
            if name not in known:
                raise UsageError(f"{option} {name} is unknown; choose one of {', '.join(known)}.")
        return tuple(dict.fromkeys(names))

    suffix = f"  [default: {default}]" if default else ""
    metavar = "[" + "|".join(known) + "]"

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return click.option(
        option,
        option.strip("-") + "s",
        multiple=True,
        callback=read,
        metavar=metavar,
        help=text + suffix,
        shell_complete=complete,
    )


def _apply(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
