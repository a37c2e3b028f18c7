"""KV caches in safetensors files: written so that no half of one ever loads, and checked before one is used.

A file is written elsewhere, flushed to the disk, and moved to its place: whoever is killed meanwhile leaves no file
there. Its metadata say what it belongs to (Label) and hold a checksum of each tensor. Tensors are k.0, v.0, k.1, ...,
[B, Hkv, L, D] each, so that any reader of safetensors can use them; bfloat16 is held as its bits, uint16, in NumPy.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors

from pykvbench import _timer, pagecache
from pykvbench.cell import Cell
from pykvbench.errors import KVFileError
from pykvbench.geometry import Geometry

SCHEMA = 1
HOST_DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}
_NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
_TYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "F64": np.float64}
_PAGE = 512  # words of 8 bytes

Array = npt.NDArray[Any]
Layers = Sequence[tuple[Array, Array]]
"""K and V of each layer, [B, Hkv, L, D] each, in the geometry's HOST_DTYPES."""


@dataclass(frozen=True)
class Label:
    """What K and V belong to: they fit nothing else."""

    model: str
    body: str
    geometry: Geometry
    length: int
    seed: int

    @classmethod
    def of(cls, cell: Cell, length: int, seed: int) -> Label:
        """The label of a cell's first `length` tokens; attention alone belongs to no model, only to its geometry."""
        return cls("" if cell.body == "attention" else cell.model, cell.body, cell.geometry, length, seed)


@dataclass(frozen=True)
class Stored:
    """What a file held, and what reading it took.

    `resident` is the share of the file that the page cache held when reading began, None if unknown; `how` is how it
    was read (see pagecache.read).
    """

    layers: Layers
    extras: dict[str, Array] = field(default_factory=dict)
    size: int = 0
    read_ns: int = 0
    check_ns: int = 0
    how: str = ""
    resident: float | None = None

    @property
    def cold(self) -> bool:
        """Whether it came from the disk and not from memory, as far as the system says."""
        return self.how != "F_NOCACHE" and self.resident == 0.0


