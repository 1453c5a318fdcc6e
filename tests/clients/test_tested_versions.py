"""A version that was never tested is warned of once, whichever client it is of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from importlib.metadata import version

import aio_pika
import pytest
import taskiq_aio_pika  # noqa: F401 - a program that uses taskiq has imported it
from celery import Celery
from faststream.rabbit import RabbitBroker
from yarl import URL

from controlmq.clients import celery, faststream, tested_versions
from controlmq.clients.aio_pika import adapt, adaptive
from controlmq.clients.dramatiq import AdaptiveRabbitmqBroker
from controlmq.clients.pika import private
from controlmq.clients.tested_versions import warn_if_untested
from tests.clients.test_private import asynchronous


@pytest.fixture(autouse=True)
def _nothing_said_yet() -> Iterator[None]:
    warn_if_untested.cache_clear()
    yield
    warn_if_untested.cache_clear()


def connection_of_aio_pika() -> None:
    async def connect() -> None:
        adaptive(prefetch=2)(URL("amqp://localhost"))

    asyncio.run(connect())


def channel_of_aio_pika() -> None:
    async def open_channel() -> None:
        adapt(aio_pika.Channel(aio_pika.Connection(URL("amqp://localhost"))), prefetch=2)

    asyncio.run(open_channel())


USES: dict[str, tuple[Callable[[], object], list[str]]] = {
    "pika": (lambda: private.check(asynchronous()), ["pika"]),
    "aio-pika": (connection_of_aio_pika, ["aio-pika", "aiormq"]),
    "a channel of aio-pika": (channel_of_aio_pika, ["aio-pika", "aiormq"]),
    "taskiq": (connection_of_aio_pika, ["taskiq", "taskiq-aio-pika"]),
    "Dramatiq": (lambda: AdaptiveRabbitmqBroker(url="amqp://localhost"), ["dramatiq"]),
    "FastStream": (lambda: faststream.adapt(RabbitBroker(), at_most=5), ["faststream"]),
    "Celery": (lambda: celery.adapt(Celery("shop")), ["celery"]),
}
"""How each client is used first, and what it stands on."""


@pytest.mark.parametrize(("use", "distributions"), USES.values(), ids=USES)
def test_every_client_warns_of_a_version_that_was_never_tested(
    use: Callable[[], object],
    distributions: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tested_versions, "version", lambda distribution: "99.0")
    for _ in range(3):
        use()
    for distribution in distributions:
        said = [each for each in caplog.messages if each.startswith(f"{distribution} 99.0 was")]
        assert len(said) == 1


@pytest.mark.parametrize(("use", "distributions"), USES.values(), ids=USES)
def test_no_client_warns_of_the_version_it_is_tested_with(
    use: Callable[[], object], distributions: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    use()
    assert caplog.messages == []


def test_the_sentence_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    warn_if_untested("pika", "0.12", "0.13")
    assert caplog.messages == [
        f"pika {version('pika')} was never tested with controlmq; 0.12 or 0.13 was: if consumers "
        "misbehave, install that"
    ]


def test_nothing_is_said_of_what_is_not_installed(caplog: pytest.LogCaptureFixture) -> None:
    warn_if_untested("no-such-client", "1.0")
    assert caplog.messages == []
