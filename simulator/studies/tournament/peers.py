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
from controlmq.published import PI_GAINS

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


KP, KI = PI_GAINS.kp, PI_GAINS.ki
"""The published gains, for a consumer that does some 80 messages/second more per message of
prefetch."""

SQUARED_UNIT = 100.0
"""Messages/second in which the size of a squared error counts. With plain messages/second the
published gains would ask for the most or the least prefetch at almost any error."""


def pid(
    gain: float = 1.0,
    *,
    kd: float = 0.0,
    weight: float = 1.0,
    smooth: float = 0.0,
    dead: float = 0.0,
) -> Controller:
    """Positional PID with a clamped output and a sum that nothing bounds.

    ``weight`` is applied to the goal in the proportional part, ``smooth`` to the derivative. While
    the error is within ``dead``, the output stays and the sum goes on.
    """
    total = last = derivative = 0.0
    out: float | None = None

    def law(sample: Sample, goal: float) -> float:
        nonlocal total, last, derivative, out
        error = goal - sample.rate
        total += error * sample.interval
        derivative = smooth * derivative + (1 - smooth) * (error - last) / sample.interval
        last = error
        if abs(error) > dead:
            proportional = KP * (weight * goal - sample.rate)
            out = gain * (proportional + KI * total + kd * derivative)
        return sample.prefetch if out is None else out

    return whole(law)


def error_squared_full(gain: float = 1.0) -> Controller:
    """``|e| (Kp e + Ki sum e)``."""
    return _error_squared(lambda size, p, i: gain * size * (p + i))


def error_squared_proportional(gain: float = 1.0) -> Controller:
    """``|e| Kp e + Ki sum e``."""
    return _error_squared(lambda size, p, i: gain * (size * p + i))


def _error_squared(combined: Callable[[float, float, float], float]) -> Controller:
    """``combined`` has the size of the error, the proportional and the integral part."""
    total = 0.0

    def law(sample: Sample, goal: float) -> float:
        nonlocal total
        error = goal - sample.rate
        total += error * sample.interval
        return combined(abs(error) / SQUARED_UNIT, KP * error, KI * total)

    return whole(law)


def incremental(gain: float = 1.0) -> Controller:
    """``out <- out + Kp de + Ki e``, where ``e`` is 0 before the first sample.

    The prefetch is ``out`` rounded; ``out`` keeps its fraction, so small steps add up.
    """
    return _incremental(lambda error, goal: gain)


def gain_scheduled(gain: float = 1.0, share: float = 0.25) -> Controller:
    """The incremental law, with twice the gains while the error is above a share of the goal."""
    return _incremental(lambda error, goal: 2 * gain if error > share * goal else gain)


def _incremental(gain_at: Callable[[float, float], float]) -> Controller:
    """``gain_at`` returns the gain for an error and a goal."""
    out: float | None = None
    last = 0.0

    def law(sample: Sample, goal: float) -> float:
        nonlocal out, last
        error = goal - sample.rate
        change = gain_at(error, goal) * (KP * (error - last) + KI * error)
        out = MOMS.clamp((sample.prefetch if out is None else out) + change)
        last = error
        return out

    return whole(law)


def hpa(tolerance: float = 0.0, most: float = MOMS.high) -> Controller:
    """Kubernetes' rule: ``round(u goal / y)``, unless the ratio is within a tolerance of 1.

    The prefetch goes up to ``most``.
    """

    def law(sample: Sample, goal: float) -> float:
        if not sample.arrivals:
            return sample.prefetch
        ratio = goal / sample.rate
        return sample.prefetch if abs(ratio - 1) <= tolerance else sample.prefetch * ratio

    return whole(law, Limits(MOMS.low, most))


def astar(band: float = 0.1) -> Controller:
    """AsTAR: below a band about the goal twice as much, or one more where the rate already rises.

    Above it half as much, or one less where the rate already falls.
    """
    out: float | None = None
    before = 0.0

    def law(sample: Sample, goal: float) -> float:
        nonlocal out, before
        out = sample.prefetch if out is None else out
        if sample.rate < (1 - band) * goal:
            out = out + 1 if sample.rate > before else out * 2
        elif sample.rate > (1 + band) * goal:
            out = out - 1 if sample.rate < before else out / 2
        out, before = MOMS.clamp(out), sample.rate
        return out

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
    """Spark Streaming's estimate of the rate that its executors can process.

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


def _half_used(sample: Sample) -> bool:
    """Whether at least half of the prefetch is in use, by Little's law; else these limits stay."""
    return 2 * sample.rate * _time(sample) >= sample.prefetch


def aimd(timeout: float = 1.0) -> Controller:
    """Netflix: one more, or nine tenths where a message took longer than the timeout."""

    def law(sample: Sample, goal: float) -> float:
        if _time(sample) > timeout:
            return min(sample.prefetch - 1, math.floor(0.9 * sample.prefetch))
        return sample.prefetch + 1 if _half_used(sample) else sample.prefetch

    return whole(law, LIMITER)


VEGAS_PROBE_SAMPLES = 30
ENVOY_PROBE_SAMPLES, ENVOY_PROBE_PREFETCH = 60, 3.0
"""How often the shortest time is measured again, and with how many at once."""


def vegas(alpha: float = 3.0) -> Controller:
    """Netflix: the queue is ``q = ceil(u (1 - W0/W))``, and ``s = log10 u`` whole and at least 1.

    ``u`` grows by ``2 alpha s`` while ``q <= s``, by ``s`` while ``q < alpha s``, and shrinks by
    ``s`` while ``q > 2 alpha s``. A sample that sets ``W0`` changes nothing: one that was quicker,
    and one of every 30.
    """
    shortest, age = math.inf, 0

    def law(sample: Sample, goal: float) -> float:
        nonlocal shortest, age
        time = _time(sample)
        if not sample.arrivals:
            return sample.prefetch
        age += 1
        probes = age > VEGAS_PROBE_SAMPLES
        if probes or time < shortest:
            shortest = time
            age = 0 if probes else age
            return sample.prefetch
        if not _half_used(sample):
            return sample.prefetch
        size = max(1, int(math.log10(sample.prefetch)))
        queue = math.ceil(sample.prefetch * (1 - shortest / time))
        if queue <= size:
            return sample.prefetch + 2 * alpha * size
        if queue < alpha * size:
            return sample.prefetch + size
        return sample.prefetch - size if queue > 2 * alpha * size else sample.prefetch

    return whole(law, LIMITER)


GRADIENT2_WARM_UP, GRADIENT2_FORGETTING = 10, 2 / 601
"""Samples whose mean the long time starts as, and the share that a later one has in it."""


def gradient2(tolerance: float = 1.5) -> Controller:
    """Netflix: ``out <- 0.8 out + 0.2 (out clip(1.5 Wlong/W, 0.5, 1) + 4)``.

    The prefetch is ``out`` rounded; ``out`` keeps its fraction.
    """
    out: float | None = None
    long, total, seen = 0.0, 0.0, 0

    def law(sample: Sample, goal: float) -> float:
        nonlocal out, long, total, seen
        time = _time(sample)
        out = sample.prefetch if out is None else out
        if not sample.arrivals:
            return out
        if seen < GRADIENT2_WARM_UP:
            seen, total = seen + 1, total + time
            long = total / seen
        else:
            long += GRADIENT2_FORGETTING * (time - long)
        if long > 2 * time:
            long *= 0.95
        if not _half_used(sample):
            return out
        gradient = min(max(tolerance * long / time, 0.5), 1.0)
        out = LIMITER.clamp(0.8 * out + 0.2 * (out * gradient + 4))
        return out

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
