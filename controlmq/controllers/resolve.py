"""Turns what a user gives as a controller into one that runs.

:func:`resolve` inspects the argument once and returns one value with everything a loop needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from controlmq.controllers.beyond_range import BeyondRange
from controlmq.controllers.controller_file import KINDS, Tuning
from controlmq.controllers.gain_schedule import Schedule
from controlmq.controllers.limits import Limits
from controlmq.controllers.p import P
from controlmq.controllers.pid import PI, PID
from controlmq.controllers.placement import DEFAULT_POLYNOMIAL, place
from controlmq.controllers.rate_law import RateLaw
from controlmq.controllers.scale import Scale
from controlmq.controllers.scheduled import ScheduledController
from controlmq.errors import InputError
from controlmq.files import json_format, read_text
from controlmq.loop import Controller
from controlmq.model import ArxModel

ControllerSpec = str | os.PathLike[str] | ArxModel | Tuning | Schedule | Controller
"""What a controller may be given as: a law's name, a file, a model, a tuning, a schedule of
them, an object."""

ModelSpec = ArxModel | str | os.PathLike[str]
"""What a model may be given as: itself, or its file."""


SAME_INTERVAL_SHARE = 0.05
"""Share by which the interval of a live loop may differ from that of each model: the mean of those
that a model was fitted to is never exactly what was asked for."""


@dataclass(frozen=True)
class ResolvedController:
    """What a user gave as a controller, read and checked once.

    ``make`` returns a fresh controller (of an object that was given, that object). ``models`` are
    the one that was given or those that came with the controller, if any; ``limits`` are what the
    prefetch stays within, None where nothing limits it. ``file`` is the file to follow, None where
    nothing came from one; ``read_again`` resolves what it holds now.
    """

    make: Callable[[], Controller]
    models: tuple[ArxModel, ...]
    limits: Limits | None
    file: Path | None
    read_again: Callable[[], ResolvedController]

    @property
    def model(self) -> ArxModel | None:
        """The model with the widest range; None if there is no model."""
        return max(self.models, key=lambda model: model.linear_range[1], default=None)

    def check_interval(self, interval: float) -> None:
        """Refuse to sample every ``interval`` seconds where a model was fitted at another."""
        fitted = sorted({model.interval for model in self.models})
        if all(abs(interval / each - 1) <= SAME_INTERVAL_SHARE for each in fitted):
            return
        if len(fitted) > 1:
            raise InputError(
                f"interval is {interval:g} s and the models of the schedule were fitted at "
                f"{fitted[0]:g} to {fitted[-1]:g} s, for which their gains hold; give an interval "
                f"within {SAME_INTERVAL_SHARE:.0%} of each, or identify them at the same one."
            )
        raise InputError(
            f"interval is {interval:g} s and the model was fitted at {fitted[0]:g} s, for which "
            f"its gains hold; give interval={fitted[0]:g}, or a model of that interval."
        )


def resolve(
    spec: ControllerSpec, *, model: ModelSpec | None = None, limits: Limits | None = None
) -> ResolvedController:
    """What ``spec`` stands for.

    - ``"p"``, ``"pi"`` or ``"pid"``: that law with the published placement on ``model``;
    - ``"scale"``: the law that moves the prefetch and needs no model;
    - a path: a controller file, a schedule file, or a model file, which gets a PI controller;
    - a model: a PI controller; a tuning: its controller; a schedule: the blend of its own;
    - anything callable: itself, as it is.

    Without ``limits`` a law goes on beyond the linear range of the model that its gains were
    computed for, as long as the rate follows, unless its tuning has an upper limit; and
    ``"scale"``, which has no model, stays within :meth:`Limits.widest`. The limits of the result
    are None then. The laws of a schedule keep to the ranges of their models. A ``model`` that was
    given goes before those that come with the controller; an object of ours has those it was built
    with.
    """
    known = ArxModel.load(model) if isinstance(model, str | os.PathLike) else model
    found = _value_of(spec, known)
    make: Callable[[], Controller]
    if isinstance(found, Tuning):
        make = partial(build, found, limits)
    elif isinstance(found, Schedule):
        make = partial(build_schedule, found, limits)
    elif isinstance(found, type):
        make = partial(Scale, limits or Limits.widest())
    else:
        make = partial(_itself, found)
    law = make()
    return ResolvedController(
        make=make,
        models=_models_of(law) if known is None else (known,),
        # How far a search without a model may go is no reason to subscribe with so many slots.
        limits=limits or (None if found is Scale else _limits_of(law)),
        file=_file_of(spec, model),
        read_again=partial(resolve, spec, model=model, limits=limits),
    )


def controller_from(
    spec: ControllerSpec, *, model: ArxModel | None = None, limits: Limits | None = None
) -> Controller:
    """A fresh controller of what :func:`resolve` takes."""
    return resolve(spec, model=model, limits=limits).make()


def build(tuning: Tuning, limits: Limits | None = None) -> P | PI | PID:
    """The controller object of a tuning.

    Without ``limits`` and an upper limit in the tuning it goes on beyond the linear range of the
    model, as long as the rate follows.
    """
    if limits is None and tuning.upper is not None:
        limits = Limits.up_to(tuning.upper)
    beyond = BeyondRange(tuning.model) if limits is None else None
    limits = limits or Limits.beyond(tuning.model)
    if tuning.kind == "p":
        return P(tuning.gains, limits, tuning.model, beyond=beyond)
    return _velocity_form(tuning, limits, beyond)


def build_schedule(schedule: Schedule, limits: Limits | None = None) -> ScheduledController:
    """The controller object of a schedule; ``limits`` hold for every profile.

    Without them each profile keeps to the range of its model: which one decides is a matter of the
    workload, so where one of them ends, another one may not even begin.
    """
    tunings = [profile.tuning for profile in schedule.profiles]
    laws = [_velocity_form(tuning, limits or _range_of(tuning)) for tuning in tunings]
    return ScheduledController(schedule, laws)


def _range_of(tuning: Tuning) -> Limits:
    """Up to the upper limit of a tuning, or the end of its model's range."""
    return Limits.of(tuning.model) if tuning.upper is None else Limits.up_to(tuning.upper)


