"""Who takes part: our laws and those of others, for each of the four goals.

A rate, a ceiling and a time in the buffer are given with every phase of a plant; the least
prefetch has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from controlmq.controllers import OpenLoop, random_levels
from controlmq.controllers.controller_file import Tuning
from controlmq.controllers.limits import Limits
from controlmq.controllers.placement import place, poles_for, polynomial_of
from controlmq.controllers.resolve import build, default_tuning
from controlmq.controllers.scale import Scale
from controlmq.controllers.selector import Selector
from controlmq.goals import Goals
from controlmq.loop import Controller, Loop
from controlmq.model import ArxModel
from simulator.plant import SimulatedConsumer
from simulator.studies.tournament import peers
from simulator.studies.tournament.plants import TrialConsumer

LIMITS = Limits(0.1, 1000.0)

EXPERIMENT_SAMPLES = 120
"""Levels in the experiment that the model of a plant comes from."""

EXPERIMENT_SHARE_OF_KNEE = 0.9
"""Up to which the levels go."""


@dataclass(frozen=True)
class Entry:
    """A law in one table.

    ``make`` returns a fresh controller for a plant; keywords of ``make`` in ``variants`` are what
    light tuning chooses among, the default first.
    """

    name: str
    make: Callable[..., Controller]
    source: str
    variants: Sequence[Mapping[str, float]] = ({},)
    ours: bool = False
    sleeps: bool = False
    """Whether the handler sleeps so that each message takes its share of the ceiling."""


@cache
def model_of(plant: TrialConsumer) -> ArxModel:
    """A model of a plant in its first phase, by least squares on levels below the knee."""
    first = plant.phases[0]
    knee = first.handlers * (first.round_trip + first.work) / first.work
    levels = random_levels(
        min(0.5, knee / 4), max(EXPERIMENT_SHARE_OF_KNEE * knee, 1.0), EXPERIMENT_SAMPLES
    )
    consumer = SimulatedConsumer(plant.scenario(), seed=12345)
    rows: list[tuple[float, float, float]] = []
    loop = Loop(
        consumer, OpenLoop(levels), None, record=lambda row: rows.append((row.y, row.u, row.y_next))
    )
    for _ in loop.run(EXPERIMENT_SAMPLES + 1):
        pass
    return fitted(rows, plant.interval, (min(levels), max(knee, max(levels))))


def fitted(
    rows: Sequence[tuple[float, float, float]], interval: float, linear_range: tuple[float, float]
) -> ArxModel:
    """A model by least squares of rows ``(y, u, y_next)``."""
    y, u, y_next = np.array(rows).T
    # A consumer forgets within a sample, and a below 0 is noise.
    a, b, c = np.linalg.lstsq(np.column_stack([y, u, np.ones_like(u)]), y_next, rcond=None)[0]
    a = float(min(max(a, 0.0), 0.9))
    return ArxModel(a, float(max(b, 1e-6)), float(c), interval, linear_range)


def _published(kind: str) -> Callable[..., Controller]:
    """A law with its published poles, or with poles that settle in some samples: light tuning."""

    def make(plant: TrialConsumer, settling: float = 0.0) -> Controller:
        return build(tuned(kind, model_of(plant), settling), LIMITS)

    return make


def tuned(kind: str, model: ArxModel, settling: float = 0.0) -> Tuning:
    """A law with its published poles, or with poles that settle in so many samples."""
    if not settling:
        return default_tuning(kind, model)
    return Tuning(kind, place(kind, model, polynomial_of(poles_for(kind, settling, 0.0))), model)


PLACEMENTS: Sequence[Mapping[str, float]] = ({}, {"settling": 4.0}, {"settling": 2.0})
"""Samples to settle in without overshoot; with the published poles it takes eight or so."""


def _deadbeat(plant: TrialConsumer) -> Controller:
    model = model_of(plant)
    return build(Tuning("pi", place("pi", model, (1.0, 0.0, 0.0)), model), LIMITS)


def _peer(make: Callable[..., Controller]) -> Callable[..., Controller]:
    """A peer needs to know nothing of the plant."""
    return lambda plant, **chosen: make(**chosen)


def _moms(make: Callable[..., Controller]) -> Callable[..., Controller]:
    """A law whose gains were published for one consumer, scaled to another: light tuning."""
    return lambda plant, scale=0.0, **chosen: make(
        gain=80.0 / model_of(plant).gain if scale else 1.0, **chosen
    )


def _gains(scale: Sequence[float]) -> list[Mapping[str, float]]:
    return [{}, *({"scale": value} for value in scale)]


def least(plant: TrialConsumer) -> Controller:
    """Ours without a goal."""
    return Selector(Goals(), LIMITS)


def scale(plant: TrialConsumer) -> Controller:
    """Ours for a rate by the prefetch alone."""
    return Scale(LIMITS)


def paced(plant: TrialConsumer) -> Controller:
    """Ours for a rate: a bucket, and the least prefetch that it needs."""
    return Selector(Goals(goal=1.0), LIMITS)


def ceiling(plant: TrialConsumer) -> Controller:
    """Ours for a ceiling."""
    return Selector(Goals(at_most=1.0), LIMITS)


def waiting(plant: TrialConsumer) -> Controller:
    """Ours for a time in the buffer."""
    return Selector(Goals(buffer_time=1.0), LIMITS)


RATE = [
    Entry("goal", paced, "controlmq", ours=True),
    Entry("scale", scale, "controlmq", ours=True),
    Entry("pi, published poles", _published("pi"), "Rosa & Cavalcanti 2022", PLACEMENTS),
    Entry("pid, published poles", _published("pid"), "Rosa & Cavalcanti 2022", PLACEMENTS),
    Entry("pi, deadbeat", _deadbeat, "controlmq", ours=True),
    Entry("p", _published("p"), "Rosa & Cavalcanti 2022"),
    Entry("on-off", _peer(peers.on_off), "adaptive-moms"),
    Entry(
        "on-off, dead zone",
        _peer(peers.on_off_dead_zone),
        "adaptive-moms",
        [{}, {"band": 20.0}, {"band": 50.0}],
    ),
    Entry(
        "on-off, hysteresis",
        _peer(peers.on_off_hysteresis),
        "adaptive-moms",
        [{}, {"band": 20.0}, {"band": 50.0}],
    ),
    Entry("pid", _moms(peers.pid), "adaptive-moms", _gains([1.0])),
    Entry(
        "dead-zone pid",
        _moms(lambda dead=100.0, **chosen: peers.pid(dead=dead, **chosen)),
        "adaptive-moms",
        [{}, {"scale": 1.0}, {"scale": 1.0, "dead": 20.0}],
    ),
    Entry(
        "setpoint-weighted",
        _moms(lambda **chosen: peers.pid(weight=0.5, **chosen)),
        "adaptive-moms",
        _gains([1.0]),
    ),
    Entry(
        "smoothed derivative",
        _moms(lambda **chosen: peers.pid(kd=0.001, smooth=0.5, **chosen)),
        "adaptive-moms",
        _gains([1.0]),
    ),
    Entry("error squared, full", _moms(peers.error_squared_full), "adaptive-moms", _gains([1.0])),
    Entry(
        "error squared, proportional",
        _moms(peers.error_squared_proportional),
        "adaptive-moms",
        _gains([1.0]),
    ),
    Entry("incremental", _moms(peers.incremental), "adaptive-moms", _gains([1.0])),
    Entry(
        "gain scheduling",
        _moms(peers.gain_scheduled),
        "adaptive-moms",
        [{}, {"share": 0.1}, {"share": 0.5}, {"scale": 1.0}],
    ),
    Entry(
        "hpa",
        _peer(peers.hpa),
        "adaptive-moms",
        [{}, {"tolerance": 0.05}, {"tolerance": 0.1}, {"most": LIMITS.high}],
    ),
    Entry("astar", _peer(peers.astar), "adaptive-moms", [{}, {"band": 0.02}, {"band": 0.05}]),
    Entry("fuzzy", _peer(peers.fuzzy), "adaptive-moms", [{}, {"scale": 4.0}, {"scale": 16.0}]),
    Entry("spark", _peer(peers.spark_rate), "Spark", [{}, {"least": 1.0}, {"integral": 1.0}]),
]

LEAST = [
    Entry("least", least, "controlmq", ours=True),
    Entry("aimd", _peer(peers.aimd), "Netflix", [{}, {"timeout": 0.3}, {"timeout": 0.1}]),
    Entry("vegas", _peer(peers.vegas), "Netflix", [{}, {"alpha": 1.0}, {"alpha": 6.0}]),
    Entry(
        "gradient2", _peer(peers.gradient2), "Netflix", [{}, {"tolerance": 1.2}, {"tolerance": 2.0}]
    ),
    Entry("envoy", _peer(peers.envoy), "Envoy", [{}, {"headroom": 1.1}, {"headroom": 1.5}]),
    *(
        Entry(f"fixed {prefetch}", _peer(lambda prefetch=prefetch: peers.fixed(prefetch)), "users")
        for prefetch in (1, 10, 250)
    ),
]

BUFFER_TIME = [
    Entry("buffer time", waiting, "controlmq", ours=True),
    Entry("codel", _peer(peers.codel), "CoDel", [{}, {"interval_samples": 0.3}]),
    Entry("hpa", _peer(peers.hpa_on_time), "Kubernetes", [{}, {"tolerance": 0.02}]),
    *(
        Entry(f"fixed {prefetch}", _peer(lambda prefetch=prefetch: peers.fixed(prefetch)), "users")
        for prefetch in (1, 10, 250)
    ),
]

# A law that holds a rate bounds it too, as far as it can: the ceiling is its goal.
CEILING = [
    Entry("at most", ceiling, "controlmq", ours=True),
    *(entry for entry in RATE if entry.name != "goal"),
    Entry("sleep in the handler", _peer(lambda: peers.fixed(10.0)), "users", sleeps=True),
]

TABLES: dict[str, list[Entry]] = {
    "rate": RATE,
    "at_most": CEILING,
    "buffer_time": BUFFER_TIME,
    "least": LEAST,
}


def find(table: str, name: str) -> Entry:
    """An entry by its name."""
    return next(entry for entry in TABLES[table] if entry.name == name)
