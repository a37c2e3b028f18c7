"""A picture's way into its file: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pykvbench.errors import UsageError


def save(picture: bytes, path: str | os.PathLike[str]) -> None:
    """Write `picture`, replacing a file that is there; a full disk leaves that one as it was.

    Raises UsageError when `path` cannot be written.
    """
    target = Path(path)
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(picture)
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file with -o.") from None
