"""Lets messages wait in the client for about as long as the user wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controlmq.controllers.growth import Growth
from controlmq.controllers.limits import Limits
from controlmq.sample import Sample

BUFFER_TIME_STEP_EXPONENT = 0.7
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

LEAST_MESSAGES = 8
"""Arrivals that a decision takes. Of fewer, one more or less changes the rate too much, and a
window that grows would take its own filling for a higher rate."""

SMOOTHING_MESSAGES = 50.0
"""Arrivals over which that time is smoothed: a sample with as many counts one half."""


class BufferTime:
    """``u <- u [f (O + h + goal) / u]^0.7`` with ``f = y / busy``: a time in the buffer.

    ``f`` is the rate of handlers that are never idle, or that of a bucket (``rate``,
    messages/second) where that is lower and keeps them idle; ``h`` is the handler time and
    ``O = u / f - h - B``, with the time in the buffer ``B``, is the time that a slot spends
    elsewhere: on the wire, in the broker, held back. So the law knows at once what a change of the
    work asks for, and what is left of the error goes by feedback through ``O``, which is measured
    only while prefetch and work stand nearly still. Where messages are few, several samples count
    as one.
    """

    kind = "buffer time"

    def __init__(self, limits: Limits, buffer_time: float, rate: float | None = None) -> None:
        self.limits = limits
        self.buffer_time = buffer_time
        self.rate = rate
        self._elsewhere: float | None = None
        self._before = (0.0, 0.0)
        """Prefetch and flow of the last sample."""
        self._growth = Growth()
        self._samples: list[Sample] = []
        """Those since the last decision."""

    def __call__(self, sample: Sample, goal: float) -> float:
        """The prefetch for the next interval; ``goal``, a rate, does not matter here."""
        # A prefetch of 0 was put in force by hand; what arrives with it came before.
        if not sample.window_limited or sample.busy <= 0 or not sample.prefetch:
            self._samples.clear()
            return self.limits.clamp(sample.prefetch)
        if self._samples and self._samples[-1].prefetch != sample.prefetch:
            self._samples.clear()  # what came with another prefetch tells nothing of this one
        self._samples.append(sample)
        if sum(each.arrivals for each in self._samples) < LEAST_MESSAGES:
            return self.limits.clamp(sample.prefetch)
        sample, self._samples = _together(self._samples), []
        flow = sample.rate / sample.busy
        if self.rate is not None:
            flow = min(flow, self.rate)
        self._measure(sample, flow)
        assert self._elsewhere is not None
        wanted = flow * (self._elsewhere + sample.handler_time + self.buffer_time)
        asked = sample.prefetch * (wanted / sample.prefetch) ** BUFFER_TIME_STEP_EXPONENT
        if sample.buffer_time < ANSWERING_SHARE * self.buffer_time:
            asked = self._growth.allowed(sample, asked)
        else:
            self._growth = Growth()
        return self.limits.clamp(asked)

    def _measure(self, sample: Sample, flow: float) -> None:
        """Measure how long a slot is neither in the buffer nor with a handler."""
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


def _together(samples: Sequence[Sample]) -> Sample:
    """Several samples as one; its handler time is what handlers were busy for, per message."""
    if len(samples) == 1:
        return samples[0]
    seconds = sum(each.interval for each in samples)
    arrivals = sum(each.arrivals for each in samples)
    busy = sum(each.busy * each.interval for each in samples) / seconds
    return replace(
        samples[-1],
        interval=seconds,
        arrivals=arrivals,
        busy=busy,
        handler_time=busy * samples[-1].handlers * seconds / arrivals,
        buffer_time=sum(each.buffer_time * each.arrivals for each in samples) / arrivals,
    )
