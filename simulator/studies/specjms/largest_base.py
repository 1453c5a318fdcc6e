"""Searches for the largest BASE at which a run passes the audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from controlmq.checks import above_zero
from controlmq.errors import InputError
from simulator.studies.specjms.audit import audit
from simulator.studies.specjms.phased_run import Run


@dataclass(frozen=True)
class Trial:
    """A run at a BASE, and the rules it fails."""

    base: int
    failed: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether it fails no rule."""
        return not self.failed


def largest_base(
    run_at: Callable[[int], Run], start: int = 1, precision: float = 0.02
) -> Iterator[Trial]:
    """Trials until the largest passing BASE is known to a ``precision`` of its size.

    BASE doubles from ``start`` while runs pass; then the gap to the first failure is halved.
    """
    above_zero("precision", precision)
    low, high, base = 0, None, start
    while True:
        failed = tuple(dict.fromkeys(each.rule for each in audit(run_at(base)) if not each.passed))
        yield Trial(base, failed)
        if failed:
            high = base
        else:
            low = base
        if high is None:
            base *= 2
            if base > 2**20:
                raise InputError("no run fails up to a BASE of a million; give the broker costs.")
            continue
        if high - low <= max(1, precision * high):
            return
        base = (low + high) // 2
