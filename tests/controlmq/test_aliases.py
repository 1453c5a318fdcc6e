"""Old module paths import what they named."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import controlmq
from controlmq.aliases import MOVED, new_path
from controlmq.clients.controlled_consumer import ControlledConsumer


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_path_is_the_module_at_the_new_one(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    spec = import_module(MOVED[old]).__spec__
    with pytest.warns(DeprecationWarning, match=f"{old} is now {MOVED[old]}"):
        module = import_module(old)
    assert module is sys.modules[MOVED[old]]
    assert module.__spec__ is spec


def test_the_modules_of_a_moved_package_are_not_loaded_twice() -> None:
    assert new_path("controlmq.rabbitmq.flows.plan") == "controlmq.measure.flows.plan"
    with pytest.warns(DeprecationWarning, match="is now controlmq.measure"):
        old = import_module("controlmq.rabbitmq.flows.plan")
    assert old is import_module("controlmq.measure.flows.plan")


def test_the_old_package_of_pika_has_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "controlmq.rabbitmq", raising=False)
    with pytest.warns(DeprecationWarning, match=r"is now controlmq\.clients\.pika"):
        old = import_module("controlmq.rabbitmq")
    assert old.Consumer is ControlledConsumer
    assert old.wrap is controlmq.wrap
    assert old.unwrap is controlmq.unwrap


def test_a_module_that_was_renamed_is_not_found_at_its_old_path() -> None:
    with (
        pytest.warns(DeprecationWarning, match="is now"),
        pytest.raises(ModuleNotFoundError, match=r"controlmq\.clients\.pika\.ledger"),
    ):
        import_module("controlmq.rabbitmq.ledger")


def test_the_warning_points_at_the_line_that_imports() -> None:
    code = (
        "import controlmq\nfrom controlmq.tuning import Tuning\nassert Tuning is controlmq.Tuning"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith("<string>:2: DeprecationWarning: controlmq.tuning is now")


def test_a_path_that_never_was_is_not_found() -> None:
    assert new_path("controlmq.loop") is None
    with pytest.raises(ModuleNotFoundError, match=r"controlmq\.never"):
        import_module("controlmq.never")


def test_a_module_of_scenario_words_has_them_though_it_is_a_package_now() -> None:
    import simulator
    import simulator.scenario

    with pytest.warns(DeprecationWarning, match=r"scenario\.Queue is now simulator\.Queue"):
        assert simulator.scenario.Queue is simulator.Queue
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = simulator.scenario.nothing


@pytest.mark.parametrize(
    ("old", "names"),
    [
        ("simulator.broker", ["Broker", "Link", "Queue"]),
        ("simulator.duration", ["Duration"]),
        ("simulator.routing", ["Binding", "Exchange"]),
        ("simulator.scenario_file", ["load_scenario", "parse_scenario", "shipped_scenarios"]),
        ("controlmq.design.placement", ["p_stable_range", "place", "poles_for"]),
        ("controlmq.rabbitmq.stopping", ["Stop", "signals"]),
    ],
)
def test_names_that_were_in_a_module_are_in_what_its_path_imports(
    old: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match="is now"):
        module = import_module(old)
    assert [name for name in names if not hasattr(module, name)] == []
