"""The commands on a real broker: load, collect, run."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from controlmq.cli.main import main
from tests.testbed import Broker, Proxy
from tests.testbed.publishing import fill

SECRET = "hush-hush-password"
TRIES = 5


@pytest.fixture
def url(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CONTROLMQ_URL", broker.url)
    return broker.url


def proxied(url: str, proxy: Proxy) -> str:
    """The same URL by way of the proxy."""
    credentials, _, address = url.removeprefix("amqp://").rpartition("@")
    _, _, path = address.partition("/")
    return f"amqp://{credentials}@127.0.0.1:{proxy.port}/{path}"


def command(*words: str, url: str) -> subprocess.Popen[str]:
    """The command as a process of its own, to be interrupted."""
    return subprocess.Popen(
        [sys.executable, "-m", "controlmq.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"CONTROLMQ_URL": url},
    )


def test_load_publishes_what_it_says(
    broker: Broker, url: str, queue_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["load", "--queue", queue_name, "--rate", "2000", "--count", "500", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["published"] == 500
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == 500, "500 messages"
    )


def test_ctrl_c_tells_exactly_how_many_were_published(
    broker: Broker, url: str, queue_name: str
) -> None:
    process = command("load", "--queue", queue_name, "--rate", "3000", "--json", url=url)
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready > 100, "some messages are published"
    )
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    said = json.loads(out)
    assert said["interrupted"] is True
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == said["published"], "as many as it says"
    )


def test_a_consumer_is_collected_identified_and_held(
    broker: Broker,
    url: str,
    proxy: Proxy,
    queue_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(broker.parameters, queue_name, 25_000)
    through = proxied(url, proxy)
    common = ["--url", through, "--queue", queue_name, "--work", "0.001", "--interval", "0.25"]
    model = str(tmp_path / "model.json")
    levels = ["--levels", "1", "7", "--samples", "40"]
    # A machine busy with other work may disturb a short experiment too much to be used.
    for attempt in range(TRIES):
        trace = str(tmp_path / f"trace-{attempt}")
        assert main(["collect", *common, *levels, "--trace", trace, "--json"]) == 0
        collected = json.loads(capsys.readouterr().out)
        # A sample that a busy machine missed leaves a gap, and a gap makes no row.
        assert 0 < collected["rows"] <= 40
        fit = ["identify", trace, "--linear-range", "0.5", "8", "--out", model, "--json"]
        identified = main(fit) == 0
        said = capsys.readouterr()
        if identified:
            break
    assert identified, said.err
    hold = ["--goal", "300", "--controller", model, "--samples", "50", "--json"]
    assert main(["run", *common, *hold]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 50
    # A busy machine disturbs samples of a quarter second; the benchmark tells how exact it is.
    assert statistics.median(line["rate"] for line in lines[20:]) == pytest.approx(300, rel=0.15)


def test_ctrl_c_keeps_what_was_collected(
    broker: Broker, url: str, queue_name: str, tmp_path: Path
) -> None:
    fill(broker.parameters, queue_name, 5000)
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == 5000, "all messages there"
    )
    trace, started = tmp_path / "trace", time.time()
    words = ["collect", "--queue", queue_name, "--levels", "1", "5", "--samples", "1000"]
    words += ["--work", "0.002", "--interval", "0.1", "--trace", str(trace), "--json"]
    process = command(*words, url=url)
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready < 4500, "some messages consumed"
    )
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    said = json.loads(out)
    assert said["interrupted"] is True
    rows = pq.read_table(trace)
    assert said["rows"] == rows.num_rows > 0
    assert min(rows["time"].to_pylist()) > started
    assert "Traceback" not in err


def test_ctrl_c_ends_a_consumer_with_everything_acknowledged(
    broker: Broker, url: str, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 3000)
    words = ["run", "--queue", queue_name, "--prefetch", "2.5", "--work", "0.002"]
    process = command(*words, "--interval", "0.2", "--json", url=url)
    assert process.stdout is not None
    handled = sum(round(json.loads(process.stdout.readline())["rate"] * 0.2) for _ in range(5))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert handled > 0
    left = 3000 - 0.9 * handled
    # Both at once: the broker's counts lag, and before the consumer came nothing was unacked.
    broker.management.wait_for_queue(
        queue_name,
        lambda view: view.messages_unacknowledged == 0 and view.messages_ready <= left,
        "nothing is unacknowledged, and what was handled is gone",
    )


def test_a_handler_that_raises_stops_the_consumer_and_loses_nothing(
    broker: Broker,
    url: str,
    queue_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(broker.parameters, queue_name, 20)
    (tmp_path / "shop_handlers.py").write_text(
        "def handle(body, properties):\n"
        "    if int(body) == 7:\n"
        "        raise ValueError('no such order')\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["run", "--queue", queue_name, "--prefetch", "1"]
    assert main([*words, "--handler", "shop_handlers:handle"]) == 2
    said = capsys.readouterr().err
    assert "no such order" in said
    assert "Traceback" not in said
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == 13, "the other 13 messages"
    )


def test_handlers_run_in_a_pool(
    broker: Broker, url: str, queue_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(broker.parameters, queue_name, 2000)
    words = ["run", "--queue", queue_name, "--prefetch", "8", "--work", "0.02", "--workers", "8"]
    assert main([*words, "--interval", "0.5", "--samples", "4", "--json"]) == 0
    rates = [json.loads(line)["rate"] for line in capsys.readouterr().out.splitlines()]
    # One thread cannot do more than 50 a second.
    assert max(rates) > 100


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--queue", "nowhere"], "nowhere"),
        (["--queue", "x", "--url", f"amqp://guest:{SECRET}@127.0.0.1:1/%2F"], "cannot connect"),
        (["--queue", "x", "--url", f"http://guest:{SECRET}@127.0.0.1/"], "not one of AMQP"),
        (["--queue", "x", "--url", f"amqp://guest:{SECRET}@127.0.0.1:port/"], "not one that pika"),
    ],
)
def test_a_broker_or_queue_that_is_not_there_gets_one_sentence(
    url: str, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rest in (
        ("run", ["--work", "0", "--prefetch", "1"]),
        ("load", ["--rate", "1", "--count", "1"]),
    ):
        assert main([name, *words, *rest]) == 2
        said = capsys.readouterr().err
        assert says in said
        assert len(said.strip().splitlines()) == 1
        assert SECRET not in said


def test_a_wrong_password_is_not_repeated(
    broker: Broker, queue_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host, port = broker.address
    url = f"amqp://guest:{SECRET}@{host}:{port}/%2F"
    assert main(["run", "--url", url, "--queue", queue_name, "--work", "0", "--prefetch", "1"]) == 2
    captured = capsys.readouterr()
    assert SECRET not in captured.err + captured.out
    assert "cannot connect" in captured.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--work", "0", "--goal", "400"], "--controller"),
        (["run", "--work", "0", "--controller", "pi"], "--goal"),
        (["run", "--work", "-1", "--prefetch", "1"], "--work"),
        (["run", "--handler", "nomodule", "--prefetch", "1"], "module:function"),
        (["run", "--handler", "nomodule:f", "--prefetch", "1"], "cannot load"),
        (["run", "--handler", "sys:path", "--prefetch", "1"], "not a function"),
        (["run", "--work", "0"], "no prefetch"),
        (["load", "--experiment", "nothing"], "rosa"),
        (["load", "--rate", "0"], "above 0"),
        (["load", "--experiment", "rosa", "--size", "5"], "one of the two"),
    ],
)
def test_what_cannot_be_run_is_refused(
    url: str, queue_name: str, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--queue", queue_name]) == 2
    assert says in capsys.readouterr().err
