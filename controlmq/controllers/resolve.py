"""From what a user gives as a controller to one that runs.

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
"""Share by which an interval may differ from the model's: a live one is never met exactly."""


@dataclass(frozen=True)
class ResolvedController:
    """A controller that a user gave, after the one look at what it is.

    ``make`` returns a fresh controller (of an object that was given, that object). ``model`` is
    the one that was given or came with the controller, None where there is none; ``limits`` are
    what the prefetch stays within, None where nothing limits it. ``file`` is the file to follow,
    None where nothing came from one; ``read_again`` resolves what it holds now.
    """

    make: Callable[[], Controller]
    model: ArxModel | None
    limits: Limits | None
    file: Path | None
    read_again: Callable[[], ResolvedController]

    def check_interval(self, interval: float) -> None:
        """Refuse to sample every ``interval`` seconds where the model was fitted at another."""
        if self.model is None:
            return
        fitted = self.model.interval
        if abs(interval / fitted - 1) > SAME_INTERVAL_SHARE:
            raise InputError(
                f"interval is {interval:g} s and the model was fitted at {fitted:g} s, for which "
                f"its gains hold; give interval={fitted:g}, or a model of that interval."
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
    computed for, as long as the rate follows, unless its tuning has an upper limit; the limits of
    the result are None then. The laws of a schedule keep to the ranges of their models, and
    ``"scale"``, which has none, to :meth:`Limits.widest`. A ``model`` that was given goes before
    the one that comes with the controller. The model of a schedule is the one with the widest
    range, a limit that no profile exceeds.
    """
    known = ArxModel.load(model) if isinstance(model, str | os.PathLike) else model
    found = _value_of(spec, known)
    own: ArxModel | None = None
    make: Callable[[], Controller]
    if isinstance(found, Tuning):
        make = partial(build, found, limits)
        own = found.model
    elif isinstance(found, Schedule):
        make = partial(build_schedule, found, limits)
        models = [profile.tuning.model for profile in found.profiles]
        own = max(models, key=lambda model: model.linear_range[1])
    elif isinstance(found, type):
        make = partial(Scale, limits or Limits.widest())
    else:
        make = partial(_itself, found)
    return ResolvedController(
        make=make,
        model=known or own,
        limits=limits or _limits_of(make()),
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
        return PI(tuning.gains, limits, setpoint_weight=tuning.setpoint_weight, beyond=beyond)
    return PID(
        tuning.gains,
        limits,
        derivative_filter=tuning.derivative_filter,
        setpoint_weight=tuning.setpoint_weight,
        beyond=beyond,
    )


def _limits_of(controller: Controller) -> Limits | None:
    """What a controller keeps the prefetch within; None if it searches, or does not say."""
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
