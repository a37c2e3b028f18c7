"""A file of K and V is whole and right, or it is refused in one sentence."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors

from pykvbench import kvfile, pagecache
from pykvbench.cell import Cell
from pykvbench.errors import KVFileError
from pykvbench.geometry import DTYPES, Geometry
from pykvbench.kvfile import HOST_DTYPES, Array, Label, Layers

SHAPE = Geometry(2, 2, 4, 2, 4, "float16")
LABEL = Label("gpt2", "model", SHAPE, 5, 0)
EXTRAS = {"output": np.arange(6.0).reshape(2, 3)}


def rows(label: Label, seed: int = 0) -> Layers:
    """Random bits as K and V, NaN among them."""
    rng, shape = np.random.default_rng(seed), label.geometry
    size = (shape.batch, shape.num_kv_heads, label.length, shape.head_dim)
    words = (*size[:3], size[3] * shape.itemsize // 2)

    def bits() -> Array:
        return rng.integers(0, 1 << 16, words, np.uint16).view(HOST_DTYPES[shape.dtype])

    return [(bits(), bits()) for _ in range(shape.num_layers)]


def same(first: Layers, second: Layers) -> bool:
    return all(a.tobytes() == b.tobytes() for one, other in zip(first, second) for a, b in zip(one, other))


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def refusal(path: Path, label: Label = LABEL) -> str:
    with pytest.raises(KVFileError) as caught:
        kvfile.read(path, label)
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kv.safetensors"
    kvfile.write(path, rows(LABEL), LABEL, EXTRAS)
    return path


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 700])  # 700 rows: pages, and bytes after the last
def test_what_is_read_is_what_was_written(tmp_path: Path, dtype: str, length: int) -> None:
    label = replace(LABEL, geometry=replace(SHAPE, dtype=dtype), length=length)
    path, written = tmp_path / "kv.safetensors", rows(label)
    kvfile.write(path, written, label, EXTRAS)
    stored = kvfile.read(path, label)
    assert same(stored.layers, written)
    assert all(a.dtype == b.dtype and a.shape == b.shape for pair in zip(stored.layers, written) for a, b in zip(*pair))
    assert stored.extras["output"].tolist() == EXTRAS["output"].tolist()
    assert stored.size == path.stat().st_size > label.geometry.kv_bytes(length)
    assert stored.read_ns > 0
    assert names(tmp_path) == ["kv.safetensors"]


def test_a_file_is_read_into_memory_that_is_there(tmp_path: Path) -> None:
    memory = pagecache.room(9000)
    for length, fits in ((5, True), (7, True), (700, False)):  # a longer one that fits, and one that does not
        label = replace(LABEL, length=length)
        path = tmp_path / f"{length}.safetensors"
        kvfile.write(path, rows(label), label)
        stored = kvfile.read(path, label, memory)
        assert same(stored.layers, rows(label))
        held = np.frombuffer(memory, np.uint8)
        assert np.shares_memory(stored.layers[0][0], held) == fits
    cut = tmp_path / "5.safetensors"  # what the memory still holds of another file does not make it whole
    cut.write_bytes(cut.read_bytes()[:-3])
    with pytest.raises(KVFileError, match="is cut short"):
        kvfile.read(cut, replace(LABEL, length=5), memory)


@pytest.mark.parametrize(("dtype", "name"), [("float32", "F32"), ("float16", "F16"), ("bfloat16", "BF16")])
def test_any_reader_of_safetensors_can_use_it(tmp_path: Path, dtype: str, name: str) -> None:
    label = replace(LABEL, geometry=replace(SHAPE, dtype=dtype))
    kvfile.write(tmp_path / "kv.safetensors", rows(label), label)
    with safetensors.safe_open(tmp_path / "kv.safetensors", framework="np") as file:
        assert sorted(file.keys()) == ["k.0", "k.1", "v.0", "v.1"]
        assert file.get_slice("k.0").get_dtype() == name
        assert file.get_slice("k.0").get_shape() == [2, 2, 5, 4]
        assert json.loads(file.metadata()["pykvbench"])["length"] == 5


def test_rows_that_are_slices_are_written_as_they_look(tmp_path: Path) -> None:
    long = rows(replace(LABEL, length=9))
    sliced = [(k[:, :, 2:7], v[:, :, ::2]) for k, v in long]
    kvfile.write(tmp_path / "kv.safetensors", sliced, LABEL)
    assert same(kvfile.read(tmp_path / "kv.safetensors", LABEL).layers, sliced)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (replace(LABEL, model="gpt2-xl"), "has model gpt2, and gpt2-xl is needed"),
        (replace(LABEL, body="block"), "has body model, and block is needed"),
        (replace(LABEL, length=6), "has length 5, and 6 is needed"),
        (replace(LABEL, seed=1), "has seed 0, and 1 is needed"),
        (replace(LABEL, geometry=replace(SHAPE, dtype="bfloat16")), "has dtype float16, and bfloat16 is needed"),
        (replace(LABEL, geometry=replace(SHAPE, num_layers=3)), "has num_layers 2, and 3 is needed"),
    ],
)
def test_what_belongs_to_something_else_is_refused(path: Path, label: Label, words: str) -> None:
    assert refusal(path, label) == f"kv.safetensors {words}; compute it again."


def test_a_missing_file_and_other_files_are_refused(tmp_path: Path, path: Path) -> None:
    assert refusal(tmp_path / "no.safetensors") == (
        "no.safetensors cannot be read (No such file or directory); compute it again."
    )
    path.write_bytes(b"")
    assert refusal(path) == "kv.safetensors is cut short at 0 bytes, within its header; compute it again."
    path.write_bytes(b"length,time_ms\n1,2\n" * 90)
    assert "is cut short" in refusal(path) or "is not a file of K and V" in refusal(path)
    safetensors.serialize_file({}, path, metadata={"format": "pt"})
    assert refusal(path) == "kv.safetensors is not a file of K and V that pykvbench wrote; compute it again."


def test_a_later_schema_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'\\"schema\\": 1', b'\\"schema\\": 2'))
    assert refusal(path) == "kv.safetensors has schema 2 and this pykvbench reads 1; compute it again."


def test_every_cut_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert "kv.safetensors is cut short at" in refusal(path)
    path.write_bytes(whole + b"more")  # nothing of it is missing
    assert same(kvfile.read(path, LABEL).layers, rows(LABEL))


def test_a_hole_where_the_disk_never_wrote_is_refused(tmp_path: Path) -> None:
    label = replace(LABEL, length=700)
    path = tmp_path / "kv.safetensors"
    kvfile.write(path, rows(label), label)
    whole = path.read_bytes()
    for first in range(4096, len(whole) - 4096, 4096):
        path.write_bytes(whole[:first] + bytes(4096) + whole[first + 4096 :])
        assert "kv.safetensors is damaged: " in refusal(path, label)


def test_blocks_that_changed_places_are_refused(tmp_path: Path) -> None:
    label = replace(LABEL, geometry=replace(SHAPE, batch=1, num_layers=1), length=2048)
    path = tmp_path / "kv.safetensors"
    kvfile.write(path, rows(label), label)
    whole = path.read_bytes()
    ends = len(whole) - 8192, len(whole) - 4096
    path.write_bytes(whole[: ends[0]] + whole[ends[1] :] + whole[ends[0] : ends[1]])
    assert refusal(path, label) == "kv.safetensors is damaged: v.0 differs from its checksum; compute it again."


def test_no_flipped_bit_changes_what_is_read(path: Path) -> None:
    whole, written = path.read_bytes(), rows(LABEL)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            assert same(kvfile.read(path, LABEL).layers, written)
        except KVFileError as error:
            assert str(error).endswith("; compute it again.")
            assert "\n" not in str(error)


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(tensors: object, name: Path, metadata: object) -> None:
        name.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors, "serialize_file", full)
    with pytest.raises(OSError, match="No space left"):
        kvfile.write(path, rows(LABEL, 1), LABEL)
    assert names(path.parent) == ["kv.safetensors"]
    assert same(kvfile.read(path, LABEL).layers, rows(LABEL))


WRITER = """
import sys
from pathlib import Path
import numpy as np
from pykvbench import kvfile
from pykvbench.geometry import Geometry
label = kvfile.Label("gpt2", "model", Geometry(1, 2, 8, 8, 64, "float16"), 1024, 0)
print("ready", flush=True)
for turn in range(100000):
    half = np.full((1, 8, 1024, 64), turn % 1000, np.float16)
    kvfile.write(Path(sys.argv[1]), [(half, half)] * 2, label)
