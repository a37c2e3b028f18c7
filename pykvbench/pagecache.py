"""The system's page cache: reading a file past it, and telling how much of a file it holds.

A file that was just written is still in memory, and reading it back then measures memory, not the disk. Linux lets
clean pages be dropped (posix_fadvise) and reads go past the cache (O_DIRECT), except where a file has no disk under it
(tmpfs accepts both and keeps every page); macOS can be asked not to add pages (F_NOCACHE). So what came of it is
looked up with mincore, and said.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
from pathlib import Path

import numpy as np

BLOCK = 8 << 20  # bytes a read; a multiple of every device's block, as O_DIRECT asks


def drop(path: Path) -> float | None:
    """Ask the system to forget a file's pages; returns the share that it still holds, None where it does not say."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return resident(descriptor)
    finally:
        os.close(descriptor)


def resident(descriptor: int) -> float | None:
    """The share of a file's pages that are in memory, 0 to 1; None where the system does not say."""
    size = os.fstat(descriptor).st_size
    if not size:
        return 0.0
    vector = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    # A private mapping, because only a writable one tells ctypes its address; nothing is accessed through it.
    with contextlib.suppress(OSError, ValueError), mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY) as pages:
        first = ctypes.c_char.from_buffer(pages)
        failed = ctypes.CDLL(None).mincore(ctypes.byref(first), ctypes.c_size_t(size), vector)
        del first  # a mapping that something points into cannot be closed
        return None if failed else float((np.frombuffer(bytes(vector), np.uint8) & 1).mean())
    return None


def read(path: Path) -> tuple[mmap.mmap, int, str]:
    """A file's bytes in page-aligned memory, how many there are, and how they were read.

    How is "O_DIRECT", "F_NOCACHE" or "buffered": past the page cache, without adding to it, through it.
    """
    descriptor, how = _open(path)
    try:
        size = os.fstat(descriptor).st_size
        memory = mmap.mmap(-1, max(1, -(-size // mmap.PAGESIZE)) * mmap.PAGESIZE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):
                memory.madvise(mmap.MADV_HUGEPAGE)  # fewer page faults while the disk fills it
        return memory, _fill(descriptor, memory), how
    except OSError:
        if how != "O_DIRECT":
            raise
    finally:
        os.close(descriptor)
    with open(path, "rb", buffering=0) as file:  # some file systems let O_DIRECT be asked for and then do not read
        return memory, _fill(file.fileno(), memory), "buffered"


def _open(path: Path) -> tuple[int, str]:
    if hasattr(os, "O_DIRECT"):
        with contextlib.suppress(OSError):
            return os.open(path, os.O_RDONLY | os.O_DIRECT), "O_DIRECT"
    descriptor = os.open(path, os.O_RDONLY)
    if hasattr(fcntl, "F_NOCACHE"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)
            return descriptor, "F_NOCACHE"
    return descriptor, "buffered"


def _fill(descriptor: int, memory: mmap.mmap) -> int:
    """Read to the file's end; O_DIRECT takes whole blocks at aligned places only, so the last is asked for whole."""
    view, filled = memoryview(memory), 0
    while filled < len(view):
        got = os.preadv(descriptor, [view[filled : filled + BLOCK]], filled)
        if not got:
            break
        filled += got
        if filled % mmap.PAGESIZE:
            break  # the end of the file
    return filled
