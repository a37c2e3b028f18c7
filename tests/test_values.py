import numpy as np

from pykvbench.geometry import geometry
from pykvbench.values import keys_and_values, query, round_to


def test_a_longer_cache_begins_with_the_shorter_one() -> None:
    shape = geometry("gpt2", num_layers=2)
    short, long = keys_and_values(shape, 1, 5, seed=3), keys_and_values(shape, 1, 9, seed=3)
    for a, b in zip(short, long):
        assert a.shape == (1, 12, 5, 64)
        np.testing.assert_array_equal(a, b[:, :, :5])


def test_layers_seeds_keys_and_values_differ() -> None:
    shape = geometry("gpt2")
    k0, v0 = keys_and_values(shape, 0, 4, seed=0)
    k1, _ = keys_and_values(shape, 1, 4, seed=0)
    other, _ = keys_and_values(shape, 0, 4, seed=1)
    for array in (v0, k1, other):
        assert not np.isclose(k0, array).any()


def test_the_query_is_unit_size() -> None:
    q = query(geometry("gpt2"), seed=0)
    assert q.shape == (1, 12, 1, 64)
    assert 0.9 < q.std() < 1.1


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, 1.005, -3.1415927], dtype=np.float32)
    np.testing.assert_array_equal(
        round_to("bfloat16", values), np.array([1.0, 1.0, 1.015625, 1.0078125, -3.140625], dtype=np.float32)
    )


def test_float16_rounds_and_float32_stays() -> None:
    values = np.array([0.1, 2049.0], dtype=np.float32)
    np.testing.assert_array_equal(round_to("float16", values), np.array([0.0999755859375, 2048.0], dtype=np.float32))
    assert round_to("float32", values) is values
