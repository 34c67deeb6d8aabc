"""Every test has folders of its own: none reads or writes what belongs to the person who runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LOCALCHAT_")]:
        if name != "LOCALCHAT_REQUIRE_REAL_MODEL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOCALCHAT_HOME", str(tmp_path / "localchat-home"))
