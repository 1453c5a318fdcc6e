"""From what a user names to a controller that runs."""

from __future__ import annotations

import os
from pathlib import Path

from controlmq.controllers.controller_file import FORMAT as CONTROLLER_FORMAT
from controlmq.controllers.controller_file import KINDS, Tuning
from controlmq.controllers.gain_schedule import FORMAT as SCHEDULE_FORMAT
from controlmq.controllers.gain_schedule import Schedule
from controlmq.controllers.limits import Limits
from controlmq.controllers.p import P
from controlmq.controllers.pid import PI, PID
from controlmq.controllers.placement import DEFAULT_POLYNOMIAL, place
from controlmq.controllers.scheduled import ScheduledController
from controlmq.errors import InputError
from controlmq.files import json_format, read_text
from controlmq.loop import Controller
from controlmq.model import FORMAT as MODEL_FORMAT
from controlmq.model import ArxModel

ControllerSpec = str | os.PathLike[str] | ArxModel | Tuning | Schedule | Controller
"""What a controller may be given as: a law's name, a file, a model, a tuning, a schedule of
them, an object."""


def controller_from(
    spec: ControllerSpec, *, model: ArxModel | None = None, limits: Limits | None = None
) -> Controller:
    """The controller that ``spec`` stands for.

    - ``"p"``, ``"pi"`` or ``"pid"``: that law with the published placement on ``model``;
    - a path: a controller file, a schedule file, or a model file, which gets a PI controller;
    - a model: a PI controller; a tuning: its controller; a schedule: the blend of its own;
    - anything callable: itself, as it is.

    ``limits`` default to the linear range of the model.
    """
    if isinstance(spec, str) and spec.lower() in KINDS:
        if model is None:
            raise InputError(
                f"the controller {spec!r} needs a model to compute its gains from; give a model "
                "or a controller file."
            )
        return build(default_tuning(spec.lower(), model), limits)
    if isinstance(spec, str | os.PathLike):
        return _from_file(Path(spec), limits)
    if isinstance(spec, ArxModel):
        return build(default_tuning("pi", spec), limits)
    if isinstance(spec, Tuning):
        return build(spec, limits)
    if isinstance(spec, Schedule):
        return build_schedule(spec, limits)
    if not callable(spec):
        raise InputError(
            f"controller is {spec!r}; give {', '.join(KINDS)}, a file, a model or a controller."
        )
    return spec


def model_of(spec: ControllerSpec) -> ArxModel | None:
    """The model that comes with a specification, where one does.

    Of a schedule it is the one with the widest range: its limit is one no profile exceeds.
    """
    if isinstance(spec, ArxModel):
        return spec
    if isinstance(spec, Tuning):
        return spec.model
    if isinstance(spec, Schedule):
        models = [profile.tuning.model for profile in spec.profiles]
        return max(models, key=lambda model: model.linear_range[1])
    if isinstance(spec, str | os.PathLike) and str(spec).lower() not in KINDS:
        text = read_text(spec, "controller or model file")
        if json_format(text) == CONTROLLER_FORMAT:
            return Tuning.from_json(text, str(spec)).model
        if json_format(text) == SCHEDULE_FORMAT:
            return model_of(Schedule.from_json(text, str(spec)))
        return ArxModel.from_json(text, str(spec))
    return None


def build(tuning: Tuning, limits: Limits | None = None) -> P | PI | PID:
    """The controller object of a tuning, limited to the model's linear range by default."""
    if tuning.kind == "p":
        return P(tuning.gains, limits or Limits.of(tuning.model), tuning.model)
    return _velocity_form(tuning, limits)


def build_schedule(schedule: Schedule, limits: Limits | None = None) -> ScheduledController:
    """The controller object of a schedule; ``limits`` hold for every profile alike."""
    laws = [_velocity_form(profile.tuning, limits) for profile in schedule.profiles]
    return ScheduledController(schedule, laws)


def _velocity_form(tuning: Tuning, limits: Limits | None) -> PI | PID:
    limits = limits or Limits.of(tuning.model)
    if tuning.kind == "pi":
        return PI(tuning.gains, limits, setpoint_weight=tuning.setpoint_weight)
    return PID(
        tuning.gains,
        limits,
        derivative_filter=tuning.derivative_filter,
        setpoint_weight=tuning.setpoint_weight,
    )


def default_tuning(kind: str, model: ArxModel) -> Tuning:
    """The published placement of this law on a model."""
    return Tuning(kind, place(kind, model, DEFAULT_POLYNOMIAL[kind]), model)


def _from_file(path: Path, limits: Limits | None) -> Controller:
    text = read_text(path, "controller or model file")
    found = json_format(text)
    if found == CONTROLLER_FORMAT:
        return build(Tuning.from_json(text, str(path)), limits)
    if found == SCHEDULE_FORMAT:
        return build_schedule(Schedule.from_json(text, str(path)), limits)
    if found == MODEL_FORMAT:
        return build(default_tuning("pi", ArxModel.from_json(text, str(path))), limits)
    raise InputError(
        f"{path} is neither a controller file nor a model file; make one with "
        "'controlmq design' or 'controlmq identify'."
    )