def _velocity_form(tuning: Tuning, limits: Limits, beyond: BeyondRange | None = None) -> PI | PID:
    if tuning.kind == "pi":
        return PI(
            tuning.gains,
            limits,
            setpoint_weight=tuning.setpoint_weight,
            beyond=beyond,
            model=tuning.model,
        )
    return PID(
        tuning.gains,
        limits,
        derivative_filter=tuning.derivative_filter,
        setpoint_weight=tuning.setpoint_weight,
        beyond=beyond,
        model=tuning.model,
    )


def _models_of(controller: Controller) -> tuple[ArxModel, ...]:
    """What the gains of a controller were computed for; none if it does not say."""
    if isinstance(controller, RateLaw | ScheduledController):
        return controller.models
    return ()


def _limits_of(controller: Controller) -> Limits | None:
    """The limits of a controller; None if it goes beyond its model's range, or does not say."""
    if getattr(controller, "beyond", None) is not None:
        return None
    limits: Limits | None = getattr(controller, "limits", None)
    return limits


def default_tuning(kind: str, model: ArxModel) -> Tuning:
    """The published placement of this law on a model."""
    return Tuning(kind, place(kind, model, DEFAULT_POLYNOMIAL[kind]), model)


def _value_of(
    spec: ControllerSpec, model: ArxModel | None
) -> Tuning | Schedule | Controller | type[Scale]:
    """The tuning or the schedule that ``spec`` stands for, or the object that it is."""
    if isinstance(spec, str) and spec.lower() == Scale.kind:
        if model is not None:
            raise InputError(
                f"the controller {spec!r} needs no model; leave the model out, or take p, pi or "
                "pid."
            )
        return Scale
    if _is_law(spec):
        if model is None:
            raise InputError(
                f"the controller {spec!r} needs a model to compute its gains from; give a model "
                "or a controller file."
            )
        return default_tuning(str(spec).lower(), model)
    found = _in_file(Path(spec)) if isinstance(spec, str | os.PathLike) else spec
    if isinstance(found, ArxModel):
        return default_tuning("pi", found)
    if not callable(found) and not isinstance(found, Tuning | Schedule):
        raise InputError(
            f"controller is {spec!r}; give {', '.join(KINDS)}, {Scale.kind}, a file, a model or a "
            "controller."
        )
    return found


def _in_file(path: Path) -> ArxModel | Tuning | Schedule:
    text = read_text(path, "controller or model file")
    found = json_format(text)
    for kind in (Tuning, Schedule, ArxModel):
        if found == kind.file_format:
            return kind.from_json(text, str(path))
    raise InputError(
        f"{path} is neither a controller file nor a model file; make one with "
        "'controlmq design' or 'controlmq identify'."
    )


def _file_of(spec: ControllerSpec, model: ModelSpec | None) -> Path | None:
    """The file that the controller, or the model of a law given by name, was given as."""
    source = model if _is_law(spec) else spec
    return Path(source) if isinstance(source, str | os.PathLike) else None


def _is_law(spec: ControllerSpec) -> bool:
    return isinstance(spec, str) and spec.lower() in KINDS


def _itself(given: Controller) -> Controller:
    return given
