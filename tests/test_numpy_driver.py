"""The float64 reference against a plain one, and the wrong steps that its tolerances must reject."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest

from pykvbench.drivers import numpy_driver
from pykvbench.drivers.numpy_driver import TOLERANCE, numerics_error, reference
from pykvbench.geometry import DTYPES, Geometry, geometry
from pykvbench.values import keys_and_values, query, round_to

Step = npt.NDArray[np.float64]
LONG = 500
WRONG = (
    "one key too many",
    "one key too few",
    "row not written",
    "wrong order",
    "two keys swapped",
    "no scale",
    "swapped heads",
)


@lru_cache(maxsize=2)
def caches(shape: Geometry, length: int) -> tuple[tuple[Step, Step], ...]:
    layers = (keys_and_values(shape, layer, length, 3) for layer in range(shape.num_layers))
    return tuple((k.astype(np.float64), v.astype(np.float64)) for k, v in layers)


def plain_step(shape: Geometry, length: int, wrong: str = "") -> Step:
    """One step as a textbook would write it, or with one thing wrong: [num_layers, B, H, D]."""
    first = query(shape, 3).astype(np.float64)[:, :, 0]  # [B, H, D]
    x, outputs = first, []
    seen = length + {"one key too many": 1, "one key too few": -1}.get(wrong, 0)
    for k, v in caches(shape, length + 1):
        k, v = (np.repeat(a[:, :, :seen], shape.queries_per_kv_head, axis=1) for a in (k, v))
        if wrong == "row not written":
            k[:, :, -1] = v[:, :, -1] = 0
        elif wrong == "wrong order":
            k = k[:, :, ::-1]
        elif wrong == "two keys swapped":
            k[:, :, [-2, -1]] = k[:, :, [-1, -2]]
        elif wrong == "swapped heads":
            k = k[:, ::-1]
        scores = np.einsum("bhd,bhld->bhl", x, k) / (1 if wrong == "no scale" else np.sqrt(shape.head_dim))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        outputs.append(np.einsum("bhl,bhld->bhd", weights, v))
        x = first + outputs[-1]
    return np.stack(outputs)


@pytest.mark.parametrize("shape", [(1, 3, 4, 4, 16), (2, 2, 6, 2, 8), (1, 1, 1, 1, 64)])
def test_the_reference_is_what_a_textbook_computes(shape: tuple[int, int, int, int, int]) -> None:
    small = Geometry(*shape, "float32")
    lengths = [7, 1, 40, 2, 7]
    expected = reference(small, lengths, 3)
    assert expected.shape == (5, *shape[1:2], shape[0], shape[2], shape[4])
    for row, length in enumerate(lengths):
        assert numerics_error(plain_step(small, length), expected[row]) < 1e-6


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Geometry(1, 2, 4, 2, 16, "float16")
    whole = reference(small, range(1, 60), 3)
    monkeypatch.setattr(numpy_driver, "_SCORES_BYTES", 8 * 2 * 60 * 5)
    np.testing.assert_allclose(reference(small, range(1, 60), 3), whole, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_steps_are_rejected_at_500_keys(dtype: str, wrong: str) -> None:
    """In GPT-2's shape; in a shape with few layers and heads bfloat16 does not see a single key at this length."""
    shape = geometry("gpt2", dtype)
    expected = np.asarray(plain_step(shape, LONG))
    rounded = round_to(dtype, plain_step(shape, LONG, wrong).astype(np.float32)).astype(np.float64)
    assert numerics_error(rounded, expected) > TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_steps_are_rejected_in_a_small_shape_too(dtype: str, wrong: str) -> None:
    shape = Geometry(1, 2, 4, 4, 64, dtype)
    assert numerics_error(plain_step(shape, LONG, wrong), plain_step(shape, LONG)) > TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_right_step_rounded_to_its_dtype_is_accepted(dtype: str) -> None:
    shape = geometry("gpt2", dtype, num_layers=2)
    step = plain_step(shape, LONG)
    rounded = round_to(dtype, step.astype(np.float32)).astype(np.float64)
    assert numerics_error(rounded, reference(shape, [LONG], 3)[0]) < TOLERANCE[dtype] / 4


def test_what_is_not_finite_or_not_the_right_shape_is_infinitely_wrong() -> None:
    expected = reference(Geometry(1, 2, 4, 4, 8, "float32"), [5], 0)[0]
    good = expected.astype(np.float64)
    assert numerics_error(good, expected) == 0
    assert numerics_error(good[:1], expected) == float("inf")
    for bad in (np.nan, np.inf):
        spoilt = good.copy()
        spoilt[1, 0, 2, 3] = bad
        assert numerics_error(spoilt, expected) == float("inf")
    assert numerics_error(np.zeros_like(good), expected) > 1
