"""Parsers of tools and system files, on sample texts; what they do not find they leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykvbench.machine import linux, macos, nvidia

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def test_macos_versions_and_chip() -> None:
    assert macos.parse_sw_vers(sample("sw_vers.txt")) == {"os_version": "15.3.1", "os_build": "24D70"}
    assert macos.parse_sysctl(sample("sysctl_m3_pro.txt")) == {
        "cpu": "Apple M3 Pro",
        "model": "Mac15,6",
        "cores": 12,
        "performance_cores": 6,
        "memory_bytes": 36 * 2**30,
        "virtualised": False,
    }
    virtual = macos.parse_sysctl(sample("sysctl_virtual.txt"))
    assert virtual["virtualised"] is True
    assert "performance_cores" not in virtual


def test_swap_in_use() -> None:
    line = "vm.swapusage: total = 2048.00M  used = 512.25M  free = 1535.75M  (encrypted)"
    assert macos.parse_sysctl(line) == {"swap_used_bytes": 537133056}
    assert macos.parse_sysctl("vm.swapusage: used = 1.50G") == {"swap_used_bytes": 3 << 29}
    assert macos.parse_sysctl("vm.swapusage: none") == {}
    assert linux.parse_meminfo("SwapTotal:  4096 kB\nSwapFree:  1024 kB\n") == {"swap_used_bytes": 3 << 20}
    assert linux.parse_meminfo("SwapFree:  1024 kB\n") == {}


def test_macos_gpu_cores_come_from_either_tool() -> None:
    assert macos.parse_ioreg(sample("ioreg_agx.txt")) == {"gpu_cores": 18}
    assert macos.parse_system_profiler(sample("system_profiler.txt")) == {"gpu_cores": 18}


def test_macos_power() -> None:
    assert macos.parse_pmset_batt(sample("pmset_batt_battery.txt")) == {"power_source": "battery"}
    assert macos.parse_pmset_batt(sample("pmset_batt_ac.txt")) == {"power_source": "AC"}
    assert macos.parse_pmset_batt("Now drawing from 'UPS Power'\n") == {"power_source": "battery"}
    assert macos.parse_pmset(sample("pmset_low_power.txt")) == {"low_power_mode": True}
    assert macos.parse_pmset(sample("pmset_powermode.txt")) == {"low_power_mode": False, "high_power_mode": True}
    assert macos.parse_pmset(" lowpowermode 0\n highpowermode 0\n") == {
        "low_power_mode": False,
        "high_power_mode": False,
    }


def test_macos_heat() -> None:
    assert macos.parse_notifyutil(sample("notifyutil_heavy.txt")) == {"thermal_pressure": "heavy"}
    assert macos.parse_notifyutil("com.apple.system.thermalpressurelevel 0") == {"thermal_pressure": "nominal"}
    assert macos.parse_notifyutil("com.apple.system.thermalpressurelevel 9") == {"thermal_pressure": "level 9"}
    assert macos.parse_pmset_therm(sample("pmset_therm_limited.txt")) == {"cpu_speed_limit": 62}
    assert macos.parse_pmset_therm(sample("pmset_therm_nominal.txt")) == {}


def test_linux_processors() -> None:
    x86 = linux.parse_cpuinfo(sample("cpuinfo_x86.txt"))
    assert x86 == {"cpu": "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", "cores": 2, "virtualised": False}
    assert linux.parse_cpuinfo(sample("cpuinfo_virtual.txt")) == {"cpu": "AMD EPYC", "cores": 2, "virtualised": True}
    assert linux.parse_cpuinfo(sample("cpuinfo_arm.txt")) == {}


def test_two_sockets_have_their_own_cores() -> None:
    one = "physical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\n\n"
    assert linux.parse_cpuinfo(one + one.replace("id\t: 0", "id\t: 1"))["cores"] == 2


def test_linux_system() -> None:
    assert linux.parse_os_release(sample("os_release.txt")) == {"os_version": "Ubuntu 24.04"}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_linux_files_are_read(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "etc/os-release": sample("os_release.txt"),
            "proc/sys/kernel/osrelease": "6.8.0-45-alices-build",
            "proc/meminfo": "MemTotal:       32768000 kB\nMemFree:  1 kB",
            "proc/cpuinfo": sample("cpuinfo_x86.txt"),
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
            "sys/devices/system/cpu/intel_pstate/no_turbo": "0",
            "sys/firmware/acpi/platform_profile": "low-power",
        },
    )
    assert linux.system(root) == {"os_version": "Ubuntu 24.04", "kernel": "6.8.0"}
    assert linux.hardware(root)["memory_bytes"] == 32768000 * 1024
    assert linux.clocks(root) == {"governor": "performance,powersave", "turbo": True}
    assert linux.power(root) == {"low_power_mode": True}


@pytest.mark.parametrize(("boost", "turbo"), [("1", True), ("0", False)])
def test_linux_boost_of_other_drivers(tmp_path: Path, boost: str, turbo: bool) -> None:
    assert linux.clocks(tree(tmp_path, {"sys/devices/system/cpu/cpufreq/boost": boost})) == {"turbo": turbo}


@pytest.mark.parametrize(
    ("supplies", "source"),
    [
        ({"AC/type": "Mains", "AC/online": "1", "BAT0/type": "Battery", "BAT0/status": "Full"}, "AC"),
        ({"AC/type": "Mains", "AC/online": "0", "BAT0/type": "Battery", "BAT0/status": "Discharging"}, "battery"),
        ({"BAT0/type": "Battery", "BAT0/status": "Discharging"}, "battery"),
        ({"hid/type": "Battery", "hid/scope": "Device", "hid/status": "Discharging"}, None),
        ({}, None),
    ],
)
def test_linux_power_source(tmp_path: Path, supplies: dict[str, str], source: str | None) -> None:
    root = tree(tmp_path, {f"sys/class/power_supply/{name}": text for name, text in supplies.items()})
    assert linux.power(root).get("power_source") == source


def test_nvidia_gpus() -> None:
    h200, rtx, k80 = nvidia.parse_gpus(sample("nvidia_smi_gpus.csv"))
    assert h200 == {
        "name": "NVIDIA H200",
        "driver": "570.124.06",
        "memory_mib": 143771,
        "sm_mhz": 1980,
        "max_sm_mhz": 1980,
        "memory_mhz": 3201,
        "persistence": "Enabled",
        "throttle_reasons": [],
    }
    assert rtx["throttle_reasons"] == ["power cap", "thermal slowdown (software)"]
    assert k80 == {"name": "Tesla K80", "driver": "470.82.01", "memory_mib": 11441, "memory_mhz": 2505}
    assert nvidia.parse_processes(sample("nvidia_smi_processes.csv")) == 2


@pytest.mark.parametrize("text", ["", "No devices were found\n", "NVIDIA-SMI has failed because it is lost."])
def test_a_failing_nvidia_smi_gives_nothing(text: str) -> None:
    assert nvidia.parse_gpus(text) == []
    assert nvidia.parse_processes(text) == 0


PARSERS = (
    macos.parse_sw_vers,
    macos.parse_sysctl,
    macos.parse_ioreg,
    macos.parse_system_profiler,
    macos.parse_pmset_batt,
    macos.parse_pmset,
    macos.parse_notifyutil,
    macos.parse_pmset_therm,
    linux.parse_os_release,
    linux.parse_cpuinfo,
)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", ["", "\n\n", "command not found", "a: b\n: c\nd =\n", "\ufffd\x00: 1"])
def test_parsers_leave_out_what_they_do_not_find(parser: Any, text: str) -> None:
    assert parser(text) == {}
