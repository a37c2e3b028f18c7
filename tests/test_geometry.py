import pytest

from pykvbench.cell import Cell
from pykvbench.errors import RunFileError, UsageError
from pykvbench.geometry import MODELS, Geometry, geometry


def test_a_preset_is_the_models_published_shape() -> None:
    assert geometry("gpt2") == Geometry(1, 12, 12, 12, 64, "float32")
    assert geometry("llama-3-8b", "bfloat16") == Geometry(1, 32, 32, 8, 128, "bfloat16")


def test_given_parts_replace_the_presets() -> None:
    assert geometry("gpt2", num_layers=2, batch=3, head_dim=128) == Geometry(3, 2, 12, 12, 128, "float32")


def test_heads_alone_keep_the_presets_grouping() -> None:
    assert geometry("llama-3-8b", num_heads=16).num_kv_heads == 4
    assert geometry("gpt2", num_heads=8).num_kv_heads == 8


def test_kv_bytes_counts_k_and_v_of_all_layers_once() -> None:
    assert geometry("gpt2").kv_bytes(512) == 2 * 12 * 12 * 512 * 64 * 4
    assert geometry("llama-3-8b", "float16").kv_bytes(1) == 2 * 32 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"num_heads": 12, "num_kv_heads": 5},
            "12 heads cannot share 5 KV heads; make --num-heads a multiple of --num-kv-heads.",
        ),
        ({"num_layers": 0}, "--num-layers 0 is not possible; give a whole number of at least 1."),
        ({"head_dim": -1}, "--head-dim -1 is not possible; give a whole number of at least 1."),
        ({"dtype": "int8"}, "--dtype int8 is unknown; choose one of float32, float16, bfloat16."),
    ],
)
def test_an_impossible_shape_says_what_to_change(overrides: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError) as error:
        geometry("gpt2", **overrides)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_an_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"^--model gpt5 is unknown; choose one of distilgpt2, gpt2, .*--num-heads"):
        geometry("gpt5")


def test_every_preset_is_a_possible_geometry() -> None:
    for name in MODELS:
        assert geometry(name).num_heads >= 1


def test_a_cell_survives_the_run_file() -> None:
    cell = Cell("cpu", "manual", "prealloc", geometry("gpt2"))
    assert Cell.from_json({**cell.to_json(), "later": 1}) == cell
    assert cell.label == "cpu manual prealloc float32"


def test_a_cell_of_unknown_parts_is_refused() -> None:
    with pytest.raises(
        UsageError, match="^--cache ring is unknown; choose one of prealloc, concat, chunked, padded, none.$"
    ):
        Cell("cpu", "manual", "ring", geometry("gpt2"))
    with pytest.raises(RunFileError, match="it was edited or damaged"):
        Cell.from_json({"backend": "cpu"})
