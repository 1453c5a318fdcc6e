"""The records that members write to the log, as values and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from controlmq.sharing.shares import Shares


@dataclass(frozen=True)
class Hello:
    """A newcomer is here and wants to know the shares."""

    by: str


@dataclass(frozen=True)
class Found:
    """A newcomer has read no renewal since its hello at position ``hello`` and waited long enough.

    If that is so, no member has a lease, and the table of shares is empty from here on.
    """

    by: str
    hello: int


@dataclass(frozen=True)
class Renewal:
    """A member renews its lease and keeps at most ``keep`` of its share; see ``Shares.renewed``.

    ``expired`` are members whose leases have ended, each with the position of its last record.
    ``shares`` is the table after the record at ``read``, for newcomers.
    """

    by: str
    goal: float
    keep: float
    need: float
    expired: Mapping[str, int] = field(default_factory=dict)
    read: int = -1
    shares: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Leave:
    """A member has stopped handing over, for good."""

    by: str


Record = Hello | Found | Renewal | Leave

KINDS: dict[str, type[Record]] = {
    "hello": Hello,
    "found": Found,
    "renewal": Renewal,
    "leave": Leave,
}
NAMES = {kind: name for name, kind in KINDS.items()}


def encoded(record: Record) -> bytes:
    """A record as the log has it."""
    return json.dumps({"kind": NAMES[type(record)]} | asdict(record)).encode()


def decoded(body: bytes) -> Record | None:
    """The record of a message; None for one that is no record, which every member leaves out."""
    try:
        given = json.loads(body)
        record: Record = KINDS[given.pop("kind")](**given)
        if isinstance(record, Renewal):
            numbers = (record.goal, record.keep, record.need, record.read, *record.expired.values())
            if not all(isinstance(each, int | float) for each in numbers):
                return None
            if not (record.goal > 0 and record.keep >= 0 and record.need >= 0):
                return None
            Shares.from_json(record.shares or {})
        elif isinstance(record, Found) and not isinstance(record.hello, int):
            return None
        return record if isinstance(record.by, str) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
