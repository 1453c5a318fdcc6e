"""Letting messages wait in the client for about as long as the user wants."""

from __future__ import annotations

from controlmq.controllers.growth import Growth
from controlmq.controllers.limits import Limits
from controlmq.loop import Sample

EXPONENT = 0.7
"""Share of the way to the prefetch computed, on a logarithmic scale, that a sample goes."""

SETTLED_FACTOR = 1.1
"""Factor by which the prefetch may have changed since the last sample for the time elsewhere to
be measured: while the window drains, or fills, it says nothing."""

SAME_WORK_FACTOR = 1.3
"""The same for the rate of busy handlers: after a change of the work the buffer holds messages
that came before it."""

ANSWERING_SHARE = 0.5
"""Share of the wanted time from which on messages wait: the prefetch has its effect then, and it
does not matter whether the rate follows."""

SMOOTHING_MESSAGES = 50.0
"""Arrivals over which that time is smoothed: a sample with as many counts one half."""


class BufferTime:
    """``u <- u [f (O + h + goal) / u]^0.7`` with ``f = y / busy``: a time in the buffer.

    ``f`` is the rate of handlers that are never idle, ``h`` the handler time and
    ``O = u / f - h - B``, with the time in the buffer ``B``, is the time that a slot spends
    elsewhere: on the wire, in the broker, held back. So the law knows at once what a change of the
    work asks for, and what is left of the error goes by feedback through ``O``, which is measured
    only while prefetch and work stand nearly still.
    """

    kind = "buffer time"

    def __init__(self, limits: Limits, buffer_time: float) -> None:
        self.limits = limits
        self.buffer_time = buffer_time
        self._elsewhere: float | None = None
        self._before = (0.0, 0.0)
        """Prefetch and flow of the last sample."""
        self._growth = Growth()

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval; ``goal``, a rate, does not matter here."""
        if not sample.window_limited or not sample.arrivals or sample.busy <= 0:
            return self.limits.clamp(sample.prefetch)
        flow = sample.rate / sample.busy
        self._measure(sample, flow)
        assert self._elsewhere is not None
        wanted = flow * (self._elsewhere + sample.handler_time + self.buffer_time)
        asked = sample.prefetch * (wanted / sample.prefetch) ** EXPONENT
        if sample.buffer_time < ANSWERING_SHARE * self.buffer_time:
            asked = self._growth.allowed(sample, asked)
        else:
            self._growth = Growth()
        return self.limits.clamp(asked)

    def _measure(self, sample: Sample, flow: float) -> None:
        """Take in the time that a slot spends elsewhere."""
        prefetch, flow_before = self._before
        self._before = sample.prefetch, flow
        if self._elsewhere is None:
            self._elsewhere = sample.turnaround
        elif _near(sample.prefetch, prefetch, SETTLED_FACTOR):
            if _near(flow, flow_before, SAME_WORK_FACTOR):
                within = sample.handler_time + sample.buffer_time
                elsewhere = max(sample.prefetch / flow - within, 0.0)
                weight = sample.arrivals / (sample.arrivals + SMOOTHING_MESSAGES)
                self._elsewhere += weight * (elsewhere - self._elsewhere)


def _near(value: float, other: float, factor: float) -> bool:
    return other < factor * value and value < factor * other
