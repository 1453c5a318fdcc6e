"""Old module paths, which still import what they named.

``import controlmq`` installs a finder for them. A path that is not in the table costs the
import system one look into a dictionary.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "controlmq.cli.drawing": "controlmq.experiments.drawing",
    "controlmq.design.placement": "controlmq.controllers.placement",
    "controlmq.rabbitmq.calibration.pacing": "controlmq.measure.calibration.stamping_publisher",
    "controlmq.rabbitmq.calibration": "controlmq.measure.calibration",
    "controlmq.rabbitmq.flows": "controlmq.measure.flows",
    "controlmq.rabbitmq.handling": "controlmq.clients.pika.user_handler",
    "controlmq.rabbitmq.publishing": "controlmq.measure.publish_load",
    "controlmq.rabbitmq.settings": "controlmq.clients.settings",
    "controlmq.rabbitmq.stopping": "controlmq.clients.stopping",
    "controlmq.rabbitmq.workload": "controlmq.measure.load",
    "controlmq.rabbitmq": "controlmq.clients.pika",
    "controlmq.schedule": "controlmq.controllers.gain_schedule",
    "controlmq.tuning": "controlmq.controllers.controller_file",
    "simulator.broker": "simulator",
    "simulator.cluster": "simulator.studies.cluster",
    "simulator.consumers": "simulator",
    "simulator.duration": "simulator",
    "simulator.routing": "simulator",
    "simulator.rules": "simulator",
    "simulator.scenario_file": "simulator",
    "simulator.scenario_text": "simulator.scenario.toml_text",
    "simulator.specjms": "simulator.studies.specjms",
    "simulator.tuning": "simulator.studies.tuning_candidates",
    "simulator.visibility": "simulator.studies.visibility",
    "simulator.workload": "simulator",
}
"""Old path: new path. The old path of a package also covers those of its modules that are in the
new package under the same name; modules that were renamed are not found."""


def install() -> None:
    """Let old paths be imported, with a warning that says the new one.

    First among the finders: a moved package still has a ``__path__``, by which Python's own
    finder would load its modules a second time under their old names.
    """
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedModules())


def new_path(old: str) -> str | None:
    """The path that a module has now, None if it has not moved."""
    name = old
    while name:
        if name in MOVED:
            return MOVED[name] + old[len(name) :]
        name = name.rpartition(".")[0]
    return None


class _MovedModules:
    """A finder and loader that puts the module at the new path under the old name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if new_path(name) is None:
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: ModuleSpec) -> None:
        return None  # a fresh one, which exec_module replaces

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        new = new_path(old)
        assert new is not None
        warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(new)
