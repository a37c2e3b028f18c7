"""Series from public reports, each with what one pass can say about it."""

from pathlib import Path

import pytest

from pykvbench.analysis.series import analyze_series
from pykvbench.analysis.table import read_table

CASES = Path(__file__).parent / "cases"

EXPECTED = {
    "chorus_m3ultra_mps_cliff": [("step", (768, 1024))],
    "club3090_178_thermal_drift_cuda": [("drift", (0, 10))],
    "devicebench13_m4max_mps_matmul": [],
    "ds4_m2ultra_metal_decode": [],
    "ds4_m3max_throttle_regime": [("regime", (20480, 43008))],
    "flagattn17_rtx3090_h32_d64_flash2": [],
    "flagattn17_rtx3090_h32_d64_torch_sdpa": [],
    "flagattn17_rtx3090_h32_d64_triton_split_kv": [],
    "mlcllm612_cuda_per_token_smooth": [],
    "mlx3826_query_rows_cliff_16k": [("step", (8, 12)), ("step", (48, 64))],
    "mlxlm1010_air_m4_trials_drift": [("drift", (1, 5))],
    "omlx2689_m3max_repeats_bimodal": [("unstable", (16384, 32768))],
    "ort32017_webgpu_bucket_staircase": [],
    "paper_mps_gpt2medium_cache_off": [("spike", (512, 512))],
    "paper_mps_gpt2medium_cache_on": [("spike", (512, 512))],
    "paper_mps_gpt2medium_probe": [("regime", (512, 624))],
    "paper_prompt_ablation_long": [("regime", (512, 624))],
    "pt106469_cuda_bf16_mm_odd_comb": [("comb", (3, 15))],
    "pt120309_first_calls_cudagraph": [("first-visit", (1, 2))],
    "pt181575_metal_prefill_32q8kv": [],
    "pt181575_mpsgraph_prefill_32q8kv": [("step", (4096, 8192))],
}


def test_every_case_is_expected():
    assert {path.stem for path in CASES.glob("*.csv")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_case(name):
    result = analyze_series(read_table(CASES / f"{name}.csv"))
    assert [(f.kind, f.lengths) for f in result.findings] == EXPECTED[name]
    assert result.verdict == ("unresolved" if EXPECTED[name] else "smooth")
    assert all(finding.confidence == "apparent" for finding in result.findings)


def test_a_throttled_machine_is_not_called_a_length():
    (finding,) = analyze_series(read_table(CASES / "ds4_m3max_throttle_regime.csv")).findings
    assert "cannot be separated from thermal state or the time of measurement" in finding.note


@pytest.mark.parametrize(
    "name, verdict, pair",
    [
        ("paper_mps_gpt2medium_probe", "state", "T(640) = 8.80 s < T(512) = 89.2 s"),
        ("paper_mps_gpt2medium_cache_on", "state", "T(640) = 8.80 s < T(512) = 83.2 s"),
        ("paper_prompt_ablation_long", "state", "T(640) = 8.60 s < T(512) = 83.9 s"),
        ("paper_mps_gpt2medium_cache_off", "unresolved", "T(640) = 139 s < T(512) = 162 s"),
    ],
)
def test_whole_generations_are_judged_as_budgets(name, verdict, pair):
    text = (CASES / f"{name}.csv").read_text().replace("length,", "budget,", 1)
    result = analyze_series(read_table(text))
    assert result.verdict == verdict
    (state,) = [finding for finding in result.findings if finding.kind == "state"]
    assert state.note.startswith(pair)
    assert "not a per-length cost" in state.note
