"""What was handled on a channel that is lost is known again once, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace

from controlmq.clients.handled import (
    MOST_REMEMBERED,
    REDELIVERY_SECONDS,
    REMEMBERED_SECONDS,
    GivenAcks,
    LostAcks,
    key_of,
)

HOLD = 10.0


def properties(message_id: str | None = None, **headers: object) -> SimpleNamespace:
    return SimpleNamespace(message_id=message_id, headers=headers or None)


def test_a_message_without_an_id_is_never_known() -> None:
    assert key_of(properties()) is None
    assert key_of(properties(None, colour="red")) is None


def test_what_the_broker_adds_makes_no_difference_and_what_the_user_adds_does() -> None:
    first = key_of(properties("a", retries=1))
    assert key_of(properties("a", retries=1, **{"x-delivery-count": 3})) == first
    assert key_of(properties("a", retries=2)) != first
    assert key_of(properties("a", **{"x-delivery-count": 1})) == key_of(properties("a"))
    assert key_of(properties("b", retries=1)) != first


def test_taskiq_has_its_id_in_a_header() -> None:
    assert key_of(properties(None, task_id="t")) == key_of(properties(None, task_id="t"))
    assert key_of(properties(None, task_id="t", _retries="1")) != key_of(
        properties(None, task_id="t")
    )


def lost_channel(*keys: str, lost: LostAcks) -> None:
    """These were acknowledged on a channel that ended at 1.0."""
    given = GivenAcks(lost, HOLD)
    for key in keys:
        given.add(key, 0.0)
    given.end(1.0)


def test_without_a_lost_channel_nothing_counts_as_handled() -> None:
    given = GivenAcks({}, HOLD)
    given.add("a", 0.0)
    assert not given.handled_before("a", redelivered=True, now=1.0)


def test_what_was_acknowledged_on_a_lost_channel_is_known_once() -> None:
    lost: LostAcks = {}
    lost_channel("a", lost=lost)
    given = GivenAcks(lost, HOLD)
    assert given.handled_before("a", redelivered=True, now=2.0)
    assert not given.handled_before("a", redelivered=True, now=3.0)


def test_what_is_known_again_may_be_lost_again() -> None:
    lost: LostAcks = {}
    lost_channel("a", lost=lost)
    second = GivenAcks(lost, HOLD)
    assert second.handled_before("a", redelivered=True, now=2.0)
    second.end(3.0)
    assert GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=4.0)


def test_another_message_with_an_old_id_is_handled_as_often_as_it_is_given_back() -> None:
    lost: LostAcks = {}
    lost_channel("a", lost=lost)
    given = GivenAcks(lost, HOLD)
    assert not given.handled_before("a", redelivered=False, now=2.0), "it comes for the first time"
    assert not given.handled_before("a", redelivered=True, now=3.0), "it was given back"


def test_a_message_that_was_out_with_the_id_of_a_handled_one_is_handled() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.add("a", 0.0)
    assert not given.handled_before("a", redelivered=False, now=1.0)
    given.end(2.0)
    assert not GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=3.0)


def test_what_ended_after_its_channel_is_known_too() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.end(0.0)
    given.add("a", 1.0)
    assert GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=2.0)


def test_what_the_broker_has_received_is_not_delivered_again() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.add("a", 0.0)
    given.have_arrived()
    given.end(1.0)
    assert not GivenAcks(lost, HOLD).handled_before("a", redelivered=True, now=2.0)


def test_old_acks_are_forgotten() -> None:
    lost: LostAcks = {}
    given = GivenAcks(lost, HOLD)
    given.add("old", 0.0)
    later = REMEMBERED_SECONDS + HOLD + 1.0
    given.add("new", later)
    given.end(later)
    assert list(lost) == ["new"]
    after = later + REDELIVERY_SECONDS
    assert not GivenAcks(lost, HOLD).handled_before("new", redelivered=True, now=after)
    lost_channel("a", lost=lost)
    GivenAcks(lost, HOLD).end(after)
    assert not lost


def test_there_is_a_bound_on_what_is_remembered() -> None:
    lost: LostAcks = {}
    lost_channel(*map(str, range(MOST_REMEMBERED + 1)), lost=lost)
    assert len(lost) == MOST_REMEMBERED
    assert "0" not in lost
