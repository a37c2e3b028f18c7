"""What the commands print: the result, the progress bar, and how a run ended."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykvbench.cell import Cell

if TYPE_CHECKING:
    from pykvbench.analysis.finding import Result
    from pykvbench.experiment.supervisor import Progress

FINDINGS, INCOMPLETE = 1, 3  # exit statuses; 2 is for what cannot be done at all


def show(path: Path, min_ratio: float = 1.10, as_json: bool = False) -> Result:
    """Analyse a file and print what it says."""
    from pykvbench.analysis.file import analyze_file, describe
    from pykvbench.report import capacity_text, reuse_text, text, trajectory_table

    run, result = analyze_file(path, min_ratio)
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
        return result
    width = shutil.get_terminal_size().columns
    if run is not None:
        click.echo(text.render_events(run.events, width=width), err=True, nl=False)
    colour = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    pages = {"decode": trajectory_table.render, "capacity": capacity_text.render, "reuse": reuse_text.render}
    render = pages.get(str(run.header.get("command")), text.render) if run is not None else text.render
    click.echo(render(result, header=describe(run), width=width, colour=colour), nl=False)
    return result


def finish(
    ctx: click.Context, path: Path, status: str, result: Result, fail_on_finding: bool, remedy: str = ""
) -> None:
    """Say where the run file is and leave with the exit status that the run has earned."""
    if status != "complete":
        click.echo(f"The run is {status}; what was measured is in {path}.{remedy}", err=True)
        ctx.exit(INCOMPLETE)
    click.echo(f"Run file: {path}", err=True)
    ctx.exit(FINDINGS if fail_on_finding and result.findings else 0)


def dated(command: str, cells: Sequence[Cell]) -> Path:
    """The run file when none is named: runs/20261130-201500-attn-cpu.jsonl."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = f"{stamp}-{command}-{'-'.join(dict.fromkeys(cell.backend for cell in cells))}"
    names = (Path("runs") / f"{name}{suffix}.jsonl" for suffix in ("", *(f"-{n}" for n in range(2, 100))))
    return next(path for path in names if not path.exists())  # two runs may begin in one second


@contextlib.contextmanager
def progress(steps: int) -> Iterator[Callable[[Progress], None]]:
    """A bar on stderr, where that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda progress: None
        return
    with click.progressbar(length=steps, file=sys.stderr, show_pos=True, item_show_func=lambda item: item or "") as bar:

        def report(progress: Progress) -> None:
            bar.length = progress.total
            bar.update(progress.done - bar.pos, f"{progress.cell}, round {progress.round + 1}")

        yield report
