"""The programs of the pages that need a broker run as they stand, and take messages from it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika

from tests.pages import BLOCKS, NEEDS_A_BROKER, Block
from tests.testbed import Broker
from tests.testbed.publishing import declared_queue, fill

MESSAGES = 300
HANDLED = 30
"""Messages after which a program counts as working; the slowest ceiling of a page allows 100/s."""
DEADLINE = 120.0

PROGRAMS = [block for block in BLOCKS if block.mark == NEEDS_A_BROKER]


def test_the_programs_of_the_pages_consume(broker: Broker, tmp_path: Path) -> None:
    assert len(PROGRAMS) >= 5
    with ExitStack() as stack, pika.BlockingConnection(broker.parameters) as connection:
        channel = connection.channel()
        running = {}
        for number, block in enumerate(PROGRAMS):
            queue = stack.enter_context(declared_queue(broker.parameters, "classic"))
            fill(broker.parameters, queue, MESSAGES)
            errors = tmp_path / f"{number}.err"
            program = stack.enter_context(started(block, broker.url, queue, errors))
            running[queue] = (block, program, errors)
        deadline = time.monotonic() + DEADLINE
        while running:
            for queue, (block, program, errors) in [*running.items()]:
                what = f"{block} still has its messages:\n{errors.read_text()}"
                assert program.poll() is None, f"{block} has ended:\n{errors.read_text()}"
                assert time.monotonic() < deadline, what
                waiting = channel.queue_declare(queue, passive=True).method.message_count
                if waiting <= MESSAGES - HANDLED:
                    del running[queue]
            connection.sleep(0.1)


@contextmanager
def started(block: Block, url: str, queue: str, errors: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The block as a program of its own, on this broker and this queue."""
    code = block.text.replace('"amqp://localhost"', repr(url)).replace('"orders"', repr(queue))
    assert url in code, f"{block} names no broker"
    assert queue in code, f"{block} names no queue"
    with errors.open("wb") as stderr:
        program = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=stderr
        )
    try:
        yield program
    finally:
        program.kill()
        program.wait()
