"""How a rate is split among the members that share it: a function of the log, the same for all.

Every member reads the same records in the same order and applies them here, so that all members
that have read as far have the same table of shares. In it the shares of the members never add up to
more than the total, at any position of the log:

- a share grows only by a record of its owner, and only by what no member has;
- it shrinks only by a record of its owner, who keeps to the smaller share before it is sent;
- it ends by a record of its owner who leaves, or by one of another member that has waited until
  the lease of the owner must have ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

GIVEN_OUT_SHARE_OF_GOAL = 0.995
"""Share of the goal that is given out. The rest is for clocks that run at different speeds, and for
a message that is handed over a little after its time was read."""


@dataclass(frozen=True)
class Holding:
    """What one member has, as the log has it.

    ``share`` is the most it may hand over, ``need`` what it could, ``goal`` what it was given for
    all together, in messages/second. ``last`` is the position of its last record.
    """

    share: float
    need: float
    goal: float
    last: int


class Shares:
    """The table of shares: a :class:`Holding` for each member."""

    def __init__(self, members: Mapping[str, Holding] | None = None) -> None:
        self.members = dict(members or {})

    @property
    def total(self) -> float:
        """Messages/second that are given out; where members differ, the lowest goal counts."""
        return GIVEN_OUT_SHARE_OF_GOAL * min(
            (each.goal for each in self.members.values()), default=0.0
        )

    @property
    def free(self) -> float:
        """Messages/second that no member has."""
        return self.total - math.fsum(each.share for each in self.members.values())

    def renewed(self, position: int, member: str, goal: float, keep: float, need: float) -> None:
        """A member goes on with at most ``keep`` of its share; it may get more at once."""
        before = self.members.get(member)
        share = min(before.share, keep) if before is not None else 0.0
        self.members[member] = Holding(share, need, goal, position)
        more = min(self.target(member) - share, self.free)
        if more > 0:
            self.members[member] = Holding(share + more, need, goal, position)

    def left(self, member: str) -> None:
        """A member has stopped handing over."""
        self.members.pop(member, None)

    def expired(self, member: str, last: int) -> None:
        """The lease of a member has ended, unless it has a record that is newer than ``last``."""
        if member in self.members and self.members[member].last == last:
            del self.members[member]

    def target(self, member: str) -> float:
        """The share that a member should have, messages/second.

        No member gets more than it needs while another lacks something, and those that lack
        something have the same. What no member needs is split evenly.
        """
        rest, targets = self.total, {}
        ordered = sorted(self.members.items(), key=lambda each: (each[1].need, each[0]))
        for number, (each, holding) in enumerate(ordered):
            targets[each] = min(holding.need, rest / (len(ordered) - number))
            rest -= targets[each]
        return targets[member] + max(0.0, rest) / len(ordered)

    def as_json(self) -> dict[str, dict[str, float]]:
        """The table for a member that joins."""
        return {member: asdict(holding) for member, holding in self.members.items()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Shares:
        """The table that another member has sent."""
        return cls({member: Holding(**holding) for member, holding in given.items()})
