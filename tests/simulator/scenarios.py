"""Scenarios the tests start from."""

from __future__ import annotations

from dataclasses import replace

from simulator import Consumer, Duration, Link, Publishers, Queue, Scenario, load_scenario

ROSA = load_scenario("rosa")
NOISY = load_scenario("rosa-noisy")

IN_FLIGHT_TIME = 0.0125
"""Seconds a message of "rosa" is in flight while no handler keeps it waiting."""


def with_prefetch(scenario: Scenario, prefetch: float) -> Scenario:
    return replace(scenario, consumers=[replace(scenario.consumers[0], prefetch=prefetch)])


def with_publishers(scenario: Scenario, count: int) -> Scenario:
    return replace(scenario, publishers=[replace(scenario.publishers[0], count=count)])


def one_queue(
    every: Duration,
    work: Duration,
    *,
    prefetch: float,
    handlers: int = 1,
    round_trip: float = 0.0,
    max_length: int | None = None,
    overflow: str = "drop-head",
    message_size: int = 0,
    bytes_per_second: float | None = None,
) -> Scenario:
    link = Link("link", round_trip, bytes_per_second=bytes_per_second)
    return Scenario(
        name="one queue",
        sample_interval=1.0,
        publishers=[Publishers("publisher", "queue", every, message_size=message_size)],
        queues=[Queue("queue", max_length, overflow)],
        consumers=[
            Consumer("consumer", "queue", work, handlers=handlers, link="link", prefetch=prefetch)
        ],
        links=[link],
    )
