"""jms2009-PS: where each type of message goes, and with which flags."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlmq.errors import InputError
from simulator.studies.specjms import Delivery, Option, passes, run, vertical, workload
from simulator.studies.specjms.options import central
from tests.simulator.specjms.published import SHORT


def test_everything_may_go_through_one_topic() -> None:
    built = workload(vertical(45), SHORT, types=central())
    assert [exchange.name for exchange in built.scenario.exchanges] == ["central"]
    assert passes(run(built))


def test_a_topic_is_a_fanout_unless_subscribers_get_only_some_of_it() -> None:
    built = workload(vertical(45), SHORT)
    assert {exchange.name: exchange.kind for exchange in built.scenario.exchanges} == {
        "callForOffers": "topic",
        "priceUpdate": "fanout",
        "productAnnouncement": "fanout",
        "creditCardHL": "fanout",
    }
    (one,) = workload(vertical(45), SHORT, types=central()).scenario.exchanges
    assert one.kind == "topic"


def test_options_that_cannot_be_are_refused() -> None:
    queue = Delivery(topic=False, persistent=True, transactional=True, durable=True)
    topic = replace(queue, topic=True)
    with pytest.raises(InputError, match="cannot share"):
        workload(vertical(1), types={"order": Option(queue, "central")})
    with pytest.raises(InputError, match="several locations at once"):
        workload(vertical(1), types={"priceUpdate": Option(topic, "location")})
    with pytest.raises(InputError, match="destination is 'moon'"):
        Option(topic, "moon")


def test_destinations_are_shared_as_asked() -> None:
    topic = Delivery(topic=True, persistent=True, transactional=True, durable=True)
    for destination, exchange in (
        ("type", "order"),
        ("interaction", "interaction 1"),
        ("location-type", "DC"),
        ("location", "DC1"),
        ("location-and-type", "DC1/order"),
    ):
        built = workload(vertical(5), SHORT, types={"order": Option(topic, destination)})
        assert exchange in [each.name for each in built.scenario.exchanges]
