"""Board and rules name metrics that exist, and every metric is on the board."""

from __future__ import annotations

import json
import re
from importlib import resources

from controlmq.observe.metrics import NAMES

MONITORING = resources.files("controlmq.observe").joinpath("monitoring")
RULES = MONITORING.joinpath("rules.yml").read_text()
BOARD = MONITORING.joinpath("grafana-board.json").read_text()
NAME = re.compile(r"\bcontrolmq[_:][a-z0-9_:]+")
RECORDED = set(re.findall(r"record: (\S+)", RULES))


def named(text: str) -> set[str]:
    """The metrics that a text with queries names."""
    return set(NAME.findall(text))


def test_the_rules_name_metrics_that_exist() -> None:
    assert named(RULES) <= NAMES | RECORDED
    assert len(named(RULES) - RECORDED) >= 10


def test_every_alert_of_the_rules_is_tested_to_fire_and_to_clear() -> None:
    tests = (resources.files("tests.observe") / "rules_test.yml").read_text()
    alerts = re.findall(r"alert: (\S+)", RULES)
    assert len(alerts) == len(set(alerts)) == 6
    for alert in alerts:
        assert f"- alertname: {alert}\n" in tests, f"{alert} is never seen to fire"
        assert tests.count(f"{{alertname: {alert}, ") >= 2, f"{alert} is never seen to be quiet"
    for name in RECORDED - {"controlmq:held_acks:ratio"}:
        assert f"expr: {name}\n" in tests


def test_the_board_names_metrics_that_exist_and_shows_all_of_them() -> None:
    board = json.loads(BOARD)
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = [each.get("definition", "") for each in board["templating"]["list"]]
    shown = named(" ".join([*expressions, *variables]))
    assert shown <= NAMES
    parts = {name for name in NAMES if not name.endswith(("_bucket", "_sum", "_count"))}
    assert parts <= shown
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_a_query_that_names_no_metric_would_be_found() -> None:
    assert not named("rate(controlmq_mesages_total[5m])") <= NAMES | RECORDED
