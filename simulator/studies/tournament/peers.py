"""Laws of other projects, each written from its formula, to be compared with ours.

Symbols: ``u`` is the prefetch in force, ``y`` the rate, ``e = goal - y``. The laws of
gfads/adaptive-moms and Netflix/concurrency-limits decide whole prefetches within limits. Each
function returns a fresh controller; its keyword is what light tuning may change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from controlmq.controllers.limits import Limits
from controlmq.loop import Controller, Sample

MOMS = Limits(1.0, 100.0)
"""The limits of gfads/adaptive-moms."""

LIMITER = Limits(1.0, 1000.0)
"""Limits of the concurrency limiters."""

RECEIVER = Limits(0.1, 1000.0)
"""Limits of Spark's law, which knows of rates only: those of ours."""

Law = Callable[[Sample, float], float]


def whole(law: Law, limits: Limits = MOMS) -> Controller:
    """``law`` with its decisions rounded to whole prefetches within limits."""
    return lambda sample, goal: limits.clamp(float(round(law(sample, goal))))


# gfads/adaptive-moms and selfadaptive: hold a rate


def on_off() -> Controller:
    """All or nothing: the most while the rate is below the goal, else the least."""
    return whole(lambda sample, goal: MOMS.high if goal >= sample.rate else MOMS.low)


def on_off_dead_zone(band: float = 100.0) -> Controller:
    """On-off that holds while ``|e|`` is within a band."""

    def law(sample: Sample, goal: float) -> float:
        error = goal - sample.rate
        if abs(error) <= band:
            return sample.prefetch
        return MOMS.high if error > 0 else MOMS.low

    return whole(law)


def on_off_hysteresis(band: float = 100.0) -> Controller:
    """On-off that changes sides only where the error has left a band on the other one."""
    side = MOMS.high

    def law(sample: Sample, goal: float) -> float:
        nonlocal side
        error = goal - sample.rate
        if abs(error) > band:
            side = MOMS.high if error > 0 else MOMS.low
        return side

    return whole(law)


def pid(
    gain: float = 1.0,
    *,
    kp: float = -0.0016,
    ki: float = 0.006,
    kd: float = 0.0,
    shape: Callable[[float], float] = lambda error: error,
    weight: float = 1.0,
    smooth: float = 0.0,
    dead: float = 0.0,
) -> Controller:
    """Positional PID with a clamped output and a sum that nothing bounds.

    ``shape`` is applied to the error, ``weight`` to the goal in the proportional part, ``smooth``
    to the derivative; errors within ``dead`` leave the prefetch as it is.
    """
    total = last = derivative = 0.0

    def law(sample: Sample, goal: float) -> float:
        nonlocal total, last, derivative
        error = shape(goal - sample.rate)
        if abs(goal - sample.rate) <= dead:
            return sample.prefetch
        total += error * sample.interval
        derivative = smooth * derivative + (1 - smooth) * (error - last) / sample.interval
        last = error
        weighted = shape(weight * goal - sample.rate)
        return gain * (kp * weighted + ki * total + kd * derivative)

    return whole(law)


def error_squared_full(gain: float = 1.0) -> Controller:
    """``|e|`` times all three parts."""
    return pid(gain, shape=lambda error: error * abs(error) / 100.0)


def error_squared_proportional(gain: float = 1.0) -> Controller:
    """``|e|`` times the proportional part alone."""
    total = 0.0

    def law(sample: Sample, goal: float) -> float:
        nonlocal total
        error = goal - sample.rate
        total += error * sample.interval
        return gain * (-0.0016 * error * abs(error) / 100.0 + 0.006 * total)

    return whole(law)


def incremental(gain: float = 1.0, kp: float = -0.0016, ki: float = 0.006) -> Controller:
    """``out <- out + Kp de + Ki e``, where ``e`` is 0 before the first sample.

    The prefetch is ``out`` rounded; ``out`` keeps its fraction, so small steps add up.
    """
    return _incremental(lambda error, goal: gain, kp, ki)


def gain_scheduled(
    gain: float = 1.0, share: float = 0.25, kp: float = -0.0016, ki: float = 0.006
) -> Controller:
    """The incremental law, with twice the gains while the error is above a share of the goal."""
    return _incremental(lambda error, goal: 2 * gain if error > share * goal else gain, kp, ki)


