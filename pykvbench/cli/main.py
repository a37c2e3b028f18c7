"""The group of all commands, and the one place where an error becomes a sentence and an exit status."""

from __future__ import annotations

import contextlib
import errno
import signal
from typing import Any

import click

from pykvbench import __version__
from pykvbench.errors import PykvbenchError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Failure(click.ClickException):
    """A PykvbenchError on its way to the terminal: one sentence, exit status 2."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Ctrl-C where no run is there to be analysed: exit status 3."""

    exit_code = 3


class Commands(click.Group):
    """Turns what the core raises on purpose into one sentence and an exit status, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which a user meets them, not by the alphabet

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PykvbenchError as error:
            raise Failure(str(error)) from None
        except KeyboardInterrupt:  # before a run had begun, or a second time; click would leave with 1
            raise Interrupted("Interrupted.") from None
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise Failure(f"The output cannot be written ({error.strerror}); make room and try again.") from None


def _print_versions(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from pykvbench.machine.packages import installed

    click.echo(f"pykvbench {__version__}")
    for name in ("torch", "mlx"):
        click.echo(f"{name} {installed(name) or 'is not installed'}")
    ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Print the versions of pykvbench, torch and mlx.",
)
def main() -> None:
    """Is LLM decoding slow at some KV lengths because of the attention kernel dispatched there, or for another reason?

    \b
    Start with:  pykvbench attn --len 380:530
    Then:        pykvbench COMMAND --help

    Results go to stdout, everything else to stderr; colour only on a terminal, and not if NO_COLOR is set. Exit status:
    0 when the command ran, 1 where a --fail option or selftest says so, 2 when it cannot be done as asked, 3 when a run
    was not completed; what it measured is kept.
    """
    with contextlib.suppress(ValueError):  # not in the main thread: nothing to handle
        signal.signal(signal.SIGTERM, _interrupt)
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # a terminal that is closed; nohup ignores it
            signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
