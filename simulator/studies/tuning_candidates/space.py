"""The search space: the controllers that are candidates."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlmq.checks import MOST_PREFETCH
from controlmq.controllers.controller_file import KINDS, Tuning
from controlmq.controllers.placement import ORDER, is_stable, poles_for, polynomial_of
from controlmq.design import place
from controlmq.errors import InputError
from controlmq.model import ArxModel


@dataclass(frozen=True)
class Candidate:
    """A controller that might be chosen: a tuning, and the response its poles were placed for.

    The tuning's model has the sample interval.
    """

    number: int
    tuning: Tuning
    asked: str

    @property
    def interval(self) -> float:
        """Seconds from sample to sample."""
        return self.tuning.model.interval

    @property
    def upper(self) -> float | None:
        """The highest prefetch it may ask for; None if only what the rate follows ends it."""
        return self.tuning.upper

    @property
    def upper_in_words(self) -> str:
        """The same for a sentence."""
        return "no upper limit" if self.upper is None else f"prefetch up to {self.upper:.3g}"


@dataclass(frozen=True)
class Space:
    """Laws, placements and limits to search, for models by their interval.

    ``settling`` (samples) and ``overshoot`` (percent) place the poles, unless ``poles`` gives sets
    of poles, each for the laws with this number of poles. ``upper`` are limits of the prefetch;
    without any, laws may go on beyond the end of the model's range, as live ones do.
    """

    models: Mapping[float, ArxModel]
    kinds: Sequence[str] = ("pi", "pid")
    settling: Sequence[float] = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
    overshoot: Sequence[float] = (0.0, 5.0)
    poles: Sequence[Sequence[complex]] = ()
    upper: Sequence[float] = ()

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise InputError(f"controller is {kind!r}; give one of {', '.join(KINDS)}.")
        if not self.models or not self.kinds:
            raise InputError("there is nothing to search; give a model and a controller.")
        for poles in self.poles:
            if len(poles) not in [ORDER[kind] for kind in self.kinds]:
                raise InputError(
                    f"a set of {len(poles)} poles fits none of {', '.join(self.kinds)}; give "
                    + ", ".join(f"{ORDER[kind]} for {kind}" for kind in self.kinds)
                    + "."
                )
            if not is_stable(polynomial_of(poles)):
                raise InputError("a pole lies on or outside the unit circle; move it inside.")
        for upper, model in itertools.product(self.upper, self.models.values()):
            low, _ = model.linear_range
            if not low < upper <= MOST_PREFETCH:
                raise InputError(
                    f"an upper limit is {upper:g}; the model holds for prefetches from {low:g} on, "
                    f"give one above that and up to {MOST_PREFETCH}."
                )

    def grid(self) -> list[Candidate]:
        """Every combination once."""
        return _numbered(
            self._candidate(model, kind, poles, asked, upper)
            for model, kind, upper in itertools.product(
                self.models.values(), self.kinds, self.upper or (None,)
            )
            for poles, asked in self._placements(kind)
        )

    def at_random(self, count: int, seed: int = 0) -> list[Candidate]:
        """``count`` combinations, drawn between the least and the greatest value of every choice.

        The logarithm of settling times is drawn uniformly: from 2 to 4 samples matters as much
        as from 4 to 8.
        """
        if self.poles:
            raise InputError("a random search draws settling times; give no poles, or a grid.")
        draw = random.Random(seed)
        return _numbered(self._drawn(draw) for _ in range(count))

    def _drawn(self, draw: random.Random) -> Candidate:
        kind = draw.choice(list(self.kinds))
        low, high = math.log(min(self.settling)), math.log(max(self.settling))
        settling = math.exp(draw.uniform(low, high))
        overshoot = draw.uniform(min(self.overshoot), max(self.overshoot))
        upper = draw.uniform(min(self.upper), max(self.upper)) if self.upper else None
        model = draw.choice(list(self.models.values()))
        poles = poles_for(kind, settling, overshoot)
        return self._candidate(model, kind, poles, _asked(kind, settling, overshoot), upper)

    def _placements(self, kind: str) -> Iterator[tuple[Sequence[complex], str]]:
        if self.poles:
            for poles in self.poles:
                if len(poles) == ORDER[kind]:
                    yield poles, "poles " + " ".join(f"{pole:.3g}" for pole in poles)
            return
        overshoots = self.overshoot if kind != "p" else (0.0,)
        for settling, overshoot in itertools.product(self.settling, overshoots):
            yield poles_for(kind, settling, overshoot), _asked(kind, settling, overshoot)

    def _candidate(
        self, model: ArxModel, kind: str, poles: Sequence[complex], asked: str, upper: float | None
    ) -> Candidate:
        gains = place(kind, model, polynomial_of(poles))
        return Candidate(0, Tuning(kind, gains, model, upper=upper), asked)


def _asked(kind: str, settling: float, overshoot: float) -> str:
    wish = f"settle in {settling:.3g}"
    return wish if kind == "p" else f"{wish}, overshoot {overshoot:.3g} %"


def _numbered(candidates: Iterable[Candidate]) -> list[Candidate]:
    return [replace(candidate, number=number) for number, candidate in enumerate(candidates, 1)]
