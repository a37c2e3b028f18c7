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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BLOCK = 8 << 20  # bytes a read; a multiple of every device's block, as O_DIRECT asks
_AT_ONCE = 4  # reads


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


def room(size: int) -> mmap.mmap:
    """Page-aligned memory for a file of `size` bytes, each page of it touched.

    Memory is zeroed when it is first used, which on a busy CPU takes longer than a disk takes to fill it; whoever
    restores caches again and again has such a buffer, and dd reads into one as well.
    """
    memory = mmap.mmap(-1, max(1, -(-size // mmap.PAGESIZE)) * mmap.PAGESIZE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 0
    return memory


def read(path: Path, memory: mmap.mmap | None = None) -> tuple[mmap.mmap, int, str]:
    """A file's bytes in page-aligned memory, how many there are, and how they were read.

    They go into `memory`, from `room`, if that is large enough, over what was there; else into memory of their own.
    How is "O_DIRECT", "F_NOCACHE" or "buffered": past the page cache, without adding to it, through it.
    """
    descriptor, how = _open(path)
    try:
        size = os.fstat(descriptor).st_size
        if memory is None or len(memory) < size:
            memory = room(size)
        return memory, _fill(descriptor, memory, size), how
    except OSError:
        if how != "O_DIRECT" or memory is None:
            raise
    finally:
        os.close(descriptor)
    with open(path, "rb", buffering=0) as file:  # some file systems let O_DIRECT be asked for and then do not read
        return memory, _fill(file.fileno(), memory, size), "buffered"


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


def _fill(descriptor: int, memory: mmap.mmap, size: int) -> int:
    """Read the whole file, several blocks at once, so that the disk never waits for us.

    O_DIRECT takes whole blocks at aligned places only, so the last is asked for whole. Returns the bytes that came.
    """
    view = memoryview(memory)[: -(-size // mmap.PAGESIZE) * mmap.PAGESIZE]

    def block(first: int) -> int:
        filled, last = first, min(first + BLOCK, len(view))
        while filled < last:
            got = os.preadv(descriptor, [view[filled:last]], filled)
            filled += got
            if not got or filled % mmap.PAGESIZE:
                break  # the end of the file
        return filled - first

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(block, range(0, len(view), BLOCK)))
