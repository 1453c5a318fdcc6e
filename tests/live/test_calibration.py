"""Calibrating a real broker: quick runs that show that it works, not how exact it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controlmq.cli.main import main
from controlmq.measure.calibration.queues import temporary_queues
from simulator import Meter, Simulation, load_scenario
from tests.testbed import Broker, Proxy, wait_until
from tests.testbed.proxy import ROUND_TRIP


def calibration_queues(broker: Broker) -> list[str]:
    names = [queue["name"] for queue in broker.management.get("/queues")]
    return [name for name in names if name.startswith("controlmq-calibrate-")]


def test_a_calibration_becomes_a_scenario_that_runs(
    broker: Broker,
    proxy: Proxy,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controlmq.measure.calibration.FEWEST_TURNS", 1)
    path = tmp_path / "calibrated.toml"
    url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/%2F"
    words = ["--duration", "1", "--work", "0.001", "--prefetch", "3", "--out", str(path), "--json"]
    assert main(["calibrate", "--url", url, *words]) == 0
    found = json.loads(capsys.readouterr().out)["measured"]
    assert ROUND_TRIP < found["call"] < 1
    for key in ("publish", "deliver", "busy", "cycle", "latency", "confirm"):
        assert 0 <= found[key]["base"] < 1
    assert found["cycle"]["base"] > found["busy"]["base"]
    assert all(latency > ROUND_TRIP for _, latency in found["latency_at"]["points"])

    scenario = load_scenario(path)
    assert sum(link.round_trip for link in scenario.links) > ROUND_TRIP
    simulation = Simulation(scenario)
    meter = Meter(simulation)
    simulation.run_until(10.0)
    consumer = meter.read().consumers["consumer"]
    # A window of 3 over a round of 12 ms and more; how much more depends on who else is busy.
    assert 3 / 0.1 < consumer.arrival_rate < 3 / 0.012
    wait_until(lambda: not calibration_queues(broker), "the queues are deleted")


def test_an_interrupted_calibration_leaves_no_queue(broker: Broker, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "controlmq.cli.main", "calibrate", "--duration", "60"],
        cwd=tmp_path,
        env=os.environ | {"CONTROLMQ_URL": broker.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: calibration_queues(broker), "a queue of the calibration")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130, said
    assert "stopped." in said
    assert "Traceback" not in said
    wait_until(lambda: not calibration_queues(broker), "the queues are deleted")
    assert not list(tmp_path.iterdir())


def test_queues_are_deleted_when_their_connection_is_lost(broker: Broker) -> None:
    with temporary_queues(broker.url) as queues:
        queues.fanout(2)
        queues.connection.close()
    wait_until(lambda: not calibration_queues(broker), "the queues are deleted")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--duration", "0"], "--duration"),
        (["--work", "0"], "--work"),
        (["--prefetch", "70000"], "65535"),
        (["--work", "1e7"], "--work 1e+07 does not fit"),
        (["--rate", "0"], "--rate"),
        (["--rate", "2e6"], "--rate 2e+06 does not fit"),
        (["--rate", "1e-7"], "--rate 1e-07 does not fit"),
        (["--size", "1000000000"], "--size 1e+09 does not fit"),
        (["--cores", "200000"], "--cores 200000 does not fit"),
        (["--out", "nowhere/calibrated.toml"], "no folder"),
        (["--out", "."], "is a folder"),
    ],
)
def test_what_would_be_refused_afterwards_is_refused_before(
    words: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(*_: object) -> None:
        pytest.fail("the broker was measured")

    monkeypatch.setattr("controlmq.measure.calibration.calibrate", measured)
    assert main(["calibrate", *words]) == 2
    assert says in capsys.readouterr().err
