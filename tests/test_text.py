from typing import Any

import numpy as np
import pytest
from reported import cell_result, curve, finding, spike

from pykvbench.analysis.finding import CellResult, Result
from pykvbench.geometry import geometry
from pykvbench.report import picture, sentence, text

RANGE = range(380, 531)


def flat(slow: dict[int, float]) -> dict[int, float]:
    return {length: slow.get(length, 96.0) for length in RANGE}


def spiked(**changes: Any) -> CellResult:
    return cell_result(curve(flat({421: 2045.0})), spike(421), verdict="non-monotonic", **changes)


def tabled() -> CellResult:
    return cell_result(
        curve({64: 96.0, 128: 100.0, 256: 200.0}, sweeps=1, first_us=None),
        label="mlx manual prealloc float32",
        verdict="unresolved",
        limit_of_detection=None,
        smallest_p=None,
        notes=("mlx manual prealloc float32: cannot tell, needs 3 or more sweeps.",),
    )


SPIKED = """\
batch 1, 12 layers, 12 heads of 64

cpu manual prealloc float32: 151 lengths from 380 to 530, 5 sweeps
2045 us ┤                   ░
        │                   ░
        │                   ▄
        │                   █
96.0 us ┤▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
                            ^
         380               421                                               530
         A column is 2 or 3 lengths, ░ the dearest.
First call at a length: 1.30 ms at the median, 13.5x a steady one.
spike at 421: 21.3x, 5/5 sweeps, p = 3e-7, confirmed. It costs what no longer
  length costs.
The smallest excess this run could have confirmed: 1.10x (smallest attainable p
  5e-7).

Verdict: non-monotonic: 421 (21.3x) costs more than longer lengths do.
"""

TWO_CELLS = """\
mlx manual prealloc float32: 3 lengths from 64 to 256, 1 sweep
 200 us ┤        ████
        │        ████
        │        ████
        │        ████
96.0 us ┤▁▁▁▁▃▃▃▃████
         64       256
Note: cannot tell, needs 3 or more sweeps.
This run could not have confirmed an excess of any size.

Note: The machine slept.

Verdict: non-monotonic: in 1 of 2 cells (cpu manual prealloc float32).
  cpu manual prealloc float32: non-monotonic: 421 (21.3x) costs more than longer lengths do.
  mlx manual prealloc float32: unresolved: this run cannot tell whether a length from 64 to 256
    costs more than a longer one.
"""


def test_a_spike_is_pictured_named_and_judged() -> None:
    shown = text.render(Result((spiked(),)), header=["batch 1, 12 layers, 12 heads of 64"], width=80)
    assert shown == SPIKED


def test_several_cells_end_in_a_verdict_for_the_run_and_one_for_each() -> None:
    shown = text.render(Result((spiked(), tabled()), notes=("The machine slept.",)), width=95)
    assert shown.partition("\n\n")[2] == TWO_CELLS


