"""``localchat devices``: the whole table, filtered by words, with this machine marked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bandwidth_model.devices import devices, find_device
from tests.localchat.command_line import run


@pytest.fixture
def this(monkeypatch: pytest.MonkeyPatch) -> str:
    device = find_device("Raspberry Pi 5")
    monkeypatch.setattr("bandwidth_model.recognise.this_device", lambda: device)
    return device.name


def test_json_has_every_device_with_its_source(tmp_path: Path, this: str) -> None:
    found = json.loads(run(tmp_path, "devices", "--json").out)
    assert [each["name"] for each in found] == [device.name for device in devices()]
    assert all(each["source"] and each["confidence"] and each["bandwidth_bytes_per_s"] > 0 for each in found)
    assert [each["name"] for each in found if each["this_machine"]] == [this]


def test_every_word_narrows(tmp_path: Path, this: str) -> None:
    for words in (["rtx", "40"], ["GPU", "ada"], ["raspberry"], ["phone", "snapdragon"]):
        found = json.loads(run(tmp_path, "devices", *words, "--json").out)
        fewer = json.loads(run(tmp_path, "devices", *words, "8", "--json").out)
        assert len(devices()) > len(found) > 0
        assert all(each in found for each in fewer)
    lines = run(tmp_path, "devices", "raspberry").out.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "GB/S", "MEMORY", "GiB", "CONFIDENCE", "SOURCE"]
    assert [line for line in lines if f"{this} *" in line]
    assert lines[-1] == "* this machine"


def test_an_unknown_machine_is_told_how_to_be_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandwidth_model.recognise.this_device", lambda: None)
    assert run(tmp_path, "devices").out.endswith("Measure it in 10 seconds: localchat probe\n")


def test_nothing_found_is_one_line(tmp_path: Path) -> None:
    outcome = run(tmp_path, "devices", "toaster", "\x1b[31m")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("localchat: No device has the words 'toaster ")
    assert "\x1b" not in outcome.err
    assert json.loads(run(tmp_path, "devices", "toaster", "--json").out) == []
