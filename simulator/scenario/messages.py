"""Messages: what a publisher or a consumer sends, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.scenario import checks
from simulator.scenario.distributions import Size


@dataclass(frozen=True)
class Message:
    """One kind of message that a publisher sends; ``probability`` is that of sending it next.

    ``type`` is its name in metrics; if not given, the routing key. ``size`` is in bytes, fixed or
    drawn. Several messages may share a type, for example to give each of a few sizes its own
    probability.
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
        checks.unless_none(checks.text, "type", self.type)
        checks.share("probability", self.probability)
        checks.size("size", self.size)
        checks.flag("persistent", self.persistent)
        checks.whole("priority", self.priority, 0, checks.MOST_PRIORITIES - 1)
        checks.headers("headers", self.headers)


@dataclass(frozen=True)
class Send(Message):
    """A message that a consumer publishes when it has finished one.

    ``on`` is the type of message that causes it; if not given, any type does. It is sent with
    ``probability`` through ``exchange``, or without one to the queue named by its routing key.
    """

    exchange: str = ""
    on: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.any_text("exchange", self.exchange)
        checks.unless_none(checks.text, "on", self.on)