@pytest.mark.parametrize("width", [20, 40, 63, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    shown = text.render(Result((spiked(), tabled())), width=width)
    assert max(map(len, shown.splitlines())) <= max(40, width)


def test_colour_adds_escape_sequences_and_nothing_else() -> None:
    result = Result((spiked(), tabled()))
    coloured = text.render(result, colour=True)
    assert "\033[31mspike at 421\033[0m: 21.3x" in coloured
    assert "\033[1m\033[31mVerdict: non-monotonic\033[0m: in 1 of 2 cells" in coloured
    for code in ("0", "1", "2", "31", "32", "33"):
        coloured = coloured.replace(f"\033[{code}m", "")
    assert coloured == text.render(result)


def test_too_many_findings_are_cut_to_the_most_telling_and_counted() -> None:
    found = [spike(length, 1.2, confidence="apparent") for length in range(380, 410)]
    found += [spike(500, 1.1), finding("wrong-result", 501, 501, None, votes="1/5", p=None)]
    shown = text.render(Result((cell_result(curve(flat({})), *found),)))
    assert shown.count("\nspike at ") == 19
    assert "\nspike at 500: 1.10x" in shown
    assert "\nwrong-result at 501: 1/5 sweeps, confirmed." in shown
    assert "And 12 findings more; --json lists all." in shown


def test_a_wrong_result_is_never_cut() -> None:
    found = [*(spike(length) for length in range(380, 410)), finding("wrong-result", 501, 501, None, p=None)]
    shown = text.render(Result((cell_result(curve(flat({})), *found),)))
    assert "\nwrong-result at 501: 5/5 sweeps, confirmed." in shown


def test_a_result_without_any_visit_says_so() -> None:
    nothing = cell_result(curve({}, sweeps=0), verdict="unresolved", limit_of_detection=None, smallest_p=None)
    shown = text.render(Result((nothing,)))
    assert shown.startswith("cpu manual prealloc float32: no lengths measured\n")
    assert shown.endswith("Verdict: unresolved: nothing was measured.\n")
    assert text.render(Result(())) == "Verdict: unresolved: nothing was measured.\n"


def test_missing_visits_are_counted_and_left_blank() -> None:
    partly = curve(dict.fromkeys(range(1, 13), 100.0), sweeps=1)
    partly.sweeps_ns[0, 4] = partly.median_ns[4] = np.nan
    assert text.render(Result((cell_result(partly),))).startswith(
        "cpu manual prealloc float32: 12 lengths from 1 to 12, 1 sweep, 1 visit missing\n"
    )
    assert picture.draw(partly, (), 40)[2] == "100 us ┤▁▁▁▁▁▁▁▁  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁"


def test_noise_of_a_percent_looks_like_one() -> None:
    rows = picture.draw(curve({length: 96.0 + length % 2 for length in range(1, 61)}), (), 80)
    assert rows == [
        " 144 us ┤",
        "        │",
        "96.0 us ┤" + "▂▁" * 30,
        "         1" + " " * 57 + "60",
    ]


@pytest.mark.parametrize("count", [100, 5000])
@pytest.mark.parametrize("slow", [1, 77, 100])
def test_a_single_slow_length_is_seen_among_thousands(count: int, slow: int) -> None:
    shown = picture.draw(curve({i: 400.0 if i == slow else 100.0 for i in range(1, count + 1)}), (spike(slow),), 80)
    assert shown[0].count("░") + shown[0].count("█") == 1
    assert shown[5].index("^") == max(shown[0].find("░"), shown[0].find("█"))


def test_a_regime_is_marked_over_its_whole_width() -> None:
    regime = finding("regime", 430, 469, 1.4)
    shown = picture.draw(curve({length: 140.0 if 430 <= length <= 469 else 96.0 for length in RANGE}), (regime,), 80)
    assert shown == [
        " 144 us ┤                       ░▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆░",
        "        │                       ░██████████████████▄",
        "96.0 us ┤" + "▁" * 24 + "█" * 19 + "▁" * 28,
        "                                ^^^^^^^^^^^^^^^^^^^^",
        "         380                         430 to 469                              530",
        "         A column is 2 or 3 lengths, ░ the dearest.",
    ]


def test_labels_of_lengths_give_way_to_those_of_larger_findings() -> None:
    found = (spike(30, 2.0), spike(32, 3.0), spike(59))
    shown = picture.draw(curve(dict.fromkeys(range(1, 61), 100.0)), found, 80)
    assert shown[-2].replace(" ", "") == "^^^"
    assert shown[-1].split() == ["1", "32", "60"]


def verdict(word: str, *found: Any, **changes: Any) -> str:
    return sentence.verdict(cell_result(curve(flat({})), *found, verdict=word, **changes))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (verdict("smooth"), "smooth: no length from 380 to 530 costs more than a longer one beyond 1.10x."),
        (
            verdict("smooth", limit_of_detection=None),
            "smooth: no length from 380 to 530 costs more than a longer one.",
        ),
        (
            verdict("non-monotonic", spike(421), finding("regime", 430, 469, 1.4)),
            "non-monotonic: 421 (21.3x) and 430 to 469 (1.40x) cost more than longer lengths do.",
        ),
        (
            verdict("non-monotonic", *(spike(400 + i, 1.2 + i) for i in range(6))),
            "non-monotonic: 403 (4.20x), 404 (5.20x), 405 (6.20x) and 3 more cost more than longer lengths do.",
        ),
        (
            verdict("non-monotonic", finding("comb", 384, 512, 1.4)),
            "non-monotonic: some of 384 to 512 (1.40x) cost more than longer lengths do.",
        ),
        (
            verdict("non-monotonic", finding("step", 469, 470, 0.8)),
            "non-monotonic: the cost falls at 470 (0.80x) and stays down, so shorter lengths cost more than longer "
            "ones.",
        ),
        (
            verdict("unresolved", finding("step", 469, 470, 1.5)),
            "unresolved: the cost steps at 470 (1.50x), and a longer range must tell a step from the start of a slow "
            "stretch.",
        ),
        (
            verdict("unresolved", spike(421, confidence="apparent")),
            "unresolved: 421 (21.3x) stands out, and this run cannot confirm that it is the length.",
        ),
        (
            verdict("unresolved", finding("intermittent", 421, 421, 5.0)),
            "unresolved: 421 (5.00x) costs more in some processes only.",
        ),
        (
            verdict("unresolved", finding("wrong-result", 421, 422, None)),
            "unresolved: this run cannot tell whether a length from 380 to 530 costs more than a longer one. "
            "The result was wrong at 421 to 422.",
        ),
        (
            verdict("state"),
            "state: the cost depends on when it was measured or on what ran before, and not on the length alone.",
        ),
    ],
)
def test_a_verdict_is_one_plain_sentence(said: str, expected: str) -> None:
    assert said == expected


