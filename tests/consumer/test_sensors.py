"""Sensors of a live consumer, fed with what a queue and a network would do to it."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Callable

import pytest

from controlmq.consumer.sensors import Sensors
from controlmq.loop import Sample

TURNAROUND = 0.012
WORK = 0.001


def samples(
    slots: int,
    arrive: Callable[[float], float],
    count: int = 12,
    interval: float = 1.0,
    waits: list[float] | None = None,
) -> list[Sample]:
    """Samples of a consumer with this number of slots.

    A slot released at ``t`` gets its message at ``arrive(t + TURNAROUND)``, or after the message
    before it. ``waits`` collects how long each message waited for the handler.
    """
    sensors = Sensors(0.0, interval)
    sensors.released(slots, 0, 0.0)
    due = [arrive(TURNAROUND) for _ in range(slots)]
    heapq.heapify(due)
    now, taken = 0.0, []
    while len(taken) < count:
        end = (len(taken) + 1) * interval
        if max(now, due[0]) >= end:
            now = max(now, end)
            taken.append(sensors.close(now, float(slots)))
            continue
        arrival = heapq.heappop(due)
        now = max(now, arrival)
        if waits is not None:
            waits.append(now - arrival)
        sensors.delivered(now, sum(other <= now for other in due))
        now += WORK
        sensors.answered(0, now)
        sensors.released(1, 0, now)
        sensors.active_at, sensors.in_call = now, False
        heapq.heappush(due, arrive(now + TURNAROUND))
    return taken


def stalled(at: float, seconds: float) -> Callable[[float], float]:
    """Nothing comes for a while, and then all that was due."""
    return lambda due: at + seconds if at <= due < at + seconds else due


class Trickle:
    """A queue that is dry, save for one message every ``gap`` seconds."""

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self._next = 0.0

    def __call__(self, due: float) -> float:
        """The first message not taken yet."""
        self._next = max(self._next + self.gap, due)
        return self._next


def test_a_full_queue_is_never_starved() -> None:
    assert [sample.starved for sample in samples(6, lambda due: due)] == [0.0] * 12


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.15])
def test_a_short_stall_of_a_full_queue_is_not_starvation(seconds: float) -> None:
    taken = samples(6, stalled(5.3, seconds))
    assert [sample.starved for sample in taken] == [0.0] * 12


def test_a_queue_that_gives_nothing_for_long_is_starved() -> None:
    taken = samples(6, stalled(5.3, 2.0))
    shares = [sample.starved for sample in taken]
    assert shares[:5] == [0.0] * 5
    assert shares[5] == pytest.approx(0.7, abs=0.03)
    assert shares[6] == pytest.approx(1.0, abs=0.01)
    assert shares[7] == pytest.approx(0.3, abs=0.03)
    assert shares[8:] == [0.0] * 4


@pytest.mark.parametrize("gap", [0.005, 0.02, 0.1, 0.3])
def test_a_queue_that_gives_less_than_the_window_takes_is_starved(gap: float) -> None:
    full = iter([True] * 2000)
    trickle = Trickle(gap)
    taken = samples(6, lambda due: due if next(full, False) else trickle(due), count=20)
    assert all(not sample.window_limited for sample in taken[-5:])
    assert all(sample.window_limited for sample in taken[:3])


def test_a_program_that_looks_at_its_connection_now_and_then_is_not_starved() -> None:
    taken = samples(6, lambda due: -(-due // 0.06) * 0.06)
    assert all(sample.window_limited for sample in taken)


@pytest.mark.parametrize("slots", [6, 20, 40])
def test_times_that_come_from_counts_are_those_of_the_messages(slots: int) -> None:
    waits: list[float] = []
    taken = samples(slots, lambda due: due, waits=waits)[2:]
    waited = statistics.fmean(waits[len(waits) // 2 :])
    for sample in taken:
        assert sample.handler_time == pytest.approx(WORK, rel=0.01)
        # Whether the next one came before or after this was taken is a matter of rounding.
        assert sample.buffer_time == pytest.approx(waited, abs=1.1 * WORK)
        # All slots are either under way, which takes a turnaround, or here.
        here = slots - sample.rate * TURNAROUND
        assert sample.in_flight == pytest.approx(here, abs=1.1)


def test_held_acks_are_counted_for_as_long_as_they_are_held() -> None:
    sensors = Sensors(0.0, 1.0)
    sensors.released(0, 4, 0.25)
    sensors.released(0, 0, 0.75)
    assert sensors.close(1.0, 1.0).held == pytest.approx(2.0)
    assert sensors.close(2.0, 1.0).held == 0.0


def test_an_interval_that_was_drawn_out_leaves_a_gap_in_the_numbers() -> None:
    sensors = Sensors(0.0, 1.0)
    ends = [1.0, 2.2, 3.1, 4.6, 5.6, 8.6]
    assert [sensors.close(end, 1.0).number for end in ends] == [0, 1, 2, 4, 5, 8]


def test_a_queue_that_answers_at_once_is_dry_soon_after_its_last_message() -> None:
    sensors = Sensors(0.0, 0.2)
    sensors.released(1, 0, 0.0)
    for number in range(1, 101):
        now = 0.0005 * number
        sensors.delivered(now, 0)
        sensors.answered(0, now)
        sensors.released(1, 0, now)
        sensors.active_at, sensors.in_call = now, False
    sensors.close(0.2, 1.0)
    assert sensors.close(0.4, 1.0).starved == pytest.approx(1.0)


def test_an_inline_handler_is_busy_for_as_long_as_its_calls_take() -> None:
    for sample in samples(2, lambda due: due)[2:]:
        assert sample.handlers == 1
        # Two slots, each once in a turnaround and its work.
        assert sample.busy == pytest.approx(sample.rate * WORK, rel=0.01)
        assert sample.busy == pytest.approx(2 * WORK / (TURNAROUND + WORK), rel=0.05)


def test_the_turnaround_is_that_of_messages_that_were_waited_for() -> None:
    for sample in samples(2, lambda due: due)[2:]:
        assert sample.turnaround == pytest.approx(TURNAROUND, rel=0.01)


def test_the_turnaround_is_held_while_handlers_have_no_time_to_wait() -> None:
    for sample in samples(40, lambda due: due)[2:]:
        assert sample.busy == pytest.approx(1.0)
        assert sample.turnaround == pytest.approx(TURNAROUND, rel=0.01)
        slots = sample.rate * (sample.turnaround + sample.buffer_time + sample.handler_time)
        assert slots == pytest.approx(40, rel=0.01)


def test_the_turnaround_of_a_dry_queue_is_not_taken_for_one_of_the_network() -> None:
    full = iter([True] * 500)
    trickle = Trickle(0.1)
    taken = samples(6, lambda due: due if next(full, False) else trickle(due), count=20)
    assert taken[-1].turnaround == pytest.approx(TURNAROUND, rel=0.2)
    assert taken[-1].buffer_time == pytest.approx(0.0, abs=0.001)


def test_the_few_messages_of_an_interval_tell_how_long_they_waited() -> None:
    sensors = Sensors(0.0, 10.0)
    sensors.released(2, 0, 0.0)
    sensors.delivered(0.1, 1)  # after a turnaround of 0.1 s two messages are here
    sensors.reopened(2.1)
    sensors.active_at, sensors.in_call = 2.1, False
    sensors.delivered(2.1, 0)
    sensors.reopened(4.1)
    sensors.active_at, sensors.in_call = 4.1, False
    sample = sensors.close(10.0, 2.0)
    assert sample.handler_time == pytest.approx(2.0)
    assert sample.buffer_time == pytest.approx(1.0)  # of 0 and 2 seconds


def test_a_message_has_waited_at_the_gate_since_it_came_and_not_since_the_last_sample() -> None:
    sensors = Sensors(0.0, 1.0)
    sensors.released(2, 0, 0.0)
    sensors.delivered(0.5, 0, gated=True)
    sensors.delivered(0.5, 0, gated=True)
    taken = [sensors.close(float(end), 2.0) for end in range(1, 8)]
    sensors.handed_over(0.5, 7.5)
    taken.append(sensors.close(8.0, 2.0))
    assert [sample.gated for sample in taken] == [1.0] + [2.0] * 6 + [1.5]
    assert [sample.in_flight for sample in taken] == [1.0] + [2.0] * 7
    assert [sample.buffer_time for sample in taken] == [0.0] * 7 + [7.0]


def handed_on(handlers: int | None, at_once: int = 10, work: float = 0.1) -> Sample:
    """A client hands ``at_once`` messages to a pool of 2 threads, again and again."""
    sensors = Sensors(0.0, 100.0, handlers)
    sensors.released(at_once, 0, 0.0)
    now = 0.0
    for _ in range(3):
        for _ in range(at_once):
            sensors.delivered(now, 0)
            sensors.active_at, sensors.in_call = now, False
        for _ in range(at_once // 2):
            now += work
            sensors.reopened(now)
            sensors.reopened(now)
    return sensors.close(now, float(at_once))


def test_time_in_a_pool_is_not_handler_time_where_the_handlers_were_counted() -> None:
    sample = handed_on(handlers=2)
    assert sample.handlers == 2
    assert sample.busy == pytest.approx(1.0)
    assert sample.handler_time == pytest.approx(0.1)
    assert sample.buffer_time == pytest.approx(0.2)  # of 0, 0.1, 0.2, 0.3 and 0.4 seconds


def test_without_a_number_the_handlers_are_the_most_messages_at_once() -> None:
    sample = handed_on(handlers=None)
    assert sample.handlers == 10
    assert sample.handler_time == pytest.approx(0.3)
    assert sample.buffer_time == 0.0


def test_acks_of_several_messages_do_not_make_several_handlers() -> None:
    sensors = Sensors(0.0, 1.0)
    sensors.released(4, 0, 0.0)
    now = 0.0
    for number in range(1, 41):
        sensors.delivered(now, 0)
        now += 0.01
        if number % 4 == 0:
            for _ in range(4):
                sensors.reopened(now)
        sensors.active_at, sensors.in_call = now, False
        now += 0.01
    sample = sensors.close(now, 4.0)
    assert sample.handlers == 1
    assert sample.busy == pytest.approx(0.5)


def test_tasks_that_take_longer_than_a_sample_are_as_long_as_they_are() -> None:
    sensors = Sensors(0.0, 1.0)  # nobody has said how many run at once
    sensors.released(4, 0, 0.0)
    for _ in range(4):
        sensors.delivered(0.0, 0)
        sensors.active_at, sensors.in_call = 0.0, False
    taken = [sensors.close(float(end), 4.0) for end in range(1, 5)]
    for _ in range(4):
        sensors.reopened(4.5)
    taken.append(sensors.close(5.0, 4.0))
    assert [sample.handler_time for sample in taken] == [0.0] * 4 + [pytest.approx(4.5)]
    assert [sample.in_flight for sample in taken] == [4.0] * 4 + [pytest.approx(2.0)]


def test_a_message_that_is_put_aside_is_with_no_handler() -> None:
    sensors = Sensors(0.0, 1.0, 1)
    sensors.released(2, 0, 0.0)
    for _ in range(2):
        sensors.delivered(0.0, 0)
        sensors.active_at, sensors.in_call = 0.0, False
    sensors.close(1.0, 2.0)
    sensors.parked(1, 1.5)
    sensors.parked(-1, 2.5)
    taken = [sensors.close(3.0, 2.0)]
    sensors.reopened(3.5)
    sensors.reopened(4.5)
    taken.append(sensors.close(5.0, 2.0))
    assert [sample.in_flight for sample in taken] == pytest.approx([1.5, 1.0])
    assert [sample.busy for sample in taken] == pytest.approx([1.0, 0.75])
    assert taken[1].handler_time == pytest.approx(2.25)  # of 3.5 and 1 seconds
    assert taken[1].buffer_time == pytest.approx(1.0)  # since it was turned to


@pytest.mark.parametrize("handlers", [None, 1])
def test_an_answer_to_a_message_that_was_put_aside_breaks_nothing(handlers: int | None) -> None:
    sensors = Sensors(0.0, 1.0, handlers)
    sensors.released(1, 0, 0.0)
    sensors.delivered(0.0, 0)
    sensors.active_at, sensors.in_call = 0.0, False
    sensors.parked(1, 0.5)
    sensors.answered(0, 1.0)
    sample = sensors.close(1.0, 1.0)
    assert (sample.in_flight, sample.busy, sensors.acks) == (0.5, 0.5, 1)
