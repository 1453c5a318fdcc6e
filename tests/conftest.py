"""A real broker, queues on it and a network before it, for any test that asks for them.

Hypothesis draws the same examples on every run, so that a run says something of the change it
tests; ``pytest --hypothesis-profile=explore`` draws new ones. It would also draw numbers and words
from whatever modules of ours were imported before, which the order of the files decides.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer

from tests.scheduling import LongestFirst, longest_first
from tests.testbed import Broker, Proxy, start_broker
from tests.testbed.proxy import ROUND_TRIP
from tests.testbed.publishing import DeclareQueue, declared_queue

LIVE = Path(__file__).parent / "live"

LOADED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""Nothing is judged by its time on a machine that does other things too."""

settings.register_profile("steady", derandomize=True, **LOADED)
settings.register_profile("explore", **LOADED)
settings.load_profile("steady")
providers._get_local_constants = lambda: providers._local_constants


def pytest_configure() -> None:
    """Hear Ctrl-C, and let programs that are tested hear it, where a shell has switched it off.

    So it does for what it starts in the background.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from what collecting makes: all of it stays to the end.

    It would look through these objects many times, in every worker.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import live tests in every worker where ``-m`` leaves all of them out."""
    left_out = "not live" in config.option.markexpr.split(" and ")
    return True if left_out and collection_path == LIVE else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as ``live`` what is in that folder, and what asks for a broker from elsewhere.

    The order matters where workers share the tests.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if LIVE in item.path.parents or {"broker", "disposable_broker"} & set(fixtures):
            item.add_marker(pytest.mark.live)
    if "PYTEST_XDIST_WORKER" in os.environ:
        longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst:
    return LongestFirst(config, log)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for the whole run, or for the worker's part of it; do not kill it."""
    with start_broker() as broker:
        yield broker


@pytest.fixture
def disposable_broker() -> Iterator[Broker]:
    """A broker of the test's own, to kill and restart."""
    with start_broker(disposable=True) as broker:
        yield broker


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    """A network of 11 ms round trip before the broker."""
    with broker.proxied(delay=ROUND_TRIP / 2) as proxy:
        yield proxy


@pytest.fixture
def queue(broker: Broker) -> Iterator[DeclareQueue]:
    """``queue("quorum")`` declares a queue of that kind, deleted after the test."""
    with ExitStack() as stack:
        yield lambda kind: stack.enter_context(declared_queue(broker.parameters, kind))


@pytest.fixture
def queue_name(queue: DeclareQueue) -> str:
    """An empty classic durable queue."""
    return queue("classic")
