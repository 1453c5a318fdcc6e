"""controlmq keeps a RabbitMQ consumer at its goal by adapting its prefetch.

Names are loaded when they are first used, so that importing the package stays quick and a
consumer in production needs nothing but pika.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from controlmq import aliases

if TYPE_CHECKING:
    from controlmq.clients.pika import unwrap, wrap
    from controlmq.clients.pool import WorkerPool
    from controlmq.controllers import PI, PID, Limits, P
    from controlmq.controllers.controller_file import Tuning
    from controlmq.controllers.gain_schedule import Profile, Schedule
    from controlmq.design import design_controller
    from controlmq.errors import ControlmqError, InputError
    from controlmq.gains import Gains
    from controlmq.loop import Loop, Sample, Step, Transition
    from controlmq.model import ArxModel
    from controlmq.observe.dashboard import serve_dashboard
    from controlmq.observe.prometheus import expose_metrics, serve_metrics
    from controlmq.traces import TraceWriter, read_transitions

__version__ = "0.2.0"

_NAMES = {
    "controlmq.controllers": ("Limits", "P", "PI", "PID"),
    "controlmq.controllers.controller_file": ("Tuning",),
    "controlmq.controllers.gain_schedule": ("Profile", "Schedule"),
    "controlmq.design": ("design_controller",),
    "controlmq.errors": ("ControlmqError", "InputError"),
    "controlmq.gains": ("Gains",),
    "controlmq.loop": ("Loop", "Sample", "Step", "Transition"),
    "controlmq.model": ("ArxModel",),
    "controlmq.clients.pika": ("unwrap", "wrap"),
    "controlmq.clients.pool": ("WorkerPool",),
    "controlmq.observe.dashboard": ("serve_dashboard",),
    "controlmq.observe.prometheus": ("expose_metrics", "serve_metrics"),
    "controlmq.traces": ("TraceWriter", "read_transitions"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "PI",
    "PID",
    "ArxModel",
    "ControlmqError",
    "Gains",
    "InputError",
    "Limits",
    "Loop",
    "P",
    "Profile",
    "Sample",
    "Schedule",
    "Step",
    "TraceWriter",
    "Transition",
    "Tuning",
    "WorkerPool",
    "design_controller",
    "expose_metrics",
    "read_transitions",
    "serve_dashboard",
    "serve_metrics",
    "unwrap",
    "wrap",
]

aliases.install()


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'controlmq' has no attribute {name!r}")
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
