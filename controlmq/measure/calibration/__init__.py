"""Calibration: what a broker and a client cost, measured from the client over AMQP alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controlmq.clients.interrupts import held_interrupts
from controlmq.measure.calibration.experiments import LOADED_SHARE, STEPS, Experiments
from controlmq.measure.calibration.figures import Calibration, Curve, Line
from controlmq.measure.calibration.queues import temporary_queues
from controlmq.measure.calibration.stamping_publisher import clock, publishing_process

__all__ = [
    "CALIBRATION_SECONDS",
    "LOADED_SHARE",
    "Calibration",
    "Curve",
    "Line",
    "calibrate",
    "calibrating",
]

CALIBRATION_SECONDS = 90.0
"""How long a calibration takes by default."""

TURN_SECONDS, FEWEST_TURNS = 9.0, 3
"""Seconds of a turn of all experiments, about, and how many turns there are at least."""

SHORTEST_TURN_FACTOR, LONGEST_TURN_FACTOR = 0.05, 2.0
"""How much the experiments of a turn are shortened and stretched, at most."""


@contextmanager
def calibrating(url: str) -> Iterator[Experiments]:
    """The experiments on the broker at ``url``, for a caller who decides when to do each turn.

    They use temporary queues, which are deleted afterwards in any case.
    """
    with (
        held_interrupts() as check,
        temporary_queues(url) as queues,
        publishing_process(url) as publisher,
    ):
        yield Experiments(queues, publisher, check)


def calibrate(
    url: str,
    seconds: float = CALIBRATION_SECONDS,
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> Calibration:
    """Measure the broker at ``url``; ``progress`` gets what was measured and the share done."""
    turns = max(round(seconds / TURN_SECONDS), FEWEST_TURNS)
    start = clock()
    with calibrating(url) as experiments:
        experiments.scale = _within(seconds / turns / TURN_SECONDS)
        for turn in range(turns):
            began = clock()
            for number, what in enumerate(experiments.turn(), start=1):
                progress(what, (turn + number / len(STEPS)) / turns)
            now = clock()
            if turn < turns - 1:
                # What is left, spread over the turns that are left.
                wanted = (seconds - (now - start)) / (turns - turn - 1)
                experiments.scale = _within(experiments.scale * wanted / (now - began))
        return experiments.found()


def _within(scale: float) -> float:
    return min(max(scale, SHORTEST_TURN_FACTOR), LONGEST_TURN_FACTOR)
