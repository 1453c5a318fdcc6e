"""Lanes at the edges of what AMQP and a broker allow."""

from __future__ import annotations

import pytest

from controlmq.consumer.commands import CancelLanes, OpenLane
from controlmq.consumer.consumer import Consumer, Shape, WindowChoice
from controlmq.consumer.core import Core
from controlmq.controllers.limits import Limits


def grown(tag: str, prefetch: float, to: float) -> tuple[Core, Consumer, OpenLane]:
    """A consumer that asks for its second lane."""
    core = Core()
    consumer = Consumer(tag, "queue", prefetch, Shape(window="lanes", interval=60.0), 0.0)
    core.lane_opened(core.subscribe(consumer, 0.0), 0.0)
    core.retarget(consumer, to, 1.0)
    core.wake(1.0)
    command = core.commands.popleft()
    assert isinstance(command, OpenLane)
    return core, consumer, command


@pytest.mark.parametrize(
    "tag", ["t" * 250, "t" * 255, "\N{SNOWMAN}" * 85], ids=["250", "255", "85"]
)
def test_the_tag_of_a_lane_fits_into_255_bytes(tag: str) -> None:
    _, _, command = grown(tag, 3, 8)
    lane = command.lane
    assert len(lane.tag.encode()) <= 255
    assert lane.tag != tag
    assert lane.tag.endswith(".lane-2")


def test_a_refused_lane_leaves_the_window_that_there_is() -> None:
    core, consumer, command = grown("tag", 3, 8)
    core.lane_refused(command.lane, 2.0)
    core.wake(2.0)
    assert consumer.window.granted == 3
    assert not core.commands, "and no other is asked for at once"
    core.wake(20.0)
    assert core.consumers == {"tag": consumer}


@pytest.mark.parametrize("window", ["single", "lanes"])
def test_no_lane_is_larger_than_amqp_allows(window: WindowChoice) -> None:
    shape = Shape(window=window, limits=Limits(1, 100_000))
    consumer = Consumer("tag", "queue", 100_000, shape, 0.0)
    assert consumer.first_size <= 65_535
    consumer.actuate(100_000)
    assert consumer.window.target <= 65_535


def test_while_a_commit_is_unanswered_no_lane_changes() -> None:
    core = Core()
    consumer = Consumer("tag", "queue", 3, Shape(window="lanes", interval=60.0), 0.0)
    core.lane_opened(core.subscribe(consumer, 0.0), 0.0)
    core.committing()
    core.retarget(consumer, 8, 1.0)
    core.wake(1.0)
    assert not core.commands
    assert core.wake_at > 1.0
    core.commit_answered(2.0)
    core.wake(2.0)
    assert isinstance(core.commands.popleft(), OpenLane)


def test_a_stop_while_a_commit_is_unanswered_cancels_after_the_answer() -> None:
    core = Core()
    consumer = Consumer("tag", "queue", 3, Shape(window="lanes", interval=60.0), 0.0)
    lane = core.subscribe(consumer, 0.0)
    core.lane_opened(lane, 0.0)
    core.committing()
    core.committing()
    core.cancel([consumer])
    core.came_too_late(1)
    core.commit_answered(1.0)
    assert not core.commands
    core.commit_answered(2.0)
    assert core.commands.popleft() == CancelLanes((lane,))
    assert not core.returns
    core.lane_cancelled(lane, 2.0)
    assert core.take_returns() == [1]
