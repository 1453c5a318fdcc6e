"""SPECjms2007 on a real broker: short runs at a small scale."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest

from controlmq.cli.main import main
from controlmq.experiments.live_specjms import observed, plan_of
from controlmq.measure.flows import run_flows
from simulator.studies.specjms import Phases, Topology, audit, report, vertical, workload
from simulator.studies.specjms.flow import Flow, base_type
from simulator.studies.specjms.observed import observed_run
from simulator.studies.specjms.options import central
from tests.testbed import Broker, Proxy, wait_until
from tests.testbed.proxy import proxied

SHORT = Phases(warm_up=0.5, measurement=2.5, drain=60.0)
"""Draining ends as soon as everything is there."""

RULES = {"empty at start", "input rate", "message count", "pacing", "all received"}
"""The other one, delivery time, says nothing of a queue to which a busy machine was late."""


def names(broker: Broker, what: str) -> list[str]:
    found = [each["name"] for each in broker.management.get(f"/{what}")]
    return [name for name in found if name.startswith("controlmq-specjms-")]


def left_behind(broker: Broker) -> list[str]:
    return names(broker, "queues") + names(broker, "exchanges")


@pytest.mark.parametrize("types", [None, central()], ids=["SPECjms2007", "one topic"])
def test_every_message_that_is_to_follow_follows(broker: Broker, types: object) -> None:
    topology = vertical(10)
    built = workload(topology, SHORT, types=types)  # type: ignore[arg-type]
    plan = plan_of(built, seed=1)
    notes = run_flows(broker.url, plan)
    sent, received = notes.counts()

    assert sum(sent.values()) > 200
    assert {place: sent[place] for place in plan.planned} == plan.planned
    assert {name: len(times) for name, times in notes.starts.items()} == {
        driver.name: len(driver.times)
        for locations in plan.processes.values()
        for location in locations
        for driver in location.drivers
    }
    # Each receiver of a message sent what follows from it, once.
    answered: Counter[str] = Counter()
    for answer in Flow(topology).answers:
        answered[answer.type] += received.get(
            (f"{answer.location}.{base_type(answer.on)}", answer.on), 0
        )
    sent_by_type: Counter[str] = Counter()
    for (type_, _), count in sent.items():
        sent_by_type[type_] += count
    assert answered == {type_: sent_by_type[type_] for type_ in answered}

    # When each message came is for the machine to say; that it came is not.
    done = observed_run(built, observed(notes))
    assert set(done.missed.values()) == set(done.waiting.values()) == {0}
    assert {finding.rule for finding in audit(done)} >= RULES
    for finding in audit(done):
        if finding.rule in ("empty at start", "all received"):
            assert finding.verdict == "PASS", finding
    assert len(report(done)["destinations"]) == len(built.queues)
    wait_until(lambda: not left_behind(broker), "queues and exchanges are deleted")


def test_a_message_takes_its_time_and_an_interaction_that_of_all_of_its_messages(
    broker: Broker,
) -> None:
    only_orders = Topology("orders", 1, 1, 1, 1, 1, 1.0, (20.0, 0, 0, 0, 0, 0, 0))
    built = workload(only_orders, SHORT)
    noted = observed(run_flows(broker.url, plan_of(built)))
    for rows in noted.received.values():
        assert (rows[:, 2] > rows[:, 0]).all()
        assert (rows[:, 0] >= rows[:, 1]).all()
    # The last message knows when the order was sent, to the bit.
    orders = sorted(noted.received["DC1.order", "order@SM1"][:, 0])
    assert sorted(noted.received["DC1.shipConf", "shipConf"][:, 1]) == orders
    assert sorted(noted.starts["SM1 order@SM1"]) == orders


def test_the_command_prints_the_tables_and_a_verdict_for_each_rule(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--duration", "2", "--warm-up", "0.5", "--drain", "60", "--interactions", "1", "3"]
    code = main(["specjms", "--url", broker.url, "--base", "20", *words])
    said = capsys.readouterr().out
    assert code == (0 if "FAIL" not in said else 1)
    for rule in RULES:
        assert rule in said
    words += ["--json"]
    main(["specjms", "--url", broker.url, "--base", "20", *words])
    found = json.loads(capsys.readouterr().out)
    assert [row["interaction"] for row in found["interactions"]] == [1, 3]
    assert found["broker"] == {"cores": None, "disk": None}
    wait_until(lambda: not left_behind(broker), "queues and exchanges are deleted")


def started(broker: Broker, url: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """A long run that has begun to subscribe."""
    words = ["specjms", "--url", url, "--base", "5", "--warm-up", "1", "--duration", "300"]
    process = subprocess.Popen(
        [sys.executable, "-m", "controlmq.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    wait_until(
        lambda: any(
            each["queue"]["name"].startswith("controlmq-specjms-")
            for each in broker.management.get("/consumers")
        ),
        "a location has subscribed",
    )
    return process


def assert_stopped(process: subprocess.Popen[str], out: str, said: str, broker: Broker) -> None:
    assert process.returncode == 130, said
    assert "stopped." in said
    assert "Traceback" not in said
    assert out == ""
    wait_until(lambda: not left_behind(broker), "queues and exchanges are deleted")


def test_ctrl_c_leaves_nothing_behind(broker: Broker) -> None:
    process = started(broker, broker.url)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of its processes
    out, said = process.communicate(timeout=60)
    assert_stopped(process, out, said, broker)


def test_a_terminal_shows_what_is_counted_until_ctrl_c(broker: Broker) -> None:
    ours, terminal = os.openpty()
    process = started(broker, broker.url, terminal)
    os.close(terminal)
    shown = b""
    while b" of 301 s, measurement" not in shown:
        shown += os.read(ours, 4096)
    os.killpg(process.pid, signal.SIGINT)
    with suppress(OSError):  # that is how a terminal ends
        while more := os.read(ours, 4096):
            shown += more
    os.close(ours)
    said = shown.decode()
    out, _ = process.communicate(timeout=60)
    assert_stopped(process, out, said, broker)


def test_a_connection_that_is_lost_ends_the_run_with_one_sentence(
    broker: Broker, proxy: Proxy
) -> None:
    process = started(broker, proxied(broker.url, proxy))
    proxy.cut()
    out, said = process.communicate(timeout=60)
    assert process.returncode == 2, said
    assert "lost " in said
    assert said.rstrip().endswith("is the broker still there? Start again.")
    assert "Traceback" not in said
    assert out == ""
    wait_until(lambda: not left_behind(broker), "queues and exchanges are deleted")
