"""What can be changed while a scenario runs, by a rule or from Python, and how far."""

from __future__ import annotations

from controlmq.checks import above_zero, finite
from controlmq.errors import InputError
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import LONGEST_SECONDS
from simulator.scenario.publishers import SHORTEST_PUBLISH_INTERVAL_SECONDS, Publishers

SLOWEST_RATE_FACTOR = 0.001
"""The least multiple of the scenario's rate; to send nothing, pause or remove publishers."""


def service_time(key: str, value: object) -> float:
    """``value`` as a mean work time in seconds, if that is allowed."""
    mean = above_zero(key, value)
    if mean > LONGEST_SECONDS:
        raise InputError(f"{key} is {mean:g} seconds; give at most {LONGEST_SECONDS:g}.")
    return mean


def stretch(consumer: Consumer, mean: float) -> float:
    """The factor that makes a consumer's work take ``mean`` seconds on average."""
    if consumer.work.mean == 0:
        raise InputError(
            f"the work of {consumer.name!r} takes no time and cannot be stretched; "
            "give it a mean above 0 in the scenario."
        )
    return mean / consumer.work.mean


def rate_factor(key: str, value: object, most: float) -> float:
    """``value`` as a factor of the rate at which publishers send, if that is allowed."""
    factor = finite(key, value)
    if not SLOWEST_RATE_FACTOR <= factor <= most:
        raise InputError(f"{key} is {factor:g}; give {SLOWEST_RATE_FACTOR:g} to {most:g}.")
    return factor


def fastest(group: Publishers) -> float:
    """The largest factor by which the rate of publishers can be multiplied."""
    return group.every.mean / SHORTEST_PUBLISH_INTERVAL_SECONDS
