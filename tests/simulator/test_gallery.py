"""The scenarios of the gallery do what is said beside them."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator import Meter, Metrics, Simulation, load_scenario

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "examples" / "simulator"


def run(name: str, until: float = 120.0) -> tuple[Simulation, Metrics]:
    simulation = Simulation(load_scenario(FOLDER / f"{name}.toml"), seed=1)
    meter = Meter(simulation)
    simulation.run_until(until)
    return simulation, meter.read()


def test_competing_consumers_share_the_work() -> None:
    _, metrics = run("competing-consumers")
    for consumer in metrics.consumers.values():
        assert consumer.arrival_rate == pytest.approx(200 / 3, rel=0.05)
    assert metrics.queues["work"].mean_length < 20


def test_a_large_prefetch_leaves_messages_with_the_slow_consumer() -> None:
    _, metrics = run("slow-beside-fast")
    assert metrics.queues["fair"].latency.p90 < 0.1
    assert metrics.queues["unfair"].latency.p90 > 1.0
    assert metrics.consumers["unfair fast"].utilisation < 0.9


def test_fan_out_costs_latency() -> None:
    _, metrics = run("fan-out")
    one, five = metrics.types["to one"], metrics.types["to five"]
    assert five.count == pytest.approx(5 * one.count, rel=0.05)
    assert five.p50 > 1.5 * one.p50


def test_a_dead_letter_loop_loses_nothing() -> None:
    simulation, metrics = run("dead-letter-loop")
    counts = simulation.counts
    published = int(simulation.state.publishers["published"].sum())
    assert counts.acknowledged + counts.queued + counts.in_flight == published
    assert metrics.queues["work"].latency.p90 == pytest.approx(5.1, rel=0.05)


def test_flow_control_blocks_the_publisher() -> None:
    simulation, metrics = run("flow-control", 10.0)
    assert metrics.publishers["ramping"].blocked == 0
    meter = Meter(simulation)
    simulation.run_until(60.0)
    meter.read()
    simulation.run_until(120.0)
    after = meter.read().publishers["ramping"]
    assert after.publish_rate == pytest.approx(500, rel=0.02)
    assert after.blocked == pytest.approx(0.5, rel=0.05)


def test_autoscaling_follows_the_burst() -> None:
    simulation, _ = run("autoscaling", 60.0)
    assert len(simulation.active("worker")) >= 4
    simulation.run_until(200.0)
    assert simulation.active("worker") == ["worker"]
    assert simulation.counts.queued < 50


def program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_both_kinds_of_rules_meet_the_same_surge() -> None:
    by_length = load_scenario(FOLDER / "self-adaptation.toml")
    by_latency = load_scenario(FOLDER / "self-adaptation-latency.toml")
    assert replace(by_latency, name=by_length.name, rules=by_length.rules) == by_length
    for metric, scenario in (("length", by_length), ("latency", by_latency)):
        rules = {rule.action: rule for rule in scenario.rules}
        assert set(rules) == {"add-consumer", "remove-consumer"}
        assert all(rule.metric == metric and rule.takes > 0 for rule in rules.values())


def test_rules_and_a_controller_do_best_together(tmp_path: Path) -> None:
    example = program("self_adaptation")
    found = example.outcomes()
    example.draw(found, tmp_path / "adaptation-compared.svg")
    for rules in ("length", "latency"):
        both = found[f"{rules} + prefetch"]
        assert both.p90 < min(found[name].p90 for name in ("nothing", rules, "prefetch"))
        assert sum(both.consumers) < sum(found[rules].consumers)
        # Who was added is taken away again.
        assert max(both.consumers) > 1
        assert both.consumers[-1] == 1
    page = (FOLDER.parents[1] / "docs" / "amqp-simulation.md").read_text(encoding="utf-8")
    for name, each in found.items():
        assert f"| {' | '.join((name, *each.row))} |" in page


def test_the_sweeps_draw_theory_and_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program("visibility_sweeps").main(tmp_path, seconds=20.0, replications=1)
    assert "0.4124" in capsys.readouterr().out
    assert (tmp_path / "visibility-sweeps.svg").exists()


def test_the_gallery_draws_a_picture_of_each(tmp_path: Path) -> None:
    program("gallery").main(tmp_path)
    drawn = {path.stem for path in tmp_path.glob("*.svg")}
    assert drawn == {path.stem for path in FOLDER.glob("*.toml")}
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in drawn:
        assert f"![]({name}.svg)" in page
        assert f"({name}.toml)" in page