def _incremental(gain_at: Callable[[float, float], float], kp: float, ki: float) -> Controller:
    """``gain_at`` returns the gain for an error and a goal."""
    out: float | None = None
    last = 0.0

    def law(sample: Sample, goal: float) -> float:
        nonlocal out, last
        error = goal - sample.rate
        change = gain_at(error, goal) * (kp * (error - last) + ki * error)
        out = MOMS.clamp((sample.prefetch if out is None else out) + change)
        last = error
        return out

    return whole(law)


def hpa(tolerance: float = 0.0) -> Controller:
    """Kubernetes' rule: ``round(u goal / y)``, unless the ratio is within a tolerance of 1."""

    def law(sample: Sample, goal: float) -> float:
        if not sample.arrivals:
            return sample.prefetch
        ratio = goal / sample.rate
        return sample.prefetch if abs(ratio - 1) <= tolerance else sample.prefetch * ratio

    return whole(law)


def astar(band: float = 0.1) -> Controller:
    """AsTAR: below the band +1, or double where it is far; above it -1, or half."""

    def law(sample: Sample, goal: float) -> float:
        if sample.rate < (1 - band) * goal:
            return sample.prefetch * 2 if sample.rate < goal / 2 else sample.prefetch + 1
        if sample.rate > (1 + band) * goal:
            return sample.prefetch / 2 if sample.rate > 2 * goal else sample.prefetch - 1
        return sample.prefetch

    return whole(law)


FUZZY_CENTRES = ((0.0, 0.0), (500.0, 1.0), (1500.0, 2.0), (3000.0, 3.0))
"""Errors in messages/second, and the change of the prefetch at each."""


def fuzzy(scale: float = 1.0) -> Controller:
    """Triangular sets about the centres, which amounts to interpolating between them."""

    def law(sample: Sample, goal: float) -> float:
        error = goal - sample.rate
        size = min(abs(error) * scale, FUZZY_CENTRES[-1][0])
        for (low, a), (high, b) in pairwise(FUZZY_CENTRES):
            if size <= high:
                step = a + (b - a) * (size - low) / (high - low)
                return sample.prefetch + math.copysign(step, error)
        return sample.prefetch

    return whole(law)


class PIDRateEstimator:
    """Spark Streaming's estimate of the rate that its executors can process, with its defaults.

    A batch was processed at the rate ``P`` and had waited for ``B`` seconds before::

        error = rate - P
        rate <- max(rate - proportional error - integral B P / interval
                    - derivative (error - last error) / (time since), least)

    The first batch only starts it, at its ``P``.
    """

    def __init__(
        self, proportional: float, integral: float, derivative: float, least: float
    ) -> None:
        self.proportional, self.integral = proportional, integral
        self.derivative, self.least = derivative, least
        self._rate: float | None = None
        self._error = self._time = 0.0

    def __call__(
        self, time: float, processed: float, waited: float, interval: float
    ) -> float | None:
        """The rate for the next batch, messages/second; None after the first one."""
        since, self._time = time - self._time, time
        if self._rate is None:
            self._rate = processed
            return None
        error = self._rate - processed
        change = self.proportional * error + self.integral * waited * processed / interval
        change += self.derivative * (error - self._error) / since
        self._rate, self._error = max(self._rate - change, self.least), error
        return self._rate


def spark_rate(
    proportional: float = 1.0, integral: float = 0.2, derivative: float = 0.0, least: float = 100.0
) -> Controller:
    """Spark's :class:`PIDRateEstimator`, with the goal as the most that may be received.

    A sample is a batch: the time for which handlers were busy is what it took to process, so
    ``P = y / busy``, and the time in the buffer is what it waited. The goal is Spark's
    ``spark.streaming.receiver.maxRate``, so messages are to come at ``min(estimate, goal)``, and
    the prefetch becomes ``u min(estimate, goal) / y``, which need not be whole. While handlers can
    do the goal, the estimate is above it and has no say; where they cannot, it takes back the
    prefetch that only makes messages wait.
    """
    estimator = PIDRateEstimator(proportional, integral, derivative, least)

    def law(sample: Sample, goal: float) -> float:
        if not sample.arrivals or not sample.busy:
            return sample.prefetch
        processed = sample.rate / sample.busy
        estimate = estimator(sample.time, processed, sample.buffer_time, sample.interval)
        wanted = goal if estimate is None else min(estimate, goal)
        return RECEIVER.clamp(sample.prefetch * wanted / sample.rate)

    return law


