"""The shares of those that share a rate: who gets how much, and what is no record."""

from __future__ import annotations

import math
import random

import pytest

from controlmq.consumer.bucket import Bucket
from controlmq.consumer.hand_over_gate import Arrived, Gate
from controlmq.sharing.bound import bound_of
from controlmq.sharing.records import Found, Hello, Leave, Record, Renewal, decoded, encoded
from controlmq.sharing.shares import GIVEN_OUT_SHARE_OF_GOAL, Shares

TOTAL = 100 * GIVEN_OUT_SHARE_OF_GOAL


def with_needs(*needs: float) -> Shares:
    """Members a, b, c ... with these needs, after some renewals."""
    shares = Shares()
    for position in range(4 * len(needs)):
        number = position % len(needs)
        name = "abcdefgh"[number]
        keep = shares.target(name) if name in shares.members else 0.0
        shares.renewed(position, name, 100.0, keep, needs[number])
    return shares


def split(*needs: float) -> list[float]:
    return [holding.share for holding in with_needs(*needs).members.values()]


def test_members_that_lack_something_have_the_same() -> None:
    assert split(100, 100, 100, 100) == pytest.approx([TOTAL / 4] * 4)
    assert split(10, 100, 100) == pytest.approx([10, (TOTAL - 10) / 2, (TOTAL - 10) / 2])


def test_what_nobody_needs_is_split_evenly() -> None:
    assert split(10, 20) == pytest.approx([10 + (TOTAL - 30) / 2, 20 + (TOTAL - 30) / 2])
    assert split(0, 0) == pytest.approx([TOTAL / 2] * 2)


def test_the_shares_never_add_up_to_more_than_the_total() -> None:
    rng = random.Random(1)
    shares = Shares()
    for position in range(5000):
        name = rng.choice("abcdef")
        kind = rng.random()
        if kind < 0.05:
            shares.left(name)
        elif kind < 0.1 and name in shares.members:
            shares.expired(name, shares.members[name].last - rng.randint(0, 1))
        else:
            shares.renewed(position, name, 100.0, rng.uniform(0, 50), rng.choice((0, 5, 30, 100)))
        total = math.fsum(holding.share for holding in shares.members.values())
        assert total <= TOTAL * (1 + 1e-12)


def test_a_newer_record_keeps_a_member() -> None:
    shares = with_needs(100, 100)
    last = shares.members["a"].last
    shares.expired("a", last - 1)
    assert "a" in shares.members
    shares.expired("a", last)
    assert "a" not in shares.members


def test_the_lowest_goal_counts() -> None:
    shares = Shares()
    shares.renewed(0, "a", 100.0, 0.0, 100.0)
    shares.renewed(1, "b", 50.0, 0.0, 50.0)
    assert shares.total == pytest.approx(50 * GIVEN_OUT_SHARE_OF_GOAL)
    assert shares.members["b"].share == 0
    shares.renewed(2, "a", 100.0, shares.target("a"), 100.0)
    shares.renewed(3, "b", 50.0, 0.0, 50.0)
    assert [each.share for each in shares.members.values()] == pytest.approx(
        [25 * GIVEN_OUT_SHARE_OF_GOAL] * 2
    )


@pytest.mark.parametrize(
    "record",
    [
        Hello("a"),
        Found("a", 7),
        Leave("a"),
        Renewal("a", 100.0, 1 / 3, 0.1, {"b": 3}, 12, with_needs(5, 100).as_json()),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert decoded(encoded(record)) == record


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"[]",
        b'{"kind": "hello"}',
        b'{"kind": "other", "by": "a"}',
        b'{"kind": "renewal", "by": "a", "goal": 0, "keep": 0, "need": 0}',
        b'{"kind": "renewal", "by": "a", "goal": "x", "keep": 0, "need": 0}',
        b'{"kind": "renewal", "by": "a", "goal": 1, "keep": 0, "need": 0, "shares": {"b": 1}}',
        b'{"kind": "found", "by": "a", "hello": "x"}',
        bytes(range(256)),
    ],
)
def test_what_is_no_record_is_left_out(body: bytes) -> None:
    assert decoded(body) is None


def test_a_member_has_its_part_of_the_burst_and_at_least_one_message() -> None:
    assert bound_of(50.0, 9.0, 100.0, None) == (50.0, 2.5, 9.0)
    assert bound_of(5.0, 9.0, 100.0, 40.0) == (5.0, 2.0, 9.0)
    assert bound_of(5.0, 9.0, 100.0, None) == (5.0, 1.0, 9.0)
    assert bound_of(0.0, 9.0, 100.0, None).until == -math.inf


def test_a_gate_is_closed_from_the_end_of_the_lease_on() -> None:
    gate = Gate()
    gate.bucket = Bucket(100.0, 10)
    gate.until = 2.0
    for tag in range(3):
        gate.waiting.append(Arrived(tag, None, 0.0, None))  # type: ignore[arg-type]
    assert gate.take(1.999) is not None
    assert gate.take(2.0) is None
    assert gate.ask_at == math.inf, "nobody waits for an end that has come"
    gate.until = 5.0
    assert gate.take(3.0) is not None
