"""The torch driver, on the CPU: every case against the float64 reference, and what its caches do to memory."""

from __future__ import annotations

from typing import Any

import pytest
from driving import LENGTHS, cases, in_fresh_process

from pykvbench.drivers.numpy_driver import TOLERANCE


@pytest.fixture(scope="module")
def found() -> Any:
    return in_fresh_process("everything", "cpu")


@pytest.mark.parametrize("case", [" ".join(case) for case in cases()])
def test_every_case_meets_the_reference_at_every_length(found: Any, case: str) -> None:
    dtype = next(name for name in TOLERANCE if name in case.split())
    assert set(found["visits"][case]) == {str(length) for length in LENGTHS}
    assert max(found["visits"][case].values()) < TOLERANCE[dtype]


def test_a_growing_cache_meets_the_reference_at_every_step(found: Any) -> None:
    for case, errors in found["trajectories"].items():
        assert len(errors) == 310
        assert max(errors) < TOLERANCE["float32"], case


def test_a_row_not_written_or_a_padding_row_attended_is_seen(found: Any) -> None:
    errors = found["faults"]
    assert len(errors) == 15
    for case, error in errors.items():
        if case != "bfloat16 concat unwritten":  # a row of zeros among 300 keys is below bfloat16's rounding here
            assert error > TOLERANCE[case.split()[0]], case


@pytest.mark.parametrize(
    ("case", "rows_before", "rows_after"),
    [
        ("prealloc 300", 1024, 1024),
        ("padded 300", 1024, 1024),
        ("concat 300", 299, 300),
        ("concat 257", 256, 257),
        ("chunked 300", 512, 512),
        ("chunked 257", 256, 512),
    ],
)
def test_caches_hold_what_their_policy_says(found: Any, case: str, rows_before: int, rows_after: int) -> None:
    per_row = 2 * found["memory"]["layers"] * found["memory"]["row"]
    assert found["memory"][case]["before"]["caches"] == rows_before * per_row
    assert found["memory"][case]["after"]["caches"] == rows_after * per_row
    assert found["memory"][case]["moved"] == (0 if rows_after == rows_before else 8)


def test_description_tells_version_build_threads_and_precision(found: Any) -> None:
    said = found["description"]
    assert (said["framework"], said["device"], said["threads"]) == ("torch", "cpu", 1)
    assert len(said["git"]) == 40
    assert said["wheel"]["torch"]
    assert (said["inference_mode"], said["float32_matmul_precision"], said["tf32"]) == (True, "highest", False)


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("mps", "BackendUnavailable", "finds no MPS device here; use --backend cpu."),
        ("cuda", "BackendUnavailable", "finds no CUDA device here; use --backend cpu."),
        ("fallback", "BackendUnavailable", "so a step could run on the CPU unnoticed; unset it and run again."),
        ("capacity", "DriverError", "Token 8 is outside this driver's 8; open it with a larger capacity."),
    ],
)
def test_what_cannot_be_done_is_refused(found: Any, what: str, kind: str, words: str) -> None:
    if what in ("mps", "cuda") and what not in found["refusals"]:
        pytest.skip(f"this machine has {what}")
    assert found["refusals"][what].startswith(f"{kind}: ")
    assert found["refusals"][what].endswith(words)


def test_every_torch_name_exists_in_the_installed_torch(found: Any) -> None:
    assert found["attributes"] == []
