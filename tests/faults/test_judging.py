"""The verdict on a trial finds what is lost, requeued and handled too often."""

from __future__ import annotations

from tests.faults.judging import judge
from tests.faults.record import Line

FAULT = 10.0


def opened(at: float, slots: int = 3) -> Line:
    return Line(at, "opened", slots)


def handled(at: float, number: int, redelivered: bool = False, slots: int = 3) -> Line:
    return Line(at, "handled", slots, number, redelivered)


def lost(at: float, slots: int = 3) -> Line:
    return Line(at, "lost", slots)


def closed(at: float) -> Line:
    return Line(at, "closed", 3)


def test_a_trial_in_which_all_went_well() -> None:
    lines = [opened(9), handled(9.5, 0), handled(10.5, 1), handled(12, 2), closed(13)]
    verdict = judge(lines, {0, 1, 2}, FAULT)
    assert (verdict.lost, verdict.requeued, verdict.duplicates, verdict.bound) == (0, 0, 0, 0)
    assert (verdict.handled, verdict.losses, verdict.pause_seconds) == (3, 0, 1.5)


def test_a_confirmed_message_that_was_never_handled_is_lost() -> None:
    assert judge([opened(9), handled(9.5, 0), closed(13)], {0, 1}, FAULT).lost == 1


def test_a_redelivery_before_any_connection_ended_is_a_requeue() -> None:
    lines = [opened(9), handled(9.5, 0, redelivered=True), closed(13)]
    assert judge(lines, {0}, FAULT).requeued == 1


def test_a_message_that_one_connection_handles_twice_is_a_requeue() -> None:
    before = [opened(9), handled(9.5, 0), lost(10)]
    lines = [*before, opened(10.5), handled(11, 1), handled(11.2, 1, redelivered=True), closed(13)]
    assert judge(lines, {0, 1}, FAULT).requeued == 1


def test_redeliveries_are_explained_by_the_slots_of_lost_connections() -> None:
    before = [opened(8), handled(9.9, 0), handled(9.95, 1), lost(10)]
    again = [handled(11, number, redelivered=True) for number in (0, 1, 2)]
    verdict = judge([*before, opened(10.5), *again, closed(13)], {0, 1, 2}, FAULT)
    assert (verdict.requeued, verdict.duplicates, verdict.bound, verdict.losses) == (0, 2, 3, 1)
    more = [handled(12, number, redelivered=True) for number in (3, 4)]
    lines = [*before, opened(10.5), *again, *more, closed(13)]
    assert judge(lines, set(range(5)), FAULT).requeued == 2


def test_the_bound_is_what_was_in_flight_around_the_fault_and_not_long_before() -> None:
    lines = [opened(8, 20), handled(9, 0, slots=20), handled(9.9, 1, slots=4), lost(10, 2)]
    assert judge(lines, set(), FAULT).bound == 4
    assert judge(lines, set(), FAULT, under_way=1.5).bound == 20


def test_acks_sent_while_nothing_went_through_count_as_in_flight() -> None:
    lines = [opened(8), handled(9.9, 1, slots=12), handled(10.6, 2, slots=2), lost(11, 2)]
    assert judge(lines, set(), FAULT).bound == 12


def test_what_an_orderly_end_leaves_in_the_queue_is_a_duplicate_without_excuse() -> None:
    verdict = judge([opened(9), handled(9.5, 0), closed(13)], {0}, FAULT, left=1)
    assert (verdict.duplicates, verdict.bound) == (1, 0)


def test_a_killed_broker_may_forget_the_acks_since_it_was_idle() -> None:
    before = [opened(1), handled(2, 0), handled(9.4, 1, slots=1), handled(9.5, 2, slots=1)]
    again = [handled(11, number, redelivered=True) for number in (1, 2)]
    lines = [*before, lost(10, 1), opened(10.5), *again, closed(13)]
    assert judge(lines, {0, 1, 2}, FAULT, unsettled_since=9.0).bound == 3
    assert judge(lines, {0, 1, 2}, FAULT, unsettled_since=9.0).requeued == 0
    assert judge(lines, {0, 1, 2}, FAULT).requeued == 1
