"""The group of all commands, and the one place where an error becomes a sentence and an exit status."""

from __future__ import annotations

import contextlib
import signal
from typing import Any

import click

from pykvbench import __version__
from pykvbench.errors import PykvbenchError


class Failure(click.ClickException):
    """A PykvbenchError on its way to the terminal: one sentence, exit status 2."""

    exit_code = 2


class Commands(click.Group):
    """Turns what the core raises on purpose into one sentence and an exit status, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PykvbenchError as error:
            raise Failure(str(error)) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="pykvbench")
def main() -> None:
    """Is LLM decoding slow at some KV lengths because of the attention kernel dispatched there, or for another reason?

    \b
    Start with:  pykvbench attn --len 380:530
    """
    with contextlib.suppress(ValueError):  # not in the main thread: nothing to handle
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
