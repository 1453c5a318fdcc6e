"""The self-optimising clustered queue (Selfware): balancing, provisioning, and two controllers.

On JORAM its authors measured, in messages/ms: 4 producers and 8 consumers on two queues below
0.30 and unstable as clients happen to connect, 0.35 and stable as the cluster elects; a growing
load 1.9 on one queue and 3.7 once a second is provisioned.
"""

from __future__ import annotations

import statistics
from typing import Any

from controlmq.loop import Controller, Step
from simulator.studies.cluster import (
    GrowthFeedback,
    Machines,
    ProvisioningRule,
)
from tests.known.clustered_queue import CAPACITY, balanced, controlled, grown, peak

DRAWS = 50

FORWARD_ABOVE_MESSAGES = 200
"""Messages: far more than wait in a queue whose consumers keep up."""


def summary(steps: list[Step]) -> dict[str, float]:
    rates = [step.sample.rate for step in steps]
    return {
        "queues_at_the_end": steps[-1].sample.prefetch,
        "throughput_at_the_end": rates[-1],
        "worked_on_in_all": sum(step.sample.arrivals for step in steps),
    }


def run() -> dict[str, Any]:
    optimised = balanced("optimised", 0)
    draws = [balanced("default", seed) for seed in range(DRAWS)]
    forwarding = [balanced("default", seed, FORWARD_ABOVE_MESSAGES) for seed in range(DRAWS)]
    default = statistics.fmean(each.throughput for each in draws)
    alone, provisioned = grown(False), grown(True)
    one, two = peak(alone), peak(provisioned)
    controllers: dict[str, Controller] = {
        "rule": ProvisioningRule(),
        "growth_feedback": GrowthFeedback(),
    }
    return {
        "balancing_msg_per_ms": {
            "optimised": optimised.throughput / 1000,
            "optimised_growth_msg_per_s": optimised.growth,
            "default": default / 1000,
            "default_draws": DRAWS,
            "default_unstable_share": statistics.fmean(each.growth > 1 for each in draws),
            "default_with_forwarding": statistics.fmean(e.throughput for e in forwarding) / 1000,
            "forwarding_unstable_share": statistics.fmean(e.growth > 1 for e in forwarding),
            "ratio_optimised_to_default": optimised.throughput / default,
            "wanted": 1.15,
            "met": optimised.throughput >= 1.15 * default,
        },
        "provisioning_msg_per_ms": {
            "one_queue": one / 1000,
            "one_queue_at_the_end": alone[-1].throughput / 1000,
            "provisioned": two / 1000,
            "ratio": two / one,
            "wanted": [1.9, 2.0],
            # To the two digits that the source's figures have.
            "met": 1.9 <= round(two / one, 2) <= 2.0,
        },
        "controllers": {
            name: {
                "clients_as_expected": summary(controlled(controller)),
                "clients_three_times_as_fast": summary(
                    controlled(
                        controller,
                        rate=3 * Machines().rate,
                        work=Machines().work / 3,
                        joins=CAPACITY // 6,
                    )
                ),
            }
            for name, controller in controllers.items()
        },
    }
