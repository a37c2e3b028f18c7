"""The machine's facts: absent sources, privacy, variables, advice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pykvbench.machine import disturbances, machine, macos, nvidia, sources, timing_variables, variables

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def test_absent_and_slow_tools_give_nothing() -> None:
    assert sources.output("no-such-tool-of-ours") is None
    assert sources.output(sys.executable, "-c", "import time; time.sleep(60)", timeout_s=0.2) is None
    assert sources.output(sys.executable, "-c", "") is None
    assert sources.output(sys.executable, "-c", "print(1); raise SystemExit(3)") == "1\n"
    assert sources.content(Path("/no/such/file")) is None


TOOLS = {
    ("sw_vers",): "sw_vers.txt",
    ("sysctl",): "sysctl_m3_pro.txt",
    ("ioreg",): "ioreg_agx.txt",
    ("pmset", "-g"): "pmset_low_power.txt",
    ("pmset", "-g", "batt"): "pmset_batt_battery.txt",
    ("pmset", "-g", "therm"): "pmset_therm_limited.txt",
    ("notifyutil",): "notifyutil_heavy.txt",
}


def fake_output(*command: str, timeout_s: float = 0.0) -> str | None:
    name = TOOLS.get(command) or TOOLS.get(command[:1])
    if command[0] == "nvidia-smi":
        name = "nvidia_smi_processes.csv" if "apps" in command[1] else "nvidia_smi_gpus.csv"
    return sample(name) if name else None


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac with an owner, a name, serial numbers and telling variables."""
    for module in (macos, nvidia):
        monkeypatch.setattr(module, "output", fake_output)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("platform.node", lambda: "alices-macbook.example.org")
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    monkeypatch.setenv("MLX_PTX_CACHE_DIR", "/Users/alice/cache")
    monkeypatch.setenv("PYTORCH_KERNEL_CACHE_PATH", "C:\\Users\\alice")
    monkeypatch.setenv("OMP_TOOL_LIBRARIES", "alices-macbook")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f3c1d2a-0b1c-4d5e-9f00-SERIAL0PLANTED")
    monkeypatch.setenv("MLX_SDPA_BLOCKS", "64")
    monkeypatch.setenv("SECRET_TOKEN", "SERIAL0PLANTED")


@pytest.mark.usefixtures("planted")
def test_nothing_that_names_the_machine_or_its_owner_enters_the_run_file() -> None:
    text = json.dumps(machine()).lower()
    for word in (
        "alice",
        "macbook",
        "serial",
        "/users",
        "users",
        "21561443",
        "example.org",
        "sleepimage",
        "8f3c1d2a",
        "8123",
    ):
        assert word not in text, word


@pytest.mark.usefixtures("planted")
def test_a_mac_in_full() -> None:
    facts = machine()
    expected = {
        "os": "macOS",
        "os_version": "15.3.1",
        "os_build": "24D70",
        "architecture": "arm64",
        "cpu": "Apple M3 Pro",
        "gpu_cores": 18,
        "power_source": "battery",
        "low_power_mode": True,
        "thermal_pressure": "heavy",
        "cpu_speed_limit": 62,
        "gpu_processes": 2,
    }
    assert {name: facts[name] for name in expected} == expected
    assert facts["variables"]["MLX_SDPA_BLOCKS"] == "64"
    hidden = {"MLX_PTX_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH", "OMP_TOOL_LIBRARIES", "CUDA_VISIBLE_DEVICES"}
    assert {name for name, value in facts["variables"].items() if value == "(set)"} >= hidden
    assert "SECRET_TOKEN" not in facts["variables"]


