"""Every example runs, consumes its queue and ends on Ctrl-C without losing anything."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import uuid
from itertools import product
from pathlib import Path

import pytest

from controlmq.model import ArxModel
from tests.live.handled import assert_empty, left_in
from tests.live.processes import ended, running, wait_for
from tests.testbed import Broker
from tests.testbed.publishing import declare_queue, delete_queue, fill

EXAMPLES = Path(__file__).parents[2] / "examples"
WATCHED_POOL = Path(__file__).with_name("watched_pool.py")
WATCHED_HANDLERS = Path(__file__).with_name("watched_handlers.py")
CONSUMERS = ["blocking.py", "asyncio_consumer.py", "worker_pool.py"]


def found(pattern: str, line: str) -> str:
    """What a pattern finds in a line that the example printed."""
    match = re.search(pattern, line)
    assert match, line
    return match[1]


@pytest.mark.parametrize(
    ("name", "adapting"), [*product(CONSUMERS, (False, True)), ("shared_rate.py", False)]
)
def test_an_example_consumes_its_queue(
    broker: Broker, queue_name: str, tmp_path: Path, name: str, adapting: bool
) -> None:
    fill(broker.parameters, queue_name, 300)
    model = tmp_path / "model.json"
    ArxModel(a=0.1, b=40.0, c=5.0, interval=1.0, linear_range=(0.0, 20.0)).save(model)
    arguments = [broker.url, queue_name, *([str(model)] if adapting else [])]
    example = subprocess.Popen(
        [sys.executable, "-u", str(EXAMPLES / name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert example.stdout is not None
        handled = 0
        while True:
            line = example.stdout.readline()
            assert line.startswith("Step("), example.communicate(timeout=60)
            handled += int(found(r"arrivals=(\d+)", line))
            if handled == 300 and float(found(r"in_flight=([\d.e-]+)", line)) == 0:
                break
        example.send_signal(signal.SIGINT)
        _, errors = example.communicate(timeout=60)
        assert example.returncode == 0, errors
        assert "Traceback" not in errors
    finally:
        example.kill()
        example.wait()
    assert_empty(broker, queue_name)


@pytest.mark.parametrize(
    ("name", "count", "queues"),
    [
        ("aio_pika_consumer.py", 100, [""]),
        ("faststream_app.py", 100, [""]),
        ("dramatiq_worker.py", 0, ["", ".DQ", ".XQ"]),
        ("taskiq_worker.py", 0, [""]),
    ],
)
def test_an_example_of_another_client_works_and_ends(
    broker: Broker, name: str, count: int, queues: list[str]
) -> None:
    queue = f"example-{uuid.uuid4().hex[:12]}"
    if count:  # the others send to queues of their own making
        declare_queue(broker.parameters, name=queue)
        fill(broker.parameters, queue, count)
    example = subprocess.Popen(
        [sys.executable, "-u", str(EXAMPLES / name), broker.url, queue],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running(example):
        assert example.stdout is not None
        handled, in_flight = 0, 1.0
        while handled < 100 or in_flight:
            line = example.stdout.readline()
            assert line, example.communicate(timeout=60)
            if line.startswith("Step("):
                handled += int(found(r"arrivals=(\d+)", line))
                in_flight = float(found(r"in_flight=([\d.e-]+)", line))
        code, errors = ended(example, signal.SIGINT)
    assert (code, "Traceback" in errors) == (0, False), errors
    try:
        assert_empty(broker, queue)
    finally:
        for suffix in queues:
            delete_queue(broker.parameters, queue + suffix)


@pytest.mark.parametrize(
    ("watched", "name"),
    [
        (WATCHED_POOL, "worker_pool.py"),
        (WATCHED_HANDLERS, "aio_pika_consumer.py"),
    ],
)
def test_no_message_that_was_handled_goes_back_on_ctrl_c(
    broker: Broker, queue_name: str, tmp_path: Path, watched: Path, name: str
) -> None:
    fill(broker.parameters, queue_name, 1000)
    notes = tmp_path / "handled"
    words = [str(EXAMPLES / name), broker.url, queue_name]
    example = subprocess.Popen(
        # -P: the folder of the program has one that is called aio_pika.
        [sys.executable, "-P", str(watched), str(notes), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running(example):
        wait_for(example, lambda: notes.exists() and notes.read_text().count("\n") > 50, "it works")
        code, errors = ended(example, signal.SIGINT)
    assert (code, "Traceback" in errors) == (0, False), errors
    handled = sorted(int(line) for line in notes.read_text().split())
    assert sorted(handled + left_in(broker, queue_name)) == list(range(1000))