"""


def kill_writers(folder: Path, times: int) -> int:
    """Kill writers of one file with SIGKILL at random moments; how many files were there to be read afterwards."""
    path, rng, found = folder / "kv.safetensors", np.random.default_rng(5), 0
    label = Label("gpt2", "model", Geometry(1, 2, 8, 8, 64, "float16"), 1024, 0)
    for _ in range(times):
        path.unlink(missing_ok=True)
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(rng.uniform(0, 0.12))
            writer.send_signal(signal.SIGKILL)
        if path.exists():
            values = {float(value) for pair in kvfile.read(path, label).layers for half in pair for value in half.flat}
            assert len(values) == 1
            found += 1
    half = np.zeros((1, 8, 1024, 64), np.float16)
    kvfile.write(path, [(half, half)] * 2, label)
    assert names(folder) == ["kv.safetensors"]  # what the killed left is gone as well
    return found


def test_a_writer_that_is_killed_never_leaves_a_file_that_is_not_whole(tmp_path: Path) -> None:
    kill_writers(tmp_path, 3)


@pytest.mark.slow
def test_many_writers_that_are_killed_never_leave_a_file_that_is_not_whole(tmp_path: Path) -> None:
    assert kill_writers(tmp_path, 40) > 0


def test_the_label_of_attention_alone_names_no_model() -> None:
    cell = Cell("cpu", "manual", "concat", SHAPE, model="gpt2-xl")
    assert Label.of(cell, 7, 3) == Label("", "attention", SHAPE, 7, 3)
    assert Label.of(replace(cell, body="block"), 7, 3).model == "gpt2-xl"


def test_reading_says_whether_it_came_from_memory(path: Path) -> None:
    path.read_bytes()
    stored = kvfile.read(path, LABEL)
    assert stored.how in ("O_DIRECT", "F_NOCACHE", "buffered")
    assert stored.resident is None or 0 <= stored.resident <= 1
    assert stored.cold == (stored.how != "F_NOCACHE" and stored.resident == 0)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system in memory")
def test_a_file_system_in_memory_is_not_called_a_disk() -> None:
    path = Path("/dev/shm") / f"pykvbench-test-{os.getpid()}.safetensors"
    try:
        kvfile.write(path, rows(LABEL), LABEL)
        stored = kvfile.read(path, LABEL)
        assert same(stored.layers, rows(LABEL))
        assert stored.resident == 1
        assert not stored.cold
    finally:
        path.unlink(missing_ok=True)


def test_where_reading_past_the_page_cache_is_refused_the_file_is_read_through_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill, calls = pagecache._fill, []

    def refuse_once(descriptor: int, memory: object, size: int) -> int:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EINVAL, "Invalid argument")
        return fill(descriptor, memory, size)  # type: ignore[arg-type]

    monkeypatch.setattr(pagecache, "_open", lambda path: (os.open(path, os.O_RDONLY), "O_DIRECT"))
    monkeypatch.setattr(pagecache, "_fill", refuse_once)
    assert kvfile.read(path, LABEL).how == "buffered"
    assert len(calls) == 2
