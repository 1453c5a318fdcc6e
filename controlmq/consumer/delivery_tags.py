"""The ledger: every delivery tag of a channel that is not acknowledged yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from controlmq.consumer.lanes import Lane


class Ack(NamedTuple):
    """One acknowledgement frame."""

    tag: int
    multiple: bool


class Ledger:
    """Delivery tags that the user has not acknowledged, and the fewest frames to do it with.

    ``unacked`` maps the tags of delivered messages to their lanes, in ascending order;
    ``fetched`` has the tags that ``basic_get`` brought, which belong to no lane. ``gated`` are
    those of delivered messages that the user has not got yet, in ascending order, and ``unwanted``
    those that came for a consumer that is leaving, and still have to be given back.
    """

    def __init__(self) -> None:
        self.unacked: dict[int, Lane] = {}
        self.fetched: set[int] = set()
        self.gated: dict[int, Lane] = {}
        self.unwanted: list[int] = []
        self.whole: bool | None = None
        """Whether every tag of the channel is in these books: not if messages were out when
        the channel was wrapped. None before the first message."""
        self.ordered = True
        """Whether no message is missing whose tag is lower than one in these books. One is where
        the messages of another consumer were handed over first, or where an interrupt came before
        it could be handed over. No frame may stand for several then."""
        self.next_tag = 0
        """The tag of the next delivery if none is missing; 0 before the first."""
        self._taken: set[int] = set()
        """Tags from that one on that others than deliveries of lanes had."""

    def saw(self, tag: int) -> None:
        """Note a delivery or fetch; the first one tells whether the channel was new."""
        if self.whole is None:
            self.whole = tag == 1

    def delivered_out_of_turn(self, tag: int) -> None:
        """Note a delivery whose tag is not the next one.

        A channel numbers what it brings without gaps, and deliveries come in order. A tag that
        nobody has had is that of a message which an interrupt kept from us when the client had read
        it: it is not acknowledged, and must not become so by a frame for several.
        """
        missing = range(self.next_tag, tag) if self.next_tag else range(0)
        if self.ordered and not self._taken.issuperset(missing):
            self.ordered = False
        self._taken.difference_update(missing)
        self._take(tag)

    def taken(self, tag: int) -> None:
        """Note the tag of a message that no lane delivered, or that came out of turn."""
        if not self.next_tag or tag == self.next_tag:
            self._take(tag)
        elif tag > self.next_tag and self.ordered:
            self._taken.add(tag)

    def _take(self, tag: int) -> None:
        self.next_tag = max(self.next_tag, tag + 1)
        while self.next_tag in self._taken:
            self._taken.remove(self.next_tag)
            self.next_tag += 1

    def __contains__(self, tag: int) -> bool:
        return tag in self.unacked or tag in self.fetched

    def hand_over(self, tag: int) -> None:
        """The user gets a message that was gated."""
        self.enter(tag, self.gated.pop(tag))

    def enter(self, tag: int, lane: Lane) -> None:
        """The user gets a message, perhaps after one with a higher tag."""
        later = bool(self.unacked) and next(reversed(self.unacked)) > tag
        self.unacked[tag] = lane
        if later:  # of another consumer
            ascending = sorted(self.unacked.items())
            self.unacked.clear()
            self.unacked.update(ascending)

    def covers_unseen(self, tag: int) -> bool:
        """Whether a frame for everything up to ``tag`` would include what the user has not got."""
        unseen = (*self.gated, *self.unwanted)
        return not self.ordered or (bool(unseen) and (tag == 0 or min(unseen) <= tag))

    def up_to(self, tag: int) -> list[int]:
        """Unacknowledged tags of lanes up to ``tag``; 0 stands for all, as in AMQP."""
        if tag == 0:
            return list(self.unacked)
        tags = []
        for unacked in self.unacked:
            if unacked > tag:
                break
            tags.append(unacked)
        return tags

    def fetched_up_to(self, tag: int) -> list[int]:
        """Tags of ``basic_get`` up to ``tag``; 0 stands for all."""
        return sorted(fetched for fetched in self.fetched if tag == 0 or fetched <= tag)

    def frames(self, tags: list[int], held: Iterable[int]) -> list[Ack]:
        """The frames that acknowledge ``tags`` and no other.

        All tags below the oldest that must stay (in these books, or ``held``) go as
        one frame with ``multiple=True``.
        """
        tags.sort()
        if not (self.whole and self.ordered):
            # A frame for several would also acknowledge messages that are not in our books.
            return [Ack(tag, False) for tag in tags]
        beyond = tags[-1] + 1
        first = min(
            next(iter(self.unacked), beyond),
            next(iter(self.gated), beyond),
            min(self.fetched, default=beyond),
            min(self.unwanted, default=beyond),
            min(held, default=beyond),
        )
        together = [tag for tag in tags if tag < first]
        if len(together) < 2:
            return [Ack(tag, False) for tag in tags]
        return [Ack(together[-1], True), *(Ack(tag, False) for tag in tags[len(together) :])]
