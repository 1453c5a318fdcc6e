"""The kill switch: any way of setting it switches off, and each change is logged once."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlmq.clients import kill_switch
from controlmq.clients.kill_switch import Off, look


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kill_switch.VARIABLE, raising=False)
    monkeypatch.delenv(kill_switch.FILE_VARIABLE, raising=False)
    monkeypatch.setattr(kill_switch, "_noticed", None)


def test_nothing_set_switches_nothing_off(caplog: pytest.LogCaptureFixture) -> None:
    assert look() is None
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("text", "prefetch"),
    [
        *(("", None), (" \n", None), ("12", 12), ("2.5\n", 2.5), ("0", None)),
        *(("-1", None), ("yes", None), ("nan", None), ("1e99", None), ("70000", None)),
    ],
)
def test_whatever_is_set_switches_off(
    text: str, prefetch: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "off"
    monkeypatch.setenv(kill_switch.FILE_VARIABLE, str(file))
    assert look() is None
    file.write_text(text)
    assert look() == Off(prefetch)
    file.unlink()
    assert look() is None
    monkeypatch.setenv(kill_switch.VARIABLE, text)
    assert look() == Off(prefetch)


def test_a_file_that_cannot_be_read_switches_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kill_switch.FILE_VARIABLE, str(tmp_path))
    assert look() == Off(None)


def test_each_change_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "off"
    monkeypatch.setenv(kill_switch.FILE_VARIABLE, str(file))
    for text in ("many", "3", None):
        file.write_text(text) if text is not None else file.unlink()
        for _ in range(3):
            look()
    kept = f"{file} is set%s: consumers keep %s and do not adapt"
    assert caplog.messages == [
        kept % (" ('many' is not a prefetch above 0)", "the prefetch in force"),
        kept % ("", "prefetch 3"),
        f"{file} was removed: consumers adapt again",
    ]


@pytest.mark.parametrize(
    ("prefetch", "in_force", "whole"), [(None, 6.3, 7), (None, 0.2, 1), (4, 9, 4), (2.5, 9, 3)]
)
def test_the_prefetch_held_needs_no_fraction(
    prefetch: float | None, in_force: float, whole: float
) -> None:
    assert Off(prefetch).whole(in_force) == whole
