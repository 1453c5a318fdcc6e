"""The kill switch of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlmq.clients import kill_switch


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the kill switch, which is on while it is there."""
    file = tmp_path / "off"
    monkeypatch.delenv(kill_switch.VARIABLE, raising=False)
    monkeypatch.setenv(kill_switch.FILE_VARIABLE, str(file))
    return file
