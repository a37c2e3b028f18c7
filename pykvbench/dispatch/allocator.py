"""The heap classes of PyTorch's MPS allocator: lengths at which a growing tensor starts asking for larger heaps.

The constants of MPSAllocator.h are the same from torch 2.6 to 2.14.1. The class goes by the aligned size; whether Metal
aligns to 256 bytes or to 16 KiB pages is not known, so edges that differ are given for both.
"""

from __future__ import annotations

from pykvbench.dispatch.route import Landmark

OLDEST, NEWEST = (2, 6, 0), (2, 14, 1)
SMALL = 1 << 20  # up to here: 8 MiB heaps
LARGE = 10 << 20  # below: 32 MiB heaps
XLARGE = 512 << 20  # below: 1 GiB heaps; from here a heap of its own
PAGE = 16 << 10

_SOURCE = "torch 2.6-2.14, MPSAllocator.h"


def heap_landmarks(tensor: str, bytes_per_key: int, step: int = 1) -> tuple[Landmark, ...]:
    """Lengths, from 2 on and ascending, at which a tensor enters another heap class.

    The tensor holds `bytes_per_key` for each key and has room for a multiple of `step` keys: 256 for the chunked cache,
    which takes the step at the first length beyond the last multiple.
    """

    def reaches(keys: int) -> int:
        return (keys - 1) // step * step + 1

    first_large = reaches(SMALL // bytes_per_key + 1)
    found = [Landmark(first_large, f"{tensor} goes from small to large heaps (8 to 32 MiB)", _SOURCE)]
    for limit, what in (
        (LARGE, f"{tensor} goes from large to extra large heaps (32 MiB to 1 GiB)"),
        (XLARGE, f"{tensor} gets a heap of its own"),
    ):
        raw, paged = reaches(-(-limit // bytes_per_key)), reaches((limit - PAGE) // bytes_per_key + 1)
        if paged < raw:
            found.append(Landmark(paged, f"{what} if sizes are rounded up to 16 KiB", _SOURCE))
            what = f"{what} if sizes are not rounded"
        found.append(Landmark(raw, what, _SOURCE))
    return tuple(landmark for landmark in found if landmark.length > 1)
