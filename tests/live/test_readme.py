"""The README's consumer runs against a real broker, as it stands."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from controlmq import ArxModel
from tests.testbed import Broker
from tests.testbed.publishing import fill

README = Path(__file__).parent.parent.parent / "README.md"


def test_the_two_lines_hold_a_goal(broker: Broker, queue_name: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    (code,) = [block for block in blocks if "start_consuming" in block]
    code = code.replace('"orders"', repr(queue_name))
    ArxModel(0.0, 300.0, 0.0, 1.0, (0.0, 10.0)).save(tmp_path / "model.json")
    fill(broker.parameters, queue_name, 2000)
    # The broker's counts lag: not before it has them all do fewer mean that some are handled.
    broker.management.wait_for_queue(
        queue_name, lambda view: view.messages_ready == 2000, "all messages there"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", f"url = {broker.url!r}\n{code}"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        broker.management.wait_for_queue(
            queue_name,
            lambda view: view.messages_ready < 1500,
            "a quarter of the messages is handled",
        )
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
