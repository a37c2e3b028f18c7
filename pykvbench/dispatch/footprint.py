"""How many bytes the caches of a sequence take: its keys and values, the policy's room, the allocator's rounding.

All of it is linear: bytes = sequences x tokens x (2 x layers x KV heads x head_dim x itemsize), rounded up per buffer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pykvbench.cell import Cell
from pykvbench.dispatch.layout import layout, tensor_bytes_per_key

PAGE = 16 << 10


@dataclass(frozen=True)
class Allocator:
    """How a framework's allocator rounds one buffer up.

    unit      sizes are multiples of it, from `exact_to` bytes on
    exact_to  buffers up to this size are not rounded to the unit, but to the next power of two where `powers`
    slack     bytes that a buffer may hold beyond that, when a freed block is given out whole
    """

    unit: int
    exact_to: int = 0
    powers: bool = False
    slack: int = 0
    source: str = ""

    def rounded(self, size: int) -> int:
        """Bytes that a buffer of `size` is counted with."""
        if 0 < size <= self.exact_to:
            return 1 << (size - 1).bit_length() if self.powers else size
        return -(-size // self.unit) * self.unit

    @property
    def doubt(self) -> int:
        """Bytes by which a right prediction of one buffer may miss what is measured: a page of the system at least."""
        return max(self.unit, self.slack, 4 << 10)


ALLOCATORS = {
    "cpu": Allocator(1, source="torch's CPU allocator asks for what is needed"),
    "cuda": Allocator(512, slack=1 << 20, source="torch's CUDA caching allocator: 512 B, up to 1 MiB left unsplit"),
    "mps": Allocator(PAGE, source="torch 2.6-2.14, MPSAllocator.h: 256 B or pages of 16 KiB, here the larger"),
    "mlx metal": Allocator(PAGE, exact_to=PAGE, slack=2 * PAGE, source="mlx: pages of 16 KiB above one page"),
    "mlx cuda": Allocator(
        PAGE, exact_to=PAGE - 1, powers=True, slack=2 * PAGE, source="mlx: powers of two, then 16 KiB"
    ),
    "mlx cpu": Allocator(1, slack=8 << 10, source="mlx's CPU allocator asks for what is needed"),
    "simulated": Allocator(1, source="nothing is allocated"),
}


@dataclass(frozen=True)
class Footprint:
    """Bytes of one sequence's caches at one length.

    kv          keys and values alone
    buffers     with the rows that the cache policy holds ready beyond them
    allocated   with each buffer rounded up by the allocator
    growth      more than that while the step that leads to this length runs, where the policy copies to grow
    """

    kv: int
    buffers: int
    allocated: int
    growth: int

    def to_json(self) -> dict[str, int]:
        """Plain values for the run file."""
        return asdict(self)


def allocator_name(cell: Cell, platform: str, gpu: bool) -> str:
    """Which of ALLOCATORS serves a cell; `gpu` is whether `mlx` runs on one, `platform` is what the machine's OS is."""
    if cell.backend == "mlx-cpu" or (cell.backend == "mlx" and not gpu):
        return "mlx cpu"
    if cell.backend == "mlx":
        return "mlx metal" if platform == "macOS" else "mlx cuda"
    return cell.backend


def footprint(cell: Cell, allocator: str, length: int, room: int) -> Footprint:
    """What a sequence of `length` tokens holds after the step that led there; fixed buffers have `room` rows.

    While `concat` grows, and `chunked` at 257, torch holds one old buffer besides the new one, since a step's updates
    run one after the other; MLX may hold all of them until the step has been computed.
    """
    rule, per_key, tensors = ALLOCATORS[allocator], tensor_bytes_per_key(cell), 2 * cell.geometry.num_layers
    capacity = layout(cell, length, room).capacity
    one = rule.rounded(per_key * capacity)
    before = layout(cell, max(1, length - 1), room).capacity
    old = rule.rounded(per_key * before) if before != capacity else 0
    return Footprint(
        kv=cell.geometry.kv_bytes(length),
        buffers=tensors * per_key * capacity,
        allocated=tensors * one,
        growth=old * (tensors if allocator.startswith("mlx") else 1),
    )


def whole_sequence(cell: Cell, allocator: str, context: int, tokens: int) -> int:
    """Bytes that one sequence needs to get all its tokens: what it holds at its end, and the most any step grows by."""
    room, last = rows_of(context, tokens), context + tokens
    sizes = [footprint(cell, allocator, length, room) for length in range(context + 1, last + 1)]
    return sizes[-1].allocated + max(size.growth for size in sizes)


def fitting(cell: Cell, allocator: str, context: int, tokens: int, size: int) -> int:
    """How many sequences get all their tokens side by side within `size` bytes; they are stepped one after another."""
    held = footprint(cell, allocator, context + tokens, rows_of(context, tokens)).allocated
    growth = whole_sequence(cell, allocator, context, tokens) - held
    return max(0, (size - growth) // held)


def rows_of(context: int, tokens: int) -> int:
    """Rows of a sequence's fixed buffers; one more than it fills, since a filled one may take another kernel."""
    return context + tokens + 1
