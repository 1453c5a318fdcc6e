"""Controllers: a sample and a goal in, a prefetch out."""

from controlmq.controllers.limits import Limits
from controlmq.controllers.open_loop import OpenLoop, ramp, random_levels
from controlmq.controllers.p import P
from controlmq.controllers.pid import PI, PID
from controlmq.controllers.resolve import build, build_schedule, controller_from
from controlmq.controllers.scale import Scale
from controlmq.controllers.scheduled import ScheduledController
from controlmq.gains import Gains

__all__ = [
    "PI",
    "PID",
    "Gains",
    "Limits",
    "OpenLoop",
    "P",
    "Scale",
    "ScheduledController",
    "build",
    "build_schedule",
    "controller_from",
    "ramp",
    "random_levels",
]
