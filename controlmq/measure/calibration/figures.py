"""What a calibration found, in seconds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log


@dataclass(frozen=True)
class Line:
    """``y = base + slope * x``, and the points it was put through."""

    base: float
    slope: float
    points: Sequence[tuple[float, float]] = ()

    @staticmethod
    def through(points: Iterable[tuple[float, float]]) -> Line:
        """The line with the smallest sum of squared relative errors; neither part below 0.

        The error of a measured time grows with the time, so relative errors are comparable.
        """
        points = tuple(points)
        weights = [1 / y**2 for _, y in points]
        total = sum(weights)
        mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
        mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
        square = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
        product = sum(
            w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True)
        )
        slope = max(product / square, 0.0) if square else 0.0
        base = mean_y - slope * mean_x
        if base < 0:
            slope = sum(w * x * y for w, (x, y) in zip(weights, points, strict=True)) / sum(
                w * x * x for w, (x, _) in zip(weights, points, strict=True)
            )
            return Line(0.0, slope, points)
        return Line(base, slope, points)

    def __call__(self, x: float) -> float:
        """The value at ``x``."""
        return self.base + self.slope * x


@dataclass(frozen=True)
class Curve:
    """Straight from point to point over the logarithm of ``x``, level beyond the outer ones."""

    points: Sequence[tuple[float, float]]

    def __call__(self, x: float) -> float:
        """The value at ``x``."""
        first, last = self.points[0], self.points[-1]
        for (low, at_low), (high, at_high) in pairwise(self.points):
            if low <= x <= high:
                return at_low + (at_high - at_low) * log(x / low) / log(high / low)
        return (first if x < first[0] else last)[1]


class Points:
    """Values measured at several places, over all turns."""

    def __init__(self) -> None:
        self._at: dict[float, list[float]] = {}

    def add(self, x: float, *values: float) -> None:
        """More values at a place."""
        self._at.setdefault(x, []).extend(values)

    def medians(self) -> list[tuple[float, float]]:
        """Each place, from the lowest on, and the median there."""
        return [(float(x), statistics.median(values)) for x, values in sorted(self._at.items())]

    def line(self) -> Line:
        """A line through the medians."""
        return Line.through(self.medians())

    def curve(self) -> Curve:
        """The medians, and what lies between them."""
        return Curve(self.medians())


@dataclass(frozen=True)
class Calibration:
    """A broker, a client and the network between them, as measured from the client.

    ``call`` is the round trip of a call that the broker answers at once. ``publish`` and
    ``deliver`` are seconds a message against its bytes when one connection does nothing else,
    ``publish_cpu`` and ``deliver_cpu`` the client's share of that; an acknowledgement of each
    delivery adds ``acknowledge``.

    ``busy`` is what a consumer that always has a message waiting takes for one, against its
    work; ``cycle`` is the same with prefetch 1, when it waits for each.

    ``latency`` is the median from publisher to handler against the number of queues that get a
    copy, over all copies, and ``latency_at`` that of a single copy against the messages/second:
    who has slept longer wakes up later. ``loaded_latency_at`` is the same with a consumer that
    works for a part of the time (``LOAD``), whose handler is less often asleep and more often
    in the middle of something. ``confirm`` and ``persistent_confirm`` are the times to a
    publisher confirm, against bytes.
    """

    call: float
    publish: Line
    publish_cpu: Line
    deliver: Line
    deliver_cpu: Line
    acknowledge: float
    busy: Line
    cycle: Line
    latency: Line
    latency_at: Curve
    loaded_latency_at: Curve
    confirm: Line
    persistent_confirm: Line
