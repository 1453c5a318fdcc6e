"""What a calibration found, in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """``y = base + slope * x``, and the points it was put through."""

    base: float
    slope: float
    points: Sequence[tuple[float, float]] = ()

    @staticmethod
    def through(points: Iterable[tuple[float, float]]) -> Line:
        """The line with the smallest sum of squared relative errors; neither part below 0.

        Times are measured to a share of themselves, so relative errors are what is alike.
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
class Calibration:
    """A broker, a client and the way between them, as measured from the client.

    ``call`` is the round trip of a call that the broker answers at once. ``publish`` and
    ``deliver`` are seconds a message against its bytes when one connection does nothing else,
    ``publish_cpu`` and ``deliver_cpu`` the client's share of that; an acknowledgement of each
    delivery adds ``acknowledge``.

    ``busy`` is what a consumer that always has a message waiting takes for one, against its
    work; ``cycle`` is the same with prefetch 1, when it waits for each.

    ``latency`` is the median from publisher to handler against the number of queues that get a
    copy, over all copies. ``confirm`` and ``persistent_confirm`` are the times to a publisher
    confirm, against bytes.
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
    confirm: Line
    persistent_confirm: Line
