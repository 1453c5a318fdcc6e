"""Messages: what a publisher or a consumer sends, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.scenario import checks
from simulator.scenario.distributions import Size


@dataclass(frozen=True)
class Message:
    """One kind of message that a publisher sends, with the ``probability`` of it being next.

    ``type`` is what metrics call it: its routing key if not given. ``size`` is in bytes, fixed
    or drawn. Several entries may share a type, to draw its size from a few with given odds.
    """

    routing_key: str = ""
    type: str | None = None
    probability: float = 1.0
    size: int | Size = 0
    persistent: bool = False
    priority: int = 0
    headers: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.any_text("routing_key", self.routing_key)
        if self.type is not None:
            checks.text("type", self.type)
        checks.share("probability", self.probability)
        checks.size("size", self.size)
        checks.flag("persistent", self.persistent)
        checks.whole("priority", self.priority, 0, checks.MOST_PRIORITIES - 1)
        checks.headers("headers", self.headers)


@dataclass(frozen=True)
class Send(Message):
    """A message that a consumer publishes each time it has finished one.

    ``on`` is the type of message that leads to it; without it, any. It is sent with
    ``probability``, through ``exchange`` or, without it, to the queue its routing key names.
    """

    exchange: str = ""
    on: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.any_text("exchange", self.exchange)
        if self.on is not None:
            checks.text("on", self.on)
