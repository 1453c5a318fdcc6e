"""What ``controlmq run`` is told about metrics and the page: mistakes get one sentence each."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from controlmq.cli.main import main

RUN = ["run", "--queue", "orders", "--prefetch", "5", "--work", "0", "--url", "amqp://127.0.0.1:1"]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*RUN, *words]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1, text
    return text


@pytest.mark.parametrize("what", ["--dashboard", "--metrics-port"])
def test_an_address_of_other_machines_needs_to_be_allowed(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said([what, "0", "--listen", "0.0.0.0"], capsys)
    assert "would be served on 0.0.0.0, where other machines can read it" in text
    assert "--allow-remote" in text


@pytest.mark.parametrize("token", ["short", "x" * 200])
def test_a_token_of_the_wrong_length_is_refused(
    token: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROLMQ_DASHBOARD_TOKEN", token)
    text = said(["--dashboard", "0", "--allow-goal-changes"], capsys)
    assert f"the token of the dashboard has {len(token)} characters; give 16 to 128" in text
    assert token not in text


def test_changes_of_the_goal_need_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --dashboard, too" in said(["--allow-goal-changes"], capsys)


def test_a_port_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give 0 to 65535" in said(["--metrics-port", "70000"], capsys)


@pytest.mark.parametrize("what", ["--dashboard", "--metrics-port"])
def test_a_port_that_is_taken_does_not_stop_the_command(
    what: str,
    taken: int,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # It goes on to the broker, which is not there.
    assert main([*RUN, what, str(taken), "--samples", "1"]) != 0
    assert "cannot connect" in capsys.readouterr().err
    (line,) = [each.message for each in caplog.records if "cannot be served" in each.message]
    assert f"port {taken} (address already in use)" in line