def test_this_machine_in_plain_values_and_without_frameworks() -> None:
    code = (
        "import json, sys; from pykvbench.machine import machine; facts = machine(); "
        "assert not {'torch', 'mlx', 'numpy'} & set(sys.modules); print(json.dumps(facts))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["os"] in ("Linux", "macOS")
    assert facts["threads"] >= 1
    assert facts["packages"]["numpy"]["version"]
    assert "py" in facts["packages"]["numpy"]["wheel"] or "cp" in facts["packages"]["numpy"]["wheel"]
    assert facts["python"].split()[1].startswith("3.")
    assert None not in facts.values()


@pytest.mark.skipif(sys.platform != "linux", reason="the tools of macOS are started")
def test_linux_facts_start_no_process_when_no_tool_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)

    def started(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", started)
    began = time.process_time()
    assert machine()["os"] == "Linux"
    assert time.process_time() - began < 1.0


def test_recorded_variables_are_those_of_the_frameworks() -> None:
    environ = {"MLX_A": "1", "HOME": "/x", "mlx_b": "1", "OMP_PLACES": "{0:4}", "MLX_LONG": "y" * 500, "MTL_X": "bob-7"}
    assert variables.recorded(environ, ["bob", "ab"]) == {
        "MLX_A": "1",
        "MLX_LONG": "y" * 100,
        "MTL_X": "(set)",
        "OMP_PLACES": "{0:4}",
    }


def test_variables_that_change_timing_are_explained() -> None:
    assert timing_variables({"MTL_CAPTURE_ENABLED": "1", "MLX_SDPA_BLOCKS": "64"}) == (
        "MTL_CAPTURE_ENABLED is set and makes PyTorch commit every MPSGraph operation separately; "
        "unset it unless that is what you measure.",
        "MLX_SDPA_BLOCKS is set and fixes the block count of MLX's 2-pass attention; "
        "unset it unless that is what you measure.",
    )
    assert timing_variables({}) == ()
    assert timing_variables({"MTL_CAPTURE_ENABLED": "0", "CUDA_LAUNCH_BLOCKING": "", "PATH": "1"}) == ()


@pytest.mark.parametrize("name", ["PYTORCH_MPS_PREFER_METAL", "MLX_USE_CUDA_GRAPHS", "MLX_ENABLE_TF32"])
def test_some_variables_count_even_when_0(name: str) -> None:
    assert len(timing_variables({name: "0"})) == 1


@pytest.mark.parametrize("name", sorted(variables.EFFECTS))
def test_every_explained_variable_is_also_recorded(name: str) -> None:
    assert variables.recorded({name: "1"}, []) == {name: "1"}
    assert timing_variables({name: "1"})[0].startswith(f"{name} is set and ")


@pytest.mark.parametrize(
    ("facts", "advice"),
    [
        ({"power_source": "battery"}, "The machine runs on battery, which lowers clocks; connect it to mains power."),
        ({"low_power_mode": True}, "Low power mode is on, which lowers clocks; switch it off."),
        ({"governor": "powersave"}, "The CPU frequency governor is powersave; set it to performance."),
        ({"load": 4.1, "threads": 4}, "The load average is 4.1 on 4 CPU threads; close other programs."),
        ({"thermal_pressure": "heavy"}, "Thermal pressure is heavy; let the machine cool down."),
        ({"cpu_speed_limit": 62}, "The CPU is held to 62 % of its speed by heat; let the machine cool down."),
        (
            {"gpus": [{"name": "NVIDIA H200", "throttle_reasons": ["power cap"]}]},
            "NVIDIA H200 is held back now: power cap; let it cool down or raise its limit.",
        ),
        ({"gpu_processes": 2}, "2 other programs on the GPU; end what is not needed."),
        ({"gpu_processes": 1}, "1 other program on the GPU; end what is not needed."),
    ],
)
def test_what_disturbs_is_said_with_its_remedy(facts: dict[str, Any], advice: str) -> None:
    assert disturbances(facts) == (advice,)


def test_a_quiet_machine_gets_no_advice() -> None:
    quiet = {
        "power_source": "AC",
        "low_power_mode": False,
        "governor": "performance",
        "load": 0.4,
        "threads": 4,
        "thermal_pressure": "nominal",
        "cpu_speed_limit": 100,
        "gpus": [{"name": "NVIDIA H200", "throttle_reasons": []}],
        "gpu_processes": 0,
    }
    assert disturbances(quiet) == ()
    assert disturbances({}) == ()
