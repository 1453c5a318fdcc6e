"""A connection to the real broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.testbed import Broker
from tests.testbed.publishing import connected


@pytest.fixture
def connection(broker: Broker) -> Iterator[Any]:
    with connected(broker.parameters) as connection:
        yield connection
