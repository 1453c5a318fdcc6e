from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlmq.loop import Transition
from controlmq.traces import write_transitions
from identification.session import session

Record = Callable[[Sequence[Transition]], Path]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session("local[2]") as running:
        yield running


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Writes transitions as a trace folder and returns it."""

    def write(transitions: Sequence[Transition]) -> Path:
        write_transitions(tmp_path / "part.parquet", transitions)
        return tmp_path

    return write
