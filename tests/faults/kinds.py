"""Every kind of fault, and how it is inflicted."""

from __future__ import annotations

import time

from tests.faults.trial import Fault, Trial
from tests.testbed.broker import QUORUM_QUEUE_KEPT
from tests.testbed.publishing import declare_queue

IDLE_BROKER_SECONDS = QUORUM_QUEUE_KEPT
"""Seconds without traffic after which a broker has every ack on disk."""

GONE_SECONDS = 0.2
"""Seconds for which a deleted queue is gone at least. RabbitMQ 3.10.8 cancels no consumer of a
quorum queue that is declared again at once, 19 of 20 times with bare pika, and keeps messages of
the new queue for the consumer of the old one until the channel closes."""

THROTTLED_BYTES_PER_SECOND = 4000.0
"""About 40 deliveries a second."""


def kill_broker(trial: Trial) -> None:
    """SIGKILL, shortly after messages came again to an idle broker."""
    trial.stop_publishing()
    trial.wait_until(trial.handled_all, "all are handled before the broker rests")
    time.sleep(IDLE_BROKER_SECONDS)
    trial.unsettled_since = time.monotonic()
    trial.publish()
    time.sleep(trial.draw.uniform(0.2, 0.6))
    trial.strike()
    trial.broker.kill()
    trial.broker.restart()


def restart_broker(trial: Trial) -> None:
    """An orderly shutdown and a start at once."""
    _let_the_queue_settle(trial)
    trial.broker.stop()
    trial.broker.restart()


def stop_broker(trial: Trial) -> None:
    """An orderly shutdown, and nobody there for some seconds."""
    _let_the_queue_settle(trial)
    trial.broker.stop()
    time.sleep(trial.draw.uniform(2, 5))
    trial.broker.restart()


def _let_the_queue_settle(trial: Trial) -> None:
    """A quorum queue has to be some seconds old to survive, and messages must still come."""
    time.sleep(max(0.0, trial.declared_at + QUORUM_QUEUE_KEPT - time.monotonic()))
    trial.stop_publishing()
    trial.fill(200)
    trial.publish()
    time.sleep(trial.draw.uniform(0, 0.3))
    trial.strike()


def cut(trial: Trial) -> None:
    """Both sides are reset; what was under way is gone."""
    trial.proxy.cut()


def stall(trial: Trial) -> None:
    """Nothing goes through for a while; nothing is gone."""
    trial.proxy.stall()
    time.sleep(trial.draw.uniform(0.5, 2))
    trial.proxy.resume()


def stall_and_cut(trial: Trial) -> None:
    """Nothing goes through for a while, and then it is gone: also acks of half a second."""
    trial.proxy.stall()
    time.sleep(trial.draw.uniform(0.2, 0.8))
    trial.proxy.cut()
    trial.proxy.resume()


def throttle(trial: Trial) -> None:
    """The network is slow for a while."""
    trial.proxy.throttle(THROTTLED_BYTES_PER_SECOND)
    time.sleep(trial.draw.uniform(1, 2))
    trial.proxy.throttle(None)


def kill_consumer(trial: Trial) -> None:
    """SIGKILL, and another one is started."""
    trial.consumer.kill()


def stop_consumer(trial: Trial) -> None:
    """SIGTERM, and another one is started when it has ended."""
    trial.consumer.stop()


def delete_the_queue(trial: Trial) -> None:
    """The queue goes, with its messages, and one of that name comes."""
    trial.stop_publishing()
    trial.strike()
    trial.broker.management.delete_queue(trial.queue)
    # They are gone by the operator's will.
    trial.confirmed.clear()
    time.sleep(trial.draw.uniform(GONE_SECONDS, GONE_SECONDS + 0.5))
    declare_queue(trial.broker.parameters, trial.kind, trial.queue)
    trial.fill(100)
    trial.publish()


def fill_the_disk(trial: Trial) -> None:
    """The broker finds too little room on its disk, and blocks publishers."""
    trial.broker.control("rabbitmqctl", "set_disk_free_limit", "1000000GB")
    time.sleep(trial.draw.uniform(0.5, 2))
    trial.broker.control("rabbitmqctl", "set_disk_free_limit", "1MB")


def lose_leader(trial: Trial) -> None:
    """SIGKILL to the node that leads the queue, in half of the trials the consumer's own."""
    assert trial.cluster is not None
    leader = trial.cluster.leader(trial.queue)
    _let_the_queue_settle(trial)
    leader.kill()
    time.sleep(trial.draw.uniform(0.5, 2))
    trial.cluster.mend()


def itself(trial: Trial) -> None:
    """The consumer does it to itself, as the first message after those before."""
    trial.wait_until(
        lambda: any(line.event == "fault" for line in trial.reader.lines), "it has happened"
    )
    trial.fault_at = min(line.time for line in trial.reader.lines if line.event == "fault")


FAULTS = (
    Fault("broker killed", kill_broker, ends_connection=True, restarts_broker=True),
    Fault("broker restarted", restart_broker, ends_connection=True, restarts_broker=True),
    Fault("broker stopped", stop_broker, ends_connection=True, restarts_broker=True),
    Fault("connection cut", cut, ends_connection=True),
    Fault("connection stalled", stall),
    Fault("connection stalled, then cut", stall_and_cut, ends_connection=True),
    Fault("connection throttled", throttle),
    Fault("consumer killed", kill_consumer, ends_connection=True),
    Fault("consumer stopped", stop_consumer),
    Fault("consumer forked", itself, by_consumer="fork"),
    Fault("queue deleted", delete_the_queue, ends_connection=True),
    Fault("channel error", itself, ends_connection=True, by_consumer="channel_error"),
    Fault("controller raising", itself, by_consumer="failing_controller"),
    Fault("disk full", fill_the_disk, consumer_publishes=True),
    Fault("clock stepped", itself, by_consumer="stepped_clock"),
    Fault(
        "leader lost", lose_leader, ends_connection=True, restarts_broker=True, needs_cluster=True
    ),
)

BY_NAME = {fault.name: fault for fault in FAULTS}
