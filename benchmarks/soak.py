"""Ten million messages through one process: none lost, memory flat.

The prefetch moves at random at every sample, and the consumer connects again every 100,000
messages. What it has seen so far is appended to a file a hundred times, so that a soak that is
interrupted still tells. ``SOAK_MESSAGES`` is the number of messages, ``SOAK_RECORD`` names the
file. What was found goes into docs/faults.md::

    SOAK_RECORD=soak.jsonl python -m benchmarks soak > soak.json
    python -m benchmarks.soak --page soak.json
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import pages
from tests.faults.soak import soak
from tests.testbed import start_broker

MESSAGES = 10**7
RECONNECT_EVERY = 100_000
MEMORY_CHANGE_PERCENT = 5.0


def run() -> dict[str, Any]:
    count = int(float(os.environ.get("SOAK_MESSAGES", MESSAGES)))
    record = os.environ.get("SOAK_RECORD")
    with start_broker() as broker:
        version = ".".join(map(str, broker.version))
        result = soak(
            broker, "classic", count, RECONNECT_EVERY, record=Path(record) if record else None
        )
    return {"rabbitmq": version, **result, "met": met(result)}


def met(found: Mapping[str, Any]) -> bool:
    """Whether nothing was lost or requeued, and memory stayed as it was."""
    return bool(
        found["lost"] == found["requeued"] == 0
        and found["duplicates"] <= found["duplicates_bound"]
        and abs(found["memory_change_percent"]) <= MEMORY_CHANGE_PERCENT
    )


def table(found: Mapping[str, Any]) -> str:
    """What one soak found, in Markdown."""
    columns = [
        "messages",
        "connections",
        "changes of the prefetch",
        "lost",
        "requeued",
        "handled twice (bound)",
        "memory, first and last tenth",
        "messages/second",
    ]
    row = [
        f"{found['messages']:,}",
        str(found["connections"]),
        f"{found['changes']:,}",
        str(found["lost"]),
        str(found["requeued"]),
        f"{found['duplicates']} ({found['duplicates_bound']})",
        f"{found['memory_first_tenth_mb']:.1f} MB, {found['memory_last_tenth_mb']:.1f} MB "
        f"({found['memory_change_percent']:+.1f} %)",
        f"{found['messages_per_second']:,.0f}",
    ]
    goal = "met" if met(found) else "not met"
    return "\n\n".join(
        [
            pages.table(columns, [row]),
            f"A {found['queue']} queue of RabbitMQ {found['rabbitmq']}. Goal: 0 lost, 0 requeued, "
            "no more handled twice than the channels that were lost had slots, memory within "
            f"{MEMORY_CHANGE_PERCENT:g} %: {goal}.",
        ]
    )


if __name__ == "__main__":
    sys.exit(pages.write_down("soak", "faults.md", "soak", table, __doc__))
