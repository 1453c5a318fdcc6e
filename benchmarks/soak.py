"""Ten million messages through one process: none lost, memory flat.

The prefetch moves at random at every sample, and the consumer connects again every 100,000
messages. ``SOAK_MESSAGES`` is the number of messages.
"""

from __future__ import annotations

import os
from typing import Any

from tests.faults.soak import soak
from tests.testbed import start_broker

MESSAGES = 10**7
RECONNECT_EVERY = 100_000
MEMORY_CHANGE_PERCENT = 5.0


def run() -> dict[str, Any]:
    count = int(float(os.environ.get("SOAK_MESSAGES", MESSAGES)))
    with start_broker() as broker:
        result = soak(broker, "classic", count, RECONNECT_EVERY)
    return result | {
        "allowed": f"0 lost, 0 requeued, memory within {MEMORY_CHANGE_PERCENT:g} %",
        "met": result["lost"] == result["requeued"] == 0
        and result["duplicates"] <= result["duplicates_bound"]
        and abs(result["memory_change_percent"]) <= MEMORY_CHANGE_PERCENT,
    }