def write(path: Path, layers: Layers, label: Label, extras: Mapping[str, Array] | None = None) -> None:
    """Write K and V, and float64 `extras`, so that `path` is either complete and on the disk or as it was before.

    OSError when there is no room or no permission; then, too, nothing is left behind.
    """
    dtype = label.geometry.dtype
    tensors = {f"{kv}.{layer}": rows for layer, pair in enumerate(layers) for kv, rows in zip("kv", pair, strict=True)}
    tensors = {name: np.ascontiguousarray(rows) for name, rows in (*tensors.items(), *(extras or {}).items())}
    specs = {
        name: safetensors.TensorSpec(
            dtype="float64" if name in (extras or {}) else dtype,
            shape=list(rows.shape),
            data_ptr=rows.ctypes.data,
            data_len=rows.nbytes,
        )
        for name, rows in tensors.items()
    }
    about = {**asdict(label), "schema": SCHEMA, "checksums": {name: checksum(rows) for name, rows in tensors.items()}}
    _forget_unfinished(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")  # a folder: safetensors makes files of its own
    try:
        partial.mkdir()
        safetensors.serialize_file(specs, partial / path.name, metadata={"pykvbench": json.dumps(about)})
        _flush(partial / path.name)
        (partial / path.name).replace(path)
        _flush(path.parent)
    except safetensors.SafetensorError as error:
        raise OSError(f"{path.name} could not be written ({error})") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read(path: Path, label: Label, memory: mmap.mmap | None = None) -> Stored:
    """Read K and V from the disk, past the page cache where the system allows it, and check that they are `label`'s.

    With `memory`, from pagecache.room, they lie in it, and the next read into it overwrites them.
    Raises KVFileError, one sentence, for a file that is missing, cut short, damaged, or of something else.
    """
    try:
        resident = pagecache.drop(path)
        began = _timer.now_ns()
        memory, size, how = pagecache.read(path, memory)
    except OSError as error:
        raise KVFileError(f"{path.name} cannot be read ({error.strerror}); compute it again.") from None
    read = _timer.now_ns()
    about, tensors = _parse(memory, size, path.name)
    _compare(about, label, path.name)
    layers, extras = _arrays(tensors, about["checksums"], label, path.name)
    return Stored(layers, extras, size, read - began, _timer.now_ns() - read, how, resident)


def checksum(values: Array) -> int:
    """A CRC of the sums of every 4 KiB and of the bytes after the last; any changed word or misplaced block shows.

    A CRC of every byte would take longer than a fast disk takes to read them.
    """
    words = values.reshape(-1).view(np.uint8)
    whole = len(words) // (8 * _PAGE) * (8 * _PAGE)
    sums = words[:whole].view(np.uint64).reshape(-1, _PAGE).sum(axis=1, dtype=np.uint64)
    return zlib.crc32(words[whole:].data, zlib.crc32(sums.data))


def _parse(memory: Any, size: int, name: str) -> tuple[dict[str, Any], dict[str, tuple[str, Array]]]:
    """The file's own metadata, and each tensor's type and values; no byte is copied."""
    header = int.from_bytes(memory[:8], "little")
    if size < 8 or size < 8 + header:
        raise KVFileError(f"{name} is cut short at {size} bytes, within its header; compute it again.")
    try:
        entries = json.loads(memory[8 : 8 + header])
        about = json.loads(entries.pop("__metadata__")["pykvbench"])
        ends = [int(entry["data_offsets"][1]) for entry in entries.values()]
        complete = 8 + header + max(ends)
        tensors = {}
        if size >= complete:
            for key, entry in entries.items():
                first, last = (8 + header + int(offset) for offset in entry["data_offsets"])
                dtype, shape = _TYPES[entry["dtype"]], tuple(entry["shape"])
                count = (last - first) // np.dtype(dtype).itemsize
                values = np.frombuffer(memory, dtype=dtype, count=count, offset=first).reshape(shape)
                tensors[key] = (str(entry["dtype"]), values)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise KVFileError(f"{name} is not a file of K and V that pykvbench wrote; compute it again.") from None
    if size < complete:
        raise KVFileError(f"{name} is cut short at {size} of its {complete} bytes; compute it again.")
    return about, tensors


def _compare(about: Any, label: Label, name: str) -> None:
    schema = about.get("schema") if isinstance(about, dict) else None
    if schema != SCHEMA or not isinstance(about.get("checksums"), dict):
        raise KVFileError(f"{name} has schema {schema} and this pykvbench reads {SCHEMA}; compute it again.")
    wanted = _flat(asdict(label))
    held = _flat({key: about.get(key) for key in asdict(label)})
    for key in wanted:
        if held.get(key) != wanted[key]:
            raise KVFileError(f"{name} has {key} {held.get(key)}, and {wanted[key]} is needed; compute it again.")


def _arrays(
    tensors: Mapping[str, tuple[str, Array]], checksums: Mapping[str, Any], label: Label, name: str
) -> tuple[Layers, dict[str, Array]]:
    shape = label.geometry
    rows = (shape.batch, shape.num_kv_heads, label.length, shape.head_dim)
    needed = {f"{kv}.{layer}": (_NAMES[shape.dtype], rows) for layer in range(shape.num_layers) for kv in "kv"}
    if any(key not in tensors or (tensors[key][0], tensors[key][1].shape) != needed[key] for key in needed):
        raise KVFileError(f"{name} lacks tensors of its {shape.num_layers} layers; compute it again.")
    for key, (_, values) in tensors.items():
        if checksum(values) != checksums.get(key):
            raise KVFileError(f"{name} is damaged: {key} differs from its checksum; compute it again.")
    layers = [(tensors[f"k.{layer}"][1], tensors[f"v.{layer}"][1]) for layer in range(shape.num_layers)]
    return layers, {key: values for key, (_, values) in tensors.items() if key not in needed}


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """The label's values with the geometry's after them: another model is said before its number of layers."""
    geometry = values.get("geometry")
    return {**{k: v for k, v in values.items() if k != "geometry"}, **(geometry if isinstance(geometry, dict) else {})}


def _flush(path: Path) -> None:
    """Return when the disk has a file's bytes, or a folder's names; macOS hands them to the drive only."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget_unfinished(path: Path) -> None:
    """Remove what writers of this file left that were killed."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        owner = partial.name.split(".")[-2]
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(owner), 0)
            except ProcessLookupError:
                shutil.rmtree(partial)
