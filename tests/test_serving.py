"""Many sequences on the real drivers: predicted memory is measured, and no policy changes what a sequence gives."""

from typing import Any

import pytest
import served

from pykvbench.cell import CACHES
from pykvbench.experiment.scheduler import POLICIES, SWAPPING, UNLIMITED

BACKENDS = ("cpu", "mlx-cpu")
BUFFERS = 2 * served.SHAPE.num_layers
PAGE = 4096


def line(backend: str, cache: str, policy: str) -> dict[str, Any]:
    if backend == "mlx-cpu":
        pytest.importorskip("mlx.core")
    (found,) = [line for line in served.in_fresh_process(backend) if (line["cache"], line["policy"]) == (cache, policy)]
    return found


@pytest.mark.parametrize("policy", [UNLIMITED, *POLICIES])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("backend", BACKENDS)
class TestEveryCacheAndPolicy:
    def test_the_caches_take_what_was_predicted_within_a_page_a_buffer(
        self, backend: str, cache: str, policy: str
    ) -> None:
        found = line(backend, cache, policy)
        assert abs(found["peak"]["caches"] - found["held"]) <= PAGE * BUFFERS * found["resident"]
        if backend == "cpu":
            assert found["peak"]["caches"] == found["held"]

    def test_nothing_else_stays_live(self, backend: str, cache: str, policy: str) -> None:
        found = line(backend, cache, policy)
        if "live" in found["peak"]:
            live = found["peak"]["live"] - found["before"]["live"]
            assert 0 <= live - found["peak"]["caches"] < 2 * PAGE  # the next token's rows, the query and the mask

    def test_the_budget_holds(self, backend: str, cache: str, policy: str) -> None:
        found = line(backend, cache, policy)
        if policy == UNLIMITED:
            assert found["held"] > found["budget"] or cache == "concat"  # whose budget allows for growing besides
        else:
            assert found["held"] <= found["budget"]
            assert found["peak"]["caches"] <= found["budget"] + PAGE * BUFFERS * found["resident"]

    def test_every_sequence_ends_with_the_tokens_and_outputs_of_the_unconstrained_run(
        self, backend: str, cache: str, policy: str
    ) -> None:
        found, free = line(backend, cache, policy), line(backend, cache, UNLIMITED)
        assert found["rejected"] == ([2] if policy == "reject" else [])
        for number, done in enumerate(found["done"]):
            if number in found["rejected"]:
                assert done == []
            else:
                assert len(done) == served.TOKENS
                assert found["outputs"][number] == free["outputs"][number] == found["alone"][number]
        assert len(set(free["outputs"])) == served.SEQUENCES  # no two sequences hold the same
        assert found["correct"] is True

    def test_moves_are_made_where_the_policy_makes_them(self, backend: str, cache: str, policy: str) -> None:
        found = line(backend, cache, policy)
        assert bool(found["out"]) == bool(found["into"]) == (policy in SWAPPING)
        assert found["left"] == []
        assert found["took"] >= sum(found["out"]) + sum(found["into"])
        assert max(done[-1] for done in found["done"] if done) <= found["took"] <= found["wall"]
