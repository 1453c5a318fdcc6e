"""Everything a run knows at an instant, as arrays with one row per entity.

A new kind of entity is a row type here, its timers among the slots, and its events in the
engine; what exists already stays as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.draws import SOURCE, source
from simulator.duration import Duration
from simulator.messages import NONE, Messages, new_messages
from simulator.scenario import Consumer, Link, Publishers, Scenario
from simulator.timers import Timers, new_timers

PUBLISH, DELIVER, FINISH, ACKNOWLEDGE, GRANT = range(5)
"""What a timer means when it is due."""

FIRST_ROOM = 1024
"""Messages a run starts with room for; it doubles when they do not suffice."""

NO_BOUND = np.iinfo(np.int64).max

CLOCK = np.dtype([("now", np.float64), ("publish_rate", np.float64), ("wanted_rate", np.float64)])

SLOT = np.dtype([("event", np.int64), ("entity", np.int64)])

PUBLISHER = np.dtype(
    [
        ("slot", np.int64),
        ("source", np.int64),  # of the time between two publishes
        ("queue", np.int64),
        ("size", np.int64),  # bytes
        ("left", np.float64),  # seconds to the next publish at the scenario's rate, while paused
    ]
)
QUEUE = np.dtype(
    [
        ("line", np.int64),
        ("max_length", np.int64),
        ("drop_head", np.bool_),
        ("first_consumer", np.int64),
        ("consumers", np.int64),
        ("turn", np.int64),  # which of them is asked first for the next message
        ("published", np.int64),
        ("dropped", np.int64),
    ],
    align=True,
)
CONSUMER = np.dtype(
    [
        ("queue", np.int64),
        # the link
        ("down_line", np.int64),
        ("down_slot", np.int64),
        ("down_jitter", np.int64),
        ("up_line", np.int64),
        ("up_slot", np.int64),
        ("up_jitter", np.int64),
        ("delay", np.float64),  # seconds, one way
        ("seconds_per_byte", np.float64),
        ("line_free", np.float64),  # when the last byte sent so far is on its way
        ("down_last", np.float64),  # when the last message sent so far arrives
        ("up_last", np.float64),
        # the client
        ("buffer_line", np.int64),
        ("idle", np.int64),  # first idle handler
        ("work", np.int64),  # source
        ("overhead", np.float64),  # seconds
        # the window
        ("grant_slot", np.int64),
        ("prefetch", np.float64),
        ("wanted_prefetch", np.float64),
        ("low", np.int64),  # whole numbers around the prefetch
        ("high", np.int64),
        ("credit", np.float64),  # message-seconds the window has been below the prefetch
        ("starved", np.bool_),
        ("in_flight", np.int64),
        ("most_in_flight", np.int64),
        ("since", np.float64),  # up to when the times below are counted
        # counted since the start
        ("in_flight_time", np.float64),
        ("starved_time", np.float64),
        ("delivered", np.int64),
        ("acknowledged", np.int64),
        ("arrivals", np.int64),
        ("finished", np.int64),
        ("work_time", np.float64),
        ("buffer_time", np.float64),
    ],
    align=True,
)
HANDLER = np.dtype(
    [
        ("slot", np.int64),
        ("consumer", np.int64),
        ("message", np.int64),
        ("work", np.float64),  # seconds of work on that message
        ("next_idle", np.int64),
    ]
)


class State(NamedTuple):
    """The arrays the engine runs on."""

    clock: npt.NDArray[Any]
    timers: Timers
    slots: npt.NDArray[Any]
    messages: Messages
    sources: npt.NDArray[Any]
    publishers: npt.NDArray[Any]
    queues: npt.NDArray[Any]
    consumers: npt.NDArray[Any]
    handlers: npt.NDArray[Any]


def consumer_rows(scenario: Scenario) -> list[Consumer]:
    """The consumers in the order of their rows: those of one queue side by side."""
    queues = [queue.name for queue in scenario.queues]
    return sorted(scenario.consumers, key=lambda consumer: queues.index(consumer.queue))


def new_state(scenario: Scenario, seed: int) -> State:
    """A scenario at time 0: nothing published yet, every handler idle."""
    return _Builder(scenario, seed).state()


class _Builder:
    """Lays a scenario out in rows, numbering lines, slots and sources as it goes."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.seed = seed
        self.lines = 0
        self.sources: list[tuple[Any, ...]] = []
        self.slots: list[tuple[int, int]] = []
        self.publishers: list[tuple[Any, ...]] = []
        self.handlers: list[tuple[Any, ...]] = []
        names = [queue.name for queue in scenario.queues]
        links = {link.name: link for link in scenario.links}
        consumers = consumer_rows(scenario)
        self.queues = np.zeros(len(names), QUEUE)
        self.consumers = np.zeros(len(consumers), CONSUMER)
        for row, queue in zip(self.queues, scenario.queues, strict=True):
            mine = [i for i, consumer in enumerate(consumers) if consumer.queue == queue.name]
            row["line"] = self._line()
            row["max_length"] = NO_BOUND if queue.max_length is None else queue.max_length
            row["drop_head"] = queue.overflow == "drop-head"
            row["first_consumer"], row["consumers"] = (mine[0] if mine else 0), len(mine)
        for group in scenario.publishers:
            self._add_publishers(group, names.index(group.queue))
        for index, consumer in enumerate(consumers):
            link = Link("none") if consumer.link is None else links[consumer.link]
            self._add_consumer(index, consumer, names.index(consumer.queue), link)

    def state(self) -> State:
        clock = np.zeros(1, CLOCK)
        clock["wanted_rate"] = 1.0
        return State(
            clock=clock,
            timers=new_timers(len(self.slots)),
            slots=np.array(self.slots, SLOT),
            messages=new_messages(self.lines, FIRST_ROOM),
            sources=np.array(self.sources, SOURCE),
            publishers=np.array(self.publishers, PUBLISHER),
            queues=self.queues,
            consumers=self.consumers,
            handlers=np.array(self.handlers, HANDLER),
        )

    def _line(self) -> int:
        self.lines += 1
        return self.lines

    def _slot(self, event: int, entity: int) -> int:
        self.slots.append((event, entity))
        return len(self.slots) - 1

    def _source(self, duration: Duration, owner: str) -> int:
        self.sources.append(source(duration, self.seed, owner))
        return len(self.sources) - 1

    def _add_publishers(self, group: Publishers, queue: int) -> None:
        for number in range(group.count):
            owner = f"publishers/{group.name}/{number}"
            index = len(self.publishers)
            every = self._source(group.every, f"{owner}/every")
            # Publishers do not start in step: each begins at a random point of its cycle.
            phase = source(Duration(0.0), self.seed, f"{owner}/phase")[0] / 2**64
            left = phase * group.every.mean
            slot = self._slot(PUBLISH, index)
            self.publishers.append((slot, every, queue, group.message_size, left))

    def _add_consumer(self, index: int, consumer: Consumer, queue: int, link: Link) -> None:
        owner = f"consumers/{consumer.name}"
        row = self.consumers[index]
        row["queue"] = queue
        jitter = link.jitter or Duration(0.0)
        for way, event in (("down", DELIVER), ("up", ACKNOWLEDGE)):
            row[f"{way}_line"] = self._line()
            row[f"{way}_slot"] = self._slot(event, index)
            row[f"{way}_jitter"] = self._source(jitter, f"{owner}/jitter/{way}")
        row["delay"] = link.round_trip / 2
        row["seconds_per_byte"] = 1 / link.bytes_per_second if link.bytes_per_second else 0.0
        row["buffer_line"] = self._line()
        row["work"] = self._source(consumer.work, f"{owner}/work")
        row["overhead"] = consumer.overhead
        row["grant_slot"] = self._slot(GRANT, index)
        row["wanted_prefetch"] = consumer.prefetch
        row["idle"] = len(self.handlers)
        for number in range(consumer.handlers):
            handler = len(self.handlers)
            slot = self._slot(FINISH, handler)
            next_idle = handler + 1 if number + 1 < consumer.handlers else NONE
            self.handlers.append((slot, index, NONE, 0.0, next_idle))
