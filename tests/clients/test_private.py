"""A pika whose inside is unknown is refused with one sentence, before anything is changed."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.channel import Channel

from controlmq.clients.pika import private
from controlmq.errors import ControlmqError


@pytest.mark.parametrize(
    ("kind", "missing"), [(BlockingChannel, "_impl"), (Channel, "_consumers, _cancelled")]
)
def test_a_channel_without_what_wrapping_needs_is_refused(kind: type, missing: str) -> None:
    channel = kind.__new__(kind)  # nothing that a constructor would have added
    with pytest.raises(ControlmqError, match=rf"has no .*{missing}.*; install a pika .* 1\.3"):
        private.check(channel)
