"""Random values: each source has its own stream and uses one number of it per draw.

So a source that draws more or less often, or is added or removed, does not change the numbers of
any other source, and two runs that differ in one setting stay comparable.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.engine.compiled import called, compiled
from simulator.scenario.distributions import DISTRIBUTIONS, Duration, Size

if TYPE_CHECKING:
    from simulator.engine.simulation_state import SimulationState

DETERMINISTIC, EXPONENTIAL, NORMAL, LOGNORMAL, REPLAY = range(len(DISTRIBUTIONS))

SOURCE = np.dtype(
    [
        ("state", np.uint64),  # of its random stream
        ("kind", np.int32),
        ("location", np.float64),  # the mean; for lognormal that of the logarithm
        ("spread", np.float64),  # the sd; for lognormal that of the logarithm
        ("scale", np.float64),  # factor of every draw
        ("first", np.int32),  # index of its first replayed value
        ("values", np.int32),  # number of replayed values
        ("position", np.int32),  # of the next one among them
    ],
    align=True,
)


def source(
    value: Duration | Size, seed: int, owner: str, first: int = 0
) -> tuple[int, int, float, float, float, int, int, int]:
    """One row of sources: a distribution, and a stream derived from the seed and its owner.

    ``first`` is the index of its first value among all replayed values.
    """
    digest = hashlib.blake2b(f"{seed}/{owner}".encode(), digest_size=8).digest()
    state, location, spread = int.from_bytes(digest, "big"), value.mean, value.sd or 0.0
    if value.distribution == "lognormal":
        variance = math.log1p((spread / location) ** 2)
        location, spread = math.log(location) - variance / 2, math.sqrt(variance)
    count = len(value.values or ())
    return state, DISTRIBUTIONS.index(value.distribution), location, spread, 1.0, first, count, 0


@compiled
def uniform(source: Any) -> float:
    """The next number of the stream, strictly between 0 and 1.

    SplitMix64 (Steele, Lea and Flood 2014): one word of state, and any seed is a good one.
    """
    source.state += np.uint64(0x9E3779B97F4A7C15)
    z = source.state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(12)) + 0.5) * 2.0**-52


@compiled
def draw(state: SimulationState, index: int) -> float:
    """The next value of a source, 0 or more."""
    source = state.sources[index]
    if source.kind == DETERMINISTIC:
        return source.location * source.scale  # type: ignore[no-any-return]
    if source.kind == EXPONENTIAL:
        return -math.log(uniform(source)) * source.location * source.scale  # type: ignore[no-any-return]
    if source.kind == REPLAY:
        value = state.replayed[source.first + source.position]
        source.position = (source.position + 1) % source.values
        return value * source.scale  # type: ignore[no-any-return]
    return draw_normal(source) * source.scale  # type: ignore[no-any-return]


@compiled
def draw_if_any(state: SimulationState, index: int) -> float:
    """The next value of a source, or 0 without one."""
    return draw(state, index) if index >= 0 else 0.0


@called
def draw_normal(source: Any) -> float:
    """The next value of a normal or lognormal source, before it is scaled."""
    value = source.location + source.spread * standard_normal(uniform(source))
    if source.kind == LOGNORMAL:
        return math.exp(value)
    return max(value, 0.0)  # type: ignore[no-any-return]


# Wichura 1988, algorithm AS 241 (PPND16): the coefficients of the numerator and the denominator
# of three rational functions, highest power first: for the middle, the tails and the far tails.
# fmt: off
NORMAL_MIDDLE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)
NORMAL_TAIL = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0),
)
NORMAL_FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.2426609473880784386e-3,
     0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
     0.59983220655588793769, 1.0),
)
# fmt: on


@compiled
def standard_normal(p: float) -> float:
    """The standard normal value below which a share ``p`` of all values lies.

    AS 241, exact to about 1 part in 10**16.
    """
    q = p - 0.5
    if abs(q) <= 0.425:
        return q * _ratio(0.180625 - q * q, NORMAL_MIDDLE)
    r = math.sqrt(-math.log(min(p, 1.0 - p)))
    tail = _ratio(r - 1.6, NORMAL_TAIL) if r <= 5.0 else _ratio(r - 5.0, NORMAL_FAR_TAIL)
    return math.copysign(tail, q)


@compiled
def _ratio(x: float, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> float:
    top, bottom = 0.0, 0.0
    for power in range(8):
        top = top * x + coefficients[0][power]
        bottom = bottom * x + coefficients[1][power]
    return top / bottom
