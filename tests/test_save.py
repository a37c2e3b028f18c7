"""A picture's file: whole, or the one that was there before."""

from pathlib import Path

import pytest

from pykvbench.errors import UsageError
from pykvbench.report.save import save


def test_a_picture_replaces_the_one_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "run.png"
    save(b"old", path)
    save(b"new", path)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.png"
    save(b"old", path)

    def full(self: Path, data: bytes) -> int:
        with open(self, "wb") as file:
            file.write(data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError) as caught:
        save(b"new", path)
    assert str(caught.value) == f"{path} cannot be written (No space left on device); name another file with -o."
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
