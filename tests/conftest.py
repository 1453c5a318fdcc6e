"""A real broker, queues on it and a network before it, for any test that asks for them.

Hypothesis draws the same examples on every run, so that a run says something of the change it
tests; ``pytest --hypothesis-profile=explore`` draws new ones. It would also draw numbers and words
from whatever modules of ours were imported before, which the order of the files decides.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.testbed import Broker, Proxy, start_broker
from tests.testbed.proxy import ROUND_TRIP
from tests.testbed.publishing import DeclareQueue, declared_queue

LIVE = Path(__file__).parent / "live"

DESIGN = "tests/controlmq/test_design.py"
"""The file whose worker also tests the command: python-control takes seconds to import."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as ``live`` what is in that folder, and what asks for a broker from elsewhere."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if LIVE in item.path.parents or {"broker", "disposable_broker"} & set(fixtures):
            item.add_marker(pytest.mark.live)


class BrokerApart(LoadScopeScheduling):
    """Tests side by side: a file at a time, and all with a broker one after another.

    They share the broker, which takes long to start, and have its timing to themselves. Files in
    folders below ``live`` are an exception: they run beside the others, file by file, so that one
    worker does not have to do all the waiting. The other one starts a broker of its own for them.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if test.startswith("TestDesign::"):
            return DESIGN
        return LIVE.name if Path(file).parent.name == LIVE.name else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return BrokerApart(config, log)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One broker for the whole run; do not kill it."""
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
