"""Two token buckets of one rate, for acks that open slots and for handlers that start.

The same law as :mod:`controlmq.consumer.bucket` and :mod:`controlmq.consumer.hand_over_gate`. A
bucket is the instant at which it is full again, and each token moves that on by ``1 / pace``; a
token is there from ``early`` seconds before, which are the burst. That of the openings is at least
2.
"""

from __future__ import annotations

from simulator.engine.compiled import called, compiled
from simulator.engine.simulation_state import SimulationState

# The values of controlmq.consumer.hand_over_gate and .consumer: a test compares them.
STANDING_AFTER_SECONDS = 0.1
CUSHION_MESSAGES = 1
LEAST_OPENING_BURST = 2.0


@compiled
def opens_at(state: SimulationState, consumer: int) -> float:
    """When the next ack may open a slot, by its distance and its token."""
    client = state.consumers[consumer]
    due = 0.0
    if client.spacing > 0.0:
        due = client.next_release
    if client.pace > 0.0:
        due = max(due, client.openings_full_at - _openings_early(state, consumer))
    return due


@compiled
def _openings_early(state: SimulationState, consumer: int) -> float:
    """Seconds by which the token of an opening is there before its bucket is full."""
    client = state.consumers[consumer]
    early: float = max(client.early, (LEAST_OPENING_BURST - 1.0) / client.pace)
    return early


@compiled
def count_opening(state: SimulationState, consumer: int, given: float, now: float) -> None:
    """Take the token of an ack that opens a slot now and was given by its handler then."""
    client = state.consumers[consumer]
    if client.openings_full_at - _openings_early(state, consumer) > given:
        client.openings_awaited += 1
    client.openings_full_at = max(client.openings_full_at, now) + 1.0 / client.pace


@compiled
def starts_at(state: SimulationState, consumer: int) -> float:
    """When the next handler may start."""
    client = state.consumers[consumer]
    return client.starts_full_at - client.early if client.pace > 0.0 else 0.0


@called
def add_gated(state: SimulationState, consumer: int, now: float) -> None:
    """Add up the time that the messages of the buffer have waited for the next token."""
    client = state.consumers[consumer]
    seconds = min(now, starts_at(state, consumer)) - client.gated_since
    if seconds > 0.0:
        client.gated_time += state.lines[client.buffer_line].length * seconds
    client.gated_since = now


@compiled
def count_start(
    state: SimulationState, consumer: int, waiting: int, since: float, now: float
) -> None:
    """Take the token of a message that came then and starts now; ``waiting`` more are here."""
    client = state.consumers[consumer]
    token_at = client.starts_full_at - client.early
    if token_at > since:
        client.starts_awaited += 1
        client.least_waiting = min(client.least_waiting, waiting)
    else:
        client.least_waiting = 0
    client.starts_full_at = max(client.starts_full_at, now) + 1.0 / client.pace
    # Messages that always wait are a surplus, which becomes acks that are held.
    period = max(STANDING_AFTER_SECONDS, 4.0 * client.delay)
    if now < client.least_since + period:
        return
    surplus = 0
    if client.least_since >= 0.0:
        surplus = max(client.least_waiting - CUSHION_MESSAGES, 0)
    if surplus > 0:
        client.openings_full_at = max(client.openings_full_at, now) + surplus / client.pace
    client.least_since = now + surplus / client.pace
    client.least_waiting = 2**30


@compiled
def change_pace(state: SimulationState, consumer: int, now: float) -> None:
    """Put the wanted rate in force; as many tokens are missing as before."""
    add_gated(state, consumer, now)
    client = state.consumers[consumer]
    factor = client.pace / client.wanted_pace if client.wanted_pace > 0.0 else 0.0
    client.openings_full_at = now + max(client.openings_full_at - now, 0.0) * factor
    client.starts_full_at = now + max(client.starts_full_at - now, 0.0) * factor
    client.pace = client.wanted_pace
    client.early = client.wanted_early
