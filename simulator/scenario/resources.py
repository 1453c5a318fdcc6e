"""Resources behind the handlers of consumers: a database, an interface, a pool of licences."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.scenario import checks


@dataclass(frozen=True)
class Resource:
    """Something behind the handlers of one or more consumers, with ``servers`` that do the work.

    A handler whose consumer names a resource has one of its servers for as long as it works on a
    message. Where all are taken, handlers wait, whichever came first is served first, and their
    time with the message grows. Others who use the resource are consumers too, of a queue of
    their own.
    """

    name: str
    servers: int

    def __post_init__(self) -> None:
        checks.text("name", self.name)
        checks.whole("servers", self.servers, 1, 100_000)
