"""Run every command of docs/gallery.md, and draw its pictures again.

    python benchmarks/gallery.py [--keep-pictures] [ONLY ...]

Prints the verdict of every section beside the one that its heading promises; exit status 1 when they differ. ONLY are
words, one of which must be in a section's heading. Pictures are reduced to 64 colours, which keeps them below 100 kB.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gallery.md"


@dataclass(frozen=True)
class Section:
    """A heading, the verdict and the kinds of findings that it promises, and its commands."""

    title: str
    verdict: str | None
    kinds: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]  # words after pykvbench


def sections(text: str) -> list[Section]:
    """The sections of a page that have commands."""
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title = part.partition("\n")[0]
        promised = re.findall(r"`([a-z-]+)`", title)
        lines = [line for block in re.findall(r"```sh\n(.*?)```", part, re.DOTALL) for line in block.splitlines()]
        commands = tuple(tuple(shlex.split(line)[1:]) for line in lines)
        found.append(Section(title, promised[0] if promised else None, tuple(promised[1:]), commands))
    return found


def check(section: Section, folder: Path) -> str:
    """Run a section's commands in a folder; what differs from its promise, empty when nothing does."""
    wrong = ""
    for words in section.commands:
        judged = words[0] in ("attn", "decode", "analyze")
        command = [sys.executable, "-m", "pykvbench", *words, *(["--json"] if judged else [])]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
        if judged and section.verdict is not None:
            document = json.loads(done.stdout)
            kinds = {finding["kind"] for finding in document["findings"]}
            if document["verdict"] != section.verdict or not kinds >= set(section.kinds):
                wrong = f"{document['verdict']}, {sorted(kinds)}"
    return wrong


def prepare(folder: Path) -> None:
    """Make what the page's commands expect around them."""
    (folder / "docs" / "gallery").mkdir(parents=True)
    for table in (PAGE.parent / "gallery").glob("*.csv"):
        shutil.copy(table, folder / "docs" / "gallery")


def main() -> int:
    """Check the page; 1 when a section does not give what it promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-pictures", action="store_true", help="leave the pictures in docs/gallery as they are")
    parser.add_argument("only", nargs="*", metavar="ONLY", help="sections to run")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for section in sections(PAGE.read_text(encoding="utf-8")):
            if options.only and not any(word in section.title for word in options.only):
                continue
            wrong = check(section, folder)
            failed = failed or bool(wrong)
            print(f"{'WRONG' if wrong else 'ok':6}{section.title}{': ' + wrong if wrong else ''}", flush=True)
        for picture in [] if options.keep_pictures else sorted((folder / "docs" / "gallery").glob("*.png")):
            reduced = Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE)
            reduced.save(PAGE.parent / "gallery" / picture.name, optimize=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
