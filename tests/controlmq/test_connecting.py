"""Connecting by URL: no password is ever shown, and what goes wrong is one sentence."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlmq import ControlmqError, InputError
from controlmq.clients.pika.connecting import connection_to, url_parameters
from controlmq.urls import shown

SECRET = "s3cret"
SCHEMES = st.sampled_from(["amqp", "amqps", "http", "sc", "AMQP", "amq", ""])
PASSWORDS = st.lists(st.text(st.characters(codec="utf-8"), max_size=3), min_size=1, max_size=4).map(
    lambda between: "".join(f"{SECRET}{text}" for text in between)
)
"""Any text, of which every piece longer than three characters has a part that gives it away."""


@pytest.fixture(scope="module", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Each context would load all certificates of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


def refusal_of(url: str) -> str:
    """The sentence with which a URL is refused; a full stop if it is not."""
    try:
        url_parameters(url)
    except InputError as refusal:
        return str(refusal)
    return "."


def assert_kept(url: str) -> None:
    assert SECRET not in shown(url)
    assert SECRET not in refusal_of(url)


@pytest.mark.parametrize(
    "url",
    [
        "amqp://user:s3cret@localhost:5672/v",
        "amqp://user:s3cret/more@localhost/v",
        "amqp://user:s3cret#more@localhost/v",
        "amqp://user:s3cret?more@localhost/v",
        "amqp://user:[s3cret@localhost/v",
        "user:s3cret@localhost:5672",
        "user:s3cret@amqp://localhost:5672",
        "amqp://user:s3cret",
        "amqp://user:s3cret/v",
        "amqp://:s3cret",
        "amqps://localhost/v?ssl_options={'password':'s3cret'}",
        "amqps://localhost/v?ssl_options={'password':'s3@s3cret'}",
        "sc://localhost:15002/;token=s3cret",
    ],
)
def test_no_part_of_a_password_is_shown(url: str) -> None:
    assert_kept(url)


@settings(max_examples=50)
@given(scheme=SCHEMES, user=st.text(max_size=5), password=PASSWORDS, tail=st.text(max_size=5))
def test_no_password_is_shown_whatever_it_is_made_of(
    scheme: str, user: str, password: str, tail: str
) -> None:
    assert_kept(f"{scheme}://{user}:{password}@localhost:5672/v")
    assert_kept(f"{scheme}://{user}:{password}@")
    assert_kept(f"{user}:{password}@{scheme}://localhost")
    for option in ("?", "#"):
        assert_kept(f"{scheme}://guest:guest@localhost/v{option}{tail}={password}")


@settings(max_examples=50)
@given(scheme=SCHEMES, user=st.text(max_size=5), password=PASSWORDS, tail=st.text(max_size=5))
def test_no_password_is_shown_where_the_host_is_missing(
    scheme: str, user: str, password: str, tail: str
) -> None:
    # Behind an @ stands a host, so a password that ends in one of these cannot be recognised.
    password, tail, user = (text.replace("@", "") for text in (password, tail, user))
    assert_kept(f"{scheme}://{user}:{password}{tail}")
    assert_kept(f"{scheme}://{user}:{password}/{tail}")


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("amqp://user:s3cret@broker.example:5672/v", "amqp://broker.example:5672/v"),
        ("amqps://user:s3cret@[::1]:5671/%2F?heartbeat=5", "amqps://[::1]:5671/%2F"),
        ("amqp://localhost", "amqp://localhost"),
        ("amqp://localhost:5672/v", "amqp://localhost"),
    ],
)
def test_the_host_is_shown(url: str, seen: str) -> None:
    assert shown(url) == seen


@given(url=st.text())
def test_any_text_is_taken_or_refused_with_a_sentence(url: str) -> None:
    assert refusal_of(url).endswith(".")


def test_a_connection_that_is_reset_as_soon_as_it_is_accepted_was_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # pika asks for the peer's name when it is connected. A proxy whose broker is gone resets at
    # that very moment, once in some hundred connections.
    def getpeername(connection: socket.socket) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(socket.socket, "getpeername", getpeername)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"amqp://127.0.0.1:{server.getsockname()[1]}/%2F?connection_attempts=1"
        with pytest.raises(ControlmqError, match="cannot connect"), connection_to(url):
            pass