# Concurrency limiters: the least that loses no throughput. W is the time of a message here, the
# round trip of a request there.


def _time(sample: Sample) -> float:
    return sample.turnaround + sample.buffer_time + sample.handler_time


def aimd(timeout: float = 1.0) -> Controller:
    """Netflix: one more, or nine tenths where a message took longer than the timeout."""

    def law(sample: Sample, goal: float) -> float:
        return sample.prefetch * 0.9 if _time(sample) > timeout else sample.prefetch + 1

    return whole(law, LIMITER)


VEGAS_PROBE_SAMPLES = 30
ENVOY_PROBE_SAMPLES, ENVOY_PROBE_PREFETCH = 60, 3.0
"""How often the shortest time is measured again, and with how many at once."""


def vegas(alpha: float = 3.0) -> Controller:
    """Netflix: a queue of ``u (1 - W0/W)`` between ``alpha log u`` and twice that.

    From time to time ``W0`` is forgotten, and what is measured then takes its place.
    """
    shortest, age = math.inf, 0

    def law(sample: Sample, goal: float) -> float:
        nonlocal shortest, age
        time = _time(sample)
        if not sample.arrivals:
            return sample.prefetch
        age += 1
        if age > VEGAS_PROBE_SAMPLES:
            shortest, age = math.inf, 0
        shortest = min(shortest, time)
        size = math.log10(max(sample.prefetch, 10.0))
        queue = sample.prefetch * (1 - shortest / time)
        if queue < alpha * size:
            return sample.prefetch + size
        return sample.prefetch - size if queue > 2 * alpha * size else sample.prefetch

    return whole(law, LIMITER)


def gradient2(tolerance: float = 1.5) -> Controller:
    """Netflix: ``0.8 u + 0.2 (u clip(1.5 Wlong/W, 0.5, 1) + 4)``."""
    long: float | None = None

    def law(sample: Sample, goal: float) -> float:
        nonlocal long
        time = _time(sample)
        if not sample.arrivals:
            return sample.prefetch
        long = time if long is None else long + (time - long) / 300
        if long > 2 * time:
            long *= 0.95
        gradient = min(max(tolerance * long / time, 0.5), 1.0)
        return 0.8 * sample.prefetch + 0.2 * (sample.prefetch * gradient + 4)

    return whole(law, LIMITER)


def envoy(headroom: float = 1.25) -> Controller:
    """Envoy: ``g u + sqrt(g u)`` with ``g = clip(1.25 Wmin/W, 0.5, 2)``.

    Every 60 samples ``Wmin`` is measured again, with three messages at once for one sample.
    """
    shortest, age, before = math.inf, 0, 0.0

    def law(sample: Sample, goal: float) -> float:
        nonlocal shortest, age, before
        if not sample.arrivals:
            return sample.prefetch
        age += 1
        if before:
            shortest, resumed, before = _time(sample), before, 0.0
            return resumed
        if age % ENVOY_PROBE_SAMPLES == 0:
            before = sample.prefetch
            return ENVOY_PROBE_PREFETCH
        shortest = min(shortest, _time(sample))
        gradient = min(max(headroom * shortest / _time(sample), 0.5), 2.0)
        return gradient * sample.prefetch + math.sqrt(gradient * sample.prefetch)

    return whole(law, LIMITER)


def fixed(prefetch: float = 10.0) -> Controller:
    """What most users do."""
    return lambda sample, goal: prefetch


# A time in the buffer: the goal is in seconds here


def codel(interval_samples: float = 1.0) -> Controller:
    """CoDel on the time in the buffer: ever larger cuts while it is too long, else one more."""
    drops = 0

    def law(sample: Sample, goal: float) -> float:
        nonlocal drops
        if sample.buffer_time <= goal:
            drops = 0
            return sample.prefetch + 1
        drops += 1
        return sample.prefetch - math.sqrt(drops) / interval_samples

    return whole(law, LIMITER)


def hpa_on_time(tolerance: float = 0.1) -> Controller:
    """Kubernetes' rule on the time in the buffer: ``u goal / B``."""

    def law(sample: Sample, goal: float) -> float:
        ratio = goal / sample.buffer_time if sample.buffer_time > 0 else 2.0
        if abs(ratio - 1) <= tolerance:
            return sample.prefetch
        return sample.prefetch * min(max(ratio, 0.5), 2.0)

    return whole(law, LIMITER)
