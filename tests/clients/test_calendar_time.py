"""The samples of a consumer have the time of the calendar, the same for every process."""

from __future__ import annotations

import time

import pytest

from controlmq.clients.calendar_time import InCalendarTime
from controlmq.clients.channel_runner import clock
from controlmq.consumer.consumer import Consumer, Shape


def test_a_sample_has_the_time_of_the_calendar_at_the_end_of_its_interval() -> None:
    consumer = Consumer("tag", "orders", 4.0, Shape(), clock())
    plant = InCalendarTime(consumer)
    ends = time.time() + 1.0
    consumer.now += 1.0
    assert plant.observe().time == pytest.approx(ends, abs=0.5)


def test_what_the_loop_decides_is_the_prefetch_of_the_consumer() -> None:
    consumer = Consumer("tag", "orders", 4.0, Shape(), clock())
    InCalendarTime(consumer).actuate(7.5)
    assert consumer.window.target == 7.5
