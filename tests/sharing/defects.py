"""Planted defects of members that share a rate: the worlds must find each of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controlmq.consumer.bucket import Bucket
from controlmq.consumer.hand_over_gate import Gate
from controlmq.sharing import member
from controlmq.sharing.member import Member
from controlmq.sharing.records import Renewal
from controlmq.sharing.shares import Holding, Shares

Defect = Callable[[pytest.MonkeyPatch], None]


def lease_counts_from_its_receipt(patch: pytest.MonkeyPatch) -> None:
    plain = Member._take

    def take(self: Member, position: int, record: Any, now: float) -> None:
        if record.by == self.name:
            self._sent_at = now
        plain(self, position, record, now)

    patch.setattr(Member, "_take", take)


def others_wait_for_less_than_a_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(member, "ENDED_AFTER_SECONDS", 3.0)


def share_is_lowered_after_it_is_written(patch: pytest.MonkeyPatch) -> None:
    plain = Member._next_record

    def next_record(self: Member, now: float) -> Any:
        share = self.share
        record = plain(self, now)
        self.share = share
        return record

    patch.setattr(Member, "_next_record", next_record)


def newcomer_waits_for_nothing(patch: pytest.MonkeyPatch) -> None:
    plain = Member._due_at

    def due_at(self: Member) -> float:
        return plain(self) if self.shares is not None else self._hello_read_at + 0.1

    patch.setattr(Member, "_due_at", due_at)


def books_are_emptied_by_every_newcomer(patch: pytest.MonkeyPatch) -> None:
    def judge(self: Member, position: int, record: Any) -> None:
        self.shares = Shares()
        self._heard.clear()

    def next_record(self: Member, now: float) -> Any:
        if self.shares is None and self._hello is not None:
            self._newest_renewal = -1
        return plain(self, now)

    plain = Member._next_record
    patch.setattr(Member, "_judge", judge)
    patch.setattr(Member, "_next_record", next_record)


def newer_records_do_not_keep_a_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shares, "expired", lambda self, member, last: self.left(member))


def lost_records_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    plain_read, plain_opened = Member.read, Member.opened

    def read(self: Member, position: int, body: bytes, now: float) -> None:
        if self._read is not None:
            self._read = position - 1
        plain_read(self, position, body, now)

    def opened(self: Member, now: float) -> None:
        if self.shares is None:
            plain_opened(self, now)
            return
        self._open, self._awaited = True, False  # as if nothing had been written meanwhile
        self.wake(now)

    patch.setattr(Member, "read", read)
    patch.setattr(Member, "opened", opened)


def gate_stays_open_after_the_lease(patch: pytest.MonkeyPatch) -> None:
    plain = Gate.__dict__["opens_at"].fget

    def opens_at(self: Gate) -> float:
        until, self.until = self.until, math.inf
        opens = float(plain(self))
        self.until = until
        return opens

    def is_open(self: Gate, now: float) -> bool:
        return now >= self.opens_at

    patch.setattr(Gate, "opens_at", property(opens_at))
    patch.setattr(Gate, "is_open", is_open)


def every_lease_begins_with_a_full_bucket(patch: pytest.MonkeyPatch) -> None:
    plain = Bucket.follow

    def follow(self: Bucket, rate: float, burst: float, now: float, *, empty: bool = False) -> None:
        plain(self, rate, burst, now)
        if empty:
            self._go_on(rate, burst, 0 * self._missing(now), now)

    patch.setattr(Bucket, "follow", follow)


def more_is_given_than_is_free(patch: pytest.MonkeyPatch) -> None:
    def renewed(
        self: Shares, position: int, member: str, goal: float, keep: float, need: float
    ) -> None:
        self.members[member] = Holding(keep, need, goal, position)
        self.members[member] = Holding(self.target(member), need, goal, position)

    patch.setattr(Shares, "renewed", renewed)


def newcomers_leave_out_what_happened_since(patch: pytest.MonkeyPatch) -> None:
    def learn(self: Member, record: Any, now: float) -> None:
        if isinstance(record, Renewal) and record.shares is not None:
            self.shares = Shares.from_json(record.shares)
            self._heard = dict.fromkeys(self.shares.members, now)

    patch.setattr(Member, "_learn", learn)


def a_share_is_kept_although_the_books_have_none(patch: pytest.MonkeyPatch) -> None:
    plain = Shares.renewed

    def renewed(
        self: Shares, position: int, member: str, goal: float, keep: float, need: float
    ) -> None:
        if member not in self.members:
            self.members[member] = Holding(keep, need, goal, position)
        plain(self, position, member, goal, keep, need)

    def next_record(self: Member, now: float) -> Any:
        record = plain_next(self, now)
        if isinstance(record, Renewal) and record.keep == 0:
            return replace(record, keep=self.goal)
        return record

    plain_next = Member._next_record
    patch.setattr(Shares, "renewed", renewed)
    patch.setattr(Member, "_next_record", next_record)


def nobody_takes_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shares, "expired", lambda self, member, last: None)


def nobody_tells_the_books(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shares, "as_json", lambda self: None)


DEFECTS: tuple[Defect, ...] = (
    lease_counts_from_its_receipt,
    others_wait_for_less_than_a_lease,
    share_is_lowered_after_it_is_written,
    newcomer_waits_for_nothing,
    books_are_emptied_by_every_newcomer,
    newer_records_do_not_keep_a_lease,
    lost_records_are_not_noticed,
    gate_stays_open_after_the_lease,
    every_lease_begins_with_a_full_bucket,
    more_is_given_than_is_free,
    newcomers_leave_out_what_happened_since,
    a_share_is_kept_although_the_books_have_none,
    nobody_takes_over,
    nobody_tells_the_books,
)
