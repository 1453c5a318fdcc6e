"""A cluster for all tests of this folder, which mend what they break."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.testbed.broker import CHOSEN_BROKER, CONTAINER
from tests.testbed.cluster import Cluster, start_cluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    chosen = os.environ.get(CHOSEN_BROKER, "")
    if chosen.startswith(CONTAINER):
        version = chosen.removeprefix(CONTAINER)
        pytest.skip(f"a cluster is made of private nodes: {CHOSEN_BROKER}={version} runs this.")
    with start_cluster() as cluster:
        yield cluster