def test_a_finding_gives_its_evidence_then_its_note_then_its_cause() -> None:
    assert sentence.finding(spike(421, note="length 421 costs 2.05 ms.", cause="the kernel")) == (
        "spike at 421: 21.3x, 5/5 sweeps, p = 3e-7, confirmed. Length 421 costs 2.05 ms. Cause: the kernel."
    )
    drift = finding("drift", 380, 530, None, votes=None, p=0.0, confidence="apparent", note="")
    assert sentence.finding(drift) == "drift from 380 to 530: p < 1e-99, apparent."


def test_the_limit_says_what_silence_means() -> None:
    assert sentence.limit(spiked(limit_of_detection=None, smallest_p=0.2)) == (
        "This run could not have confirmed an excess of any size (smallest attainable p 0.2)."
    )


def test_geometry_names_shared_heads() -> None:
    assert sentence.geometry(geometry("gpt2")) == "batch 1, 12 layers, 12 heads of 64"
    assert sentence.geometry(geometry("llama-3-8b")) == "batch 1, 32 layers, 32 heads sharing 8 KV heads of 128"


def test_events_take_one_line_a_kind_with_lengths_grouped() -> None:
    events: list[dict[str, Any]] = [
        {"event": "worker-started", "at": 0},
        {"event": "crashed", "cell": 0, "sweep": 1, "length": 431, "detail": "ended by SIGABRT"},
        {"event": "crashed", "cell": 0, "sweep": 2, "length": 421, "detail": "ended by SIGABRT"},
        {"event": "crashed", "cell": 0, "sweep": 3, "length": 430, "detail": "ended by SIGSEGV"},
        {"event": "hung", "length": 500, "detail": "no answer within 60 s"},
        {"event": "resumed", "detail": "12 visits to go"},
        {"event": "slept", "detail": None},
        {"event": "slept"},
    ]
    assert text.render_events(events) == (
        "The worker crashed at 421, 430 to 431 (3 visits lost): ended by SIGABRT; ended\n"
        "  by SIGSEGV.\n"
        "The worker hung and was ended at 500 (1 visit lost): no answer within 60 s.\n"
        "The run was resumed: 12 visits to go.\n"
        "The machine slept (2 times).\n"
    )
    assert text.render_events([{"event": "worker-ended"}]) == ""
