"""The table of devices: complete, plausible, and found by what people and systems call them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from bandwidth_model import recognise as recognition
from bandwidth_model.devices import GIB, Device, Kind, Silicon, devices, find_device, recognise
from bandwidth_model.errors import UnknownDevice

CONFIDENCE = {"vendor", "read", "secondary", "computed", "estimate"}

# What a serving simulator needs: bandwidth in GB/s, dense FP16 in TFLOP/s, memory in GiB.
SERVING = {
    "A100 40GB": (1555, 312, 40),
    "A100 80GB SXM": (2039, 312, 80),
    "H100 SXM": (3350, 989, 80),
    "H100 PCIe": (2039, 756, 80),
    "H200": (4800, 989, 141),
    "L40S": (864, 362, 48),
    "L4": (300, 121, 24),
    "A10G": (600, 70, 24),
    "T4": (320, 65, 16),
    "V100": (900, 125, 16),
    "RTX 3090": (936, 71.2, 24),
    "RTX 4090": (1008, 165.2, 24),
    "RTX 5090": (1792, 209.5, 32),
    "MI300X": (5300, 1307, 192),
}


class TestTheTable:
    def test_has_at_least_120_devices_of_every_kind(self) -> None:
        assert len(devices()) >= 120
        assert {device.kind for device in devices()} == set(get_args(Kind))
        assert {device.silicon for device in devices()} == set(get_args(Silicon))

    def test_names_each_device_once(self) -> None:
        names = [device.name for device in devices()]
        assert len(set(names)) == len(names)

    @pytest.mark.parametrize("device", devices(), ids=lambda device: device.name)
    def test_is_plausible(self, device: Device) -> None:
        assert 1e9 < device.bandwidth_bytes_per_s < 1e13
        assert all(GIB / 2 <= size <= 8192 * GIB for size in device.memory_bytes)
        assert list(device.memory_bytes) == sorted(device.memory_bytes) != []
        assert device.source
        assert device.family
        assert device.confidence in CONFIDENCE
        re.compile(device.known_as)
        if device.flops_per_s:  # FP32 operations to a byte: from Pi 5 to RTX 5000 Ada
            assert 4 < device.flops_per_s / device.bandwidth_bytes_per_s < 130
        if device.half_flops_per_s:
            assert device.half_flops_per_s > (device.flops_per_s or 0)

    @pytest.mark.parametrize("name", SERVING)
    def test_serves_a_simulator(self, name: str) -> None:
        device = find_device(name)
        bandwidth, half, memory = SERVING[name]
        assert device.bandwidth_bytes_per_s == bandwidth * 1e9
        assert device.half_flops_per_s == half * 1e12
        assert memory * GIB in device.memory_bytes

    def test_resolves_conflicts_by_width_and_rate(self) -> None:
        assert find_device("RTX 4070 SUPER").bandwidth_bytes_per_s == 504e9  # 192 bit x 21 Gbit/s
        assert find_device("RX 9070").bandwidth_bytes_per_s == 640e9  # 256 x 20
        assert find_device("Raspberry Pi 5").bandwidth_bytes_per_s == pytest.approx(17.1e9)  # 32 x 4.267


class TestNames:
    @pytest.mark.parametrize("device", devices(), ids=lambda device: device.name)
    def test_every_name_finds_its_own_device(self, device: Device) -> None:
        assert find_device(device.name) is device
        assert find_device(device.name.upper()) is device

    @pytest.mark.parametrize(
        ("typed", "name"),
        [
            ("rtx4090", None),
            ("rtx 4090", "RTX 4090"),
            ("NVIDIA GeForce RTX 3090", "RTX 3090"),
            ("m2 max", "Apple M2 Max 38c"),
            ("pi 5", "Raspberry Pi 5"),
            ("Xiaomi 14", "Snapdragon 8 Gen 3 (Xiaomi 14, Galaxy S24, OnePlus 12)"),
            ("Galaxy S25", "Snapdragon 8 Elite (Galaxy S25, Xiaomi 15)"),
            ("iPhone 15 Pro", "iPhone 15 Pro (A17 Pro)"),
            ("7950X", "Ryzen 9 7950X"),
        ],
    )
    def test_as_people_type_them(self, typed: str, name: str | None) -> None:
        if name is None:
            with pytest.raises(UnknownDevice, match="RTX 4090"):
                find_device(typed)
        else:
            assert find_device(typed).name == name

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            ("RTX 4909", "Did you mean RTX 4090"),
            ("H100", "'H100' may be any of: H100 PCIe, H100 SXM, H100 NVL."),
            ("M3 Max", "may be any of: Apple M3 Max 30c, Apple M3 Max 40c."),
            ("toaster", "No device is called 'toaster'."),
            ("", "No device is called ''."),
        ],
    )
    def test_unknown_ones_get_one_line_with_the_nearest(self, typed: str, said: str) -> None:
        with pytest.raises(UnknownDevice) as caught:
            find_device(typed)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


class TestThisMachine:
    @pytest.mark.parametrize(
        ("said", "cores", "name"),
        [
            ("13th Gen Intel(R) Core(TM) i9-13900K", 32, "Core i9-13900K"),
            ("12th Gen Intel(R) Core(TM) i7-12700H", 20, "Core i7-12700H"),
            ("Intel(R) Core(TM) Ultra 7 155H", 22, "Core Ultra 7 155H"),
            ("AMD Ryzen 7 5800X 8-Core Processor", 16, "Ryzen 7 5800X"),
            ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", 24, "Ryzen AI 9 HX 370 (DDR5-5600)"),
            ("AMD EPYC 7763 64-Core Processor", 128, "EPYC 7003 (Milan)"),
            ("Intel(R) Xeon(R) Platinum 8480+", 112, "Xeon Platinum 8480+"),
            ("Apple M1", 8, "Apple M1 8c"),
            ("Apple M3 Max", 14, "Apple M3 Max 30c"),
            ("Apple M3 Max", 16, "Apple M3 Max 40c"),
            ("Apple M4 Max", 16, "Apple M4 Max 40c"),
            ("Raspberry Pi 4 Model B Rev 1.4", 4, "Raspberry Pi 4"),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", None, "RTX 4090 Laptop"),
            ("NVIDIA A100-SXM4-80GB", None, "A100 80GB SXM"),
            ("NVIDIA H100 80GB HBM3", None, "H100 SXM"),
            ("SM8650", 8, "Snapdragon 8 Gen 3 (Xiaomi 14, Galaxy S24, OnePlus 12)"),
        ],
    )
    def test_is_recognised_by_what_systems_say(self, said: str, cores: int | None, name: str) -> None:
        found = recognise([said], cores)
        assert found is not None
        assert found.name == name

    @pytest.mark.parametrize("said", ["AMD EPYC", "Apple M3 Max", "Virtual CPU", "x86_64", "", "NVIDIA H100"])
    def test_is_none_where_they_do_not_tell(self, said: str) -> None:
        assert recognise([said]) is None

    def test_the_first_telling_name_decides(self) -> None:
        found = recognise(["board", "Raspberry Pi 5 Model B", "Apple M1"], 4)
        assert found is not None
        assert found.name == "Raspberry Pi 5"

    def test_names_come_from_the_system_and_never_fail(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        board, cpu = tmp_path / "model", tmp_path / "cpuinfo"
        monkeypatch.setattr(recognition, "BOARD_MODEL", board)
        monkeypatch.setattr(recognition, "CPU_INFO", cpu)
        monkeypatch.setattr(recognition.platform, "system", lambda: "Linux")
        monkeypatch.setattr(recognition.platform, "processor", lambda: "")
        assert list(recognition.machine_names()) == []
        assert recognition.this_device() is None
        board.write_bytes(b"Raspberry Pi 5 Model B Rev 1.0\0")
        cpu.write_text("processor\t: 0\nmodel name\t: AMD Ryzen 9 7950X 16-Core Processor\n")
        found = recognition.this_device()
        assert found is not None
        assert found.name == "Raspberry Pi 5"
        board.unlink()
        found = recognition.this_device()
        assert found is not None
        assert found.name == "Ryzen 9 7950X"
