"""A version that was never tested is warned of once."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from controlmq.clients.tested_versions import warn_if_untested


def test_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        warn_if_untested("pika", "0.12")
    assert [record.message for record in caplog.records] == [
        f"pika {version('pika')} was never tested with controlmq; 0.12 was: if consumers "
        "misbehave, install that"
    ]


def test_nothing_is_said_of_a_tested_version_or_of_none(caplog: pytest.LogCaptureFixture) -> None:
    warn_if_untested("pika", version("pika").rpartition(".")[0])
    warn_if_untested("no-such-client", "1.0")
    assert caplog.records == []
