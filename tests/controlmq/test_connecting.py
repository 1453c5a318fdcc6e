"""URLs: no password is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq import InputError
from controlmq.clients.pika.connecting import shown, url_parameters


def refusal_of(url: str) -> str:
    """The sentence with which a URL is refused; a full stop if it is not."""
    try:
        url_parameters(url)
    except InputError as refusal:
        return str(refusal)
    return "."


@pytest.mark.parametrize(
    "url",
    [
        "amqp://user:s3cret@localhost:5672/v",
        "amqp://user:s3cret/more@localhost/v",
        "amqp://user:s3cret#more@localhost/v",
        "amqp://user:s3cret?more@localhost/v",
        "amqp://user:[s3cret@localhost/v",
        "user:s3cret@localhost:5672",
        "amqps://localhost/v?ssl_options={'password':'s3cret'}",
    ],
)
def test_no_part_of_a_password_is_shown(url: str) -> None:
    assert "s3cret" not in shown(url)
    assert "s3cret" not in refusal_of(url)


@given(url=st.text())
def test_any_text_is_taken_or_refused_with_a_sentence(url: str) -> None:
    assert refusal_of(url).endswith(".")
