"""Every client, a short cut: a lost connection and one other trial each, its window never still.

``make conformance`` runs all trials on all clients, at full size.
"""

from __future__ import annotations

import pytest

from tests.conformance.drivers import BY_NAME, DRIVERS, Driver
from tests.conformance.goals import GOALS, hold
from tests.conformance.trials import OTHERS, Conformance, attempt
from tests.testbed import Broker
from tests.testbed.publishing import QueueKind

CUT = next(trial for trial in OTHERS if trial.reconnects)
TIMEOUT = OTHERS[-1]
REST = [trial for trial in OTHERS if trial not in (CUT, TIMEOUT)]
LEAST_CHANGES = 20
"""Changes of the prefetch that a trial has at least."""


def assert_passes(
    trial: Conformance, driver: Driver, broker: Broker, kind: QueueKind, seed: int
) -> None:
    with broker.proxied() as proxy:
        # With a consumer timeout the window stays as it is.
        least_changes = 0 if trial is TIMEOUT else LEAST_CHANGES
        result = attempt(trial, driver, broker, proxy, kind, seed, least_changes)
    assert result.failures == []


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_lost_connection(broker: Broker, driver: Driver) -> None:
    assert_passes(CUT, driver, broker, "quorum", seed=3)


@pytest.mark.parametrize(
    ("driver", "trial"),
    [(driver, REST[number % len(REST)]) for number, driver in enumerate(DRIVERS)],
    ids=lambda each: each.name,
)
def test_another_trial(broker: Broker, driver: Driver, trial: Conformance) -> None:
    assert_passes(trial, driver, broker, "classic", seed=4)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_consumer_timeout(broker: Broker, driver: Driver) -> None:
    if not TIMEOUT.possible(broker, "quorum"):
        pytest.skip("RabbitMQ 4.3 is the first to cancel a consumer that is late")
    assert_passes(TIMEOUT, driver, broker, "quorum", seed=5)


def test_a_time_in_the_buffer_is_judged_by_network_and_handler(broker: Broker) -> None:
    (goal,) = [goal for goal in GOALS if goal.name == "buffer time"]
    found = hold(goal, BY_NAME["pika asyncio"], broker, samples=5, interval=0.2)
    assert found["judged_by"] == "stamps"
    assert found["begun"] > 0
    # Whether it is held is not for so short a run to say.
    assert [each for each in found["failures"] if not each.startswith("off by")] == []
