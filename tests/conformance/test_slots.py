"""The trials notice a consumer that grants too much, and a broker that counts too much."""

from __future__ import annotations

from controlmq.consumer.consumer import Consumer, Shape
from tests.conformance.slots import COUNTS_LAG_SECONDS, Reading, Slots, counted_above, noted_above
from tests.faults.record import Line

UNDER_WAY = 0.25


class Watched:
    """A consumer with lanes, and what was noted above its bound."""

    def __init__(self, prefetch: float) -> None:
        self.consumer = Consumer("tag", "orders", prefetch, Shape(window="lanes"), 0.0)
        self.above: list[tuple[int, int]] = []
        self.slots = Slots(
            self.consumer, lambda slots, allowed: self.above.append((slots, allowed))
        )

    def aim(self, prefetch: float) -> None:
        self.slots.changing()
        self.consumer.actuate(prefetch)

    def open(self, size: int) -> None:
        lane = self.consumer.window.opened(self.consumer, f"lane of {size}", size)
        self.slots.opened(lane)


def test_slots_up_to_the_target_rounded_up_are_allowed() -> None:
    watched = Watched(3.5)
    watched.open(4)
    watched.aim(6.2)
    watched.open(3)
    assert watched.above == []
    assert watched.slots.most() == 7


def test_a_lane_too_many_is_noted() -> None:
    watched = Watched(4)
    watched.open(4)
    watched.open(2)
    assert watched.above == [(6, 4)]


def test_what_was_granted_before_the_target_dropped_is_allowed_until_it_changes_again() -> None:
    watched = Watched(10)
    watched.open(8)
    watched.aim(2)
    watched.slots.look()
    assert watched.above == []
    watched.open(2)
    assert watched.above == [(10, 8)]


def test_a_lane_of_one_slot_may_stand_in_for_the_only_one() -> None:
    watched = Watched(4)
    watched.open(4)
    watched.aim(2)
    watched.open(1)
    assert watched.above == []
    watched.open(1)
    assert watched.above == [(6, 5)]


def test_more_in_flight_than_slots_is_noted() -> None:
    watched = Watched(2)
    watched.open(2)
    watched.consumer.window.lanes[0].received = 3
    watched.slots.look()
    assert watched.above == [(3, 2)]


def test_the_worst_that_was_noted_is_said() -> None:
    lines = [Line(1, "above", 6, 4), Line(2, "above", 9, 4), Line(3, "handled", 4, 1)]
    (said,) = noted_above(lines)
    assert said.startswith("2 times above the bound: 9 ")
    assert noted_above(lines[2:]) == []


def at(when: float, count: int) -> Reading:
    return Reading(when, when, count)


LINES = [
    Line(10, "opened", 4),
    Line(11, "sampled", 9),
    Line(12, "sampled", 3),
    Line(20, "sampled", 3),
    Line(20.5, "lost", 3),
    Line(21, "opened", 2),
    Line(30, "closed", 2),
]


def test_counts_of_the_broker_may_be_as_old_as_its_statistics() -> None:
    assert counted_above(LINES, [at(12.1, 9)], UNDER_WAY) == []
    (said,) = counted_above(LINES, [at(12.1, 9), at(19, 4)], UNDER_WAY)
    assert said.startswith("1 of 2 times the broker counted more")
    assert "4 unacknowledged, and 3 were allowed" in said


def test_slots_that_were_there_between_two_lines_are_on_the_second() -> None:
    assert counted_above(LINES, [at(10.9, 9)], UNDER_WAY) == []


def test_a_connection_that_has_just_ended_still_counts() -> None:
    assert counted_above(LINES, [at(21.5, 5)], UNDER_WAY) == []
    late = 21 + COUNTS_LAG_SECONDS + UNDER_WAY + 0.1
    assert counted_above(LINES, [at(late, 5)], UNDER_WAY) != []
    assert counted_above(LINES, [at(late, 2)], UNDER_WAY) == []


def test_nothing_may_be_unacknowledged_once_all_is_closed() -> None:
    late = 30 + COUNTS_LAG_SECONDS + UNDER_WAY + 0.1
    assert counted_above(LINES, [at(late, 1)], UNDER_WAY) != []
