"""How long a ``consume()`` loop waits for a message that a bound holds back."""

from __future__ import annotations

import math

import pytest

from controlmq.clients.channel_runner import clock
from controlmq.clients.pika.generator import LOOK_AGAIN_SECONDS, Generator
from controlmq.consumer.consumer import Consumer, Shape


def waiting(until: float, bounded: bool) -> float:
    """Seconds that the loop waits, where the share of its consumer ends in ``until`` seconds.

    If it is ``bounded``, the share begins without a token.
    """
    now = clock()
    generator = Generator(None, ("orders", False, False), "tag")
    generator.consumer = Consumer("tag", "orders", 1.0, Shape(), now)
    generator.consumer.share(5.0, 1.0, now + until)
    if not bounded:
        generator.consumer.gate.bucket = None
    return generator._gated()


def test_a_loop_takes_a_message_at_once_where_the_gate_is_open() -> None:
    assert waiting(math.inf, bounded=False) == 0.0


def test_a_loop_waits_for_the_next_token() -> None:
    assert waiting(math.inf, bounded=True) == pytest.approx(0.2, abs=0.1)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_loop_does_not_spin_where_its_share_has_ended(bounded: bool) -> None:
    assert waiting(-1.0, bounded) == LOOK_AGAIN_SECONDS
