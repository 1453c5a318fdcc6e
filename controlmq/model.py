"""The model of a consumer, and its JSON file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from controlmq.checks import above_zero, finite, not_negative
from controlmq.errors import InputError
from controlmq.files import JsonFile, check_keys

SAME_INTERVAL_FACTOR = 1.5
"""Factor by which the intervals of the samples that one model is fitted to may differ, and those of
the models in one schedule: a live consumer closes its intervals when its work allows it, and a rate
is per second anyway. A live loop is held to less, see :mod:`controlmq.controllers.resolve`."""

UNITS = {
    "a": "1",
    "b": "messages/second per message of prefetch",
    "c": "messages/second",
    "interval": "seconds",
    "linear_range": "messages of prefetch",
    "rmse_train": "messages/second",
    "rmse_test": "messages/second",
}


@dataclass(frozen=True)
class StandardErrors:
    """How far ``a``, ``b`` and ``c`` may be off: one standard deviation each."""

    a: float
    b: float
    c: float

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            not_negative(f"standard_errors.{name}", getattr(self, name))


@dataclass(frozen=True)
class ConfidenceIntervals:
    """Where ``a``, ``b`` and ``c`` lie with 95 % confidence: the low and the high end of each."""

    a: tuple[float, float]
    b: tuple[float, float]
    c: tuple[float, float]

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            ends = getattr(self, name)
            if not isinstance(ends, tuple | list) or len(ends) != 2:
                raise InputError(f"confidence_intervals.{name} is {ends!r}; give two numbers.")
            low, high = (finite(f"confidence_intervals.{name}", end) for end in ends)
            if low > high:
                raise InputError(
                    f"confidence_intervals.{name} is {low:g} to {high:g}; give the low end first."
                )
            object.__setattr__(self, name, (low, high))


@dataclass(frozen=True)
class FitQuality:
    """How well a model explains the rows it was fitted on and the rows held out.

    The figures of the held-out rows are None where there are none.
    """

    r2_train: float
    r2_test: float | None
    rmse_train: float
    rmse_test: float | None
    rows_train: int
    rows_test: int

    def __post_init__(self) -> None:
        finite("r2_train", self.r2_train)
        not_negative("rmse_train", self.rmse_train)
        if self.r2_test is not None:
            finite("r2_test", self.r2_test)
        if self.rmse_test is not None:
            not_negative("rmse_test", self.rmse_test)
        for name in ("rows_train", "rows_test"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise InputError(f"{name} is {count!r}; give a whole number of 0 or more.")


@dataclass(frozen=True)
class ArxModel(JsonFile):
    """How the arrival rate answers the prefetch: ``y(k+1) = a*y(k) + b*u(k) + c``.

    ``y`` is in messages/second, ``u`` in messages; one step is ``interval`` seconds.
    Valid for ``u`` inside ``linear_range``; beyond it the rate saturates.
    """

    a: float
    b: float
    c: float
    interval: float
    linear_range: tuple[float, float]
    standard_errors: StandardErrors | None = None
    quality: FitQuality | None = None
    confidence_intervals: ConfidenceIntervals | None = None

    what = "model file"
    file_format = "controlmq-model"

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            finite(name, getattr(self, name))
        if not -1 < self.a < 1:
            raise InputError(f"a is {self.a:g}; a consumer's a lies between -1 and 1.")
        if self.b <= 0:
            raise InputError(
                f"b is {self.b:g}; it must be above 0: more prefetch means a higher rate."
            )
        above_zero("interval", self.interval)
        if not isinstance(self.linear_range, tuple) or len(self.linear_range) != 2:
            raise InputError(f"linear_range is {self.linear_range!r}; give two numbers.")
        low, high = self.linear_range
        not_negative("linear_range low", low)
        finite("linear_range high", high)
        if low >= high:
            raise InputError(
                f"linear_range is {low:g} to {high:g}; its low end must be below its high end."
            )

    @property
    def gain(self) -> float:
        """Messages/second that one more message of prefetch adds, once settled."""
        return self.b / (1 - self.a)

    def rate_at(self, prefetch: float) -> float:
        """The rate at which the model settles under a constant prefetch."""
        return (self.b * prefetch + self.c) / (1 - self.a)

    def prefetch_for(self, rate: float) -> float:
        """The constant prefetch at which the model settles on ``rate``."""
        return ((1 - self.a) * rate - self.c) / self.b

    def next_rate(self, rate: float, prefetch: float) -> float:
        """One step: ``a*y + b*u + c``."""
        return self.a * rate + self.b * prefetch + self.c

    def content(self) -> dict[str, Any]:
        """The model, what is known of its errors, and the units."""
        values = asdict(self)
        quality = values.pop("quality") or {}
        known = {name: value for name, value in values.items() if value is not None}
        return {"equation": "y(k+1) = a*y(k) + b*u(k) + c", **known, **quality, "units": UNITS}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> ArxModel:
        """The model that the object of a model file describes."""
        uncertain = ("standard_errors", "confidence_intervals")
        optional = {f.name for f in fields(FitQuality)} | {*uncertain}
        required = [f.name for f in fields(cls)[:5]]
        described = {"format", "version", "equation", "units"}
        check_keys(content, required, optional | described)
        errors, intervals = (content.get(name) for name in uncertain)
        for name, given in zip(uncertain, (errors, intervals), strict=True):
            if given is not None and (not isinstance(given, dict) or {*given} != {"a", "b", "c"}):
                raise InputError(f"{name} must have exactly the keys a, b and c.")
        given_quality = {f.name for f in fields(FitQuality)} & content.keys()
        if given_quality and len(given_quality) < len(fields(FitQuality)):
            raise InputError("the fit quality is incomplete; give all of its keys or none.")
        linear_range = content["linear_range"]
        if not isinstance(linear_range, list) or len(linear_range) != 2:
            raise InputError(f"linear_range is {linear_range!r}; give a list of two numbers.")
        quality = {name: content[name] for name in given_quality}
        return cls(
            **{name: content[name] for name in required} | {"linear_range": tuple(linear_range)},
            standard_errors=StandardErrors(**errors) if errors is not None else None,
            quality=FitQuality(**quality) if quality else None,
            confidence_intervals=ConfidenceIntervals(**intervals) if intervals else None,
        )
