"""The same models wherever Spark runs: here, on a cluster, behind Spark Connect."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import SparkSession

from controlmq.loop import Transition
from controlmq.traces import write_transitions
from identification import identify
from tests.identification.servers import cluster, connect

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


PROGRAM = """
import json, sys
from dataclasses import asdict
from identification import identify
from identification.parallel import over, parallelism
from identification.session import session

def python_of(point):
    import sys
    return sys.executable

if __name__ == "__main__":
    where = sys.argv[1]
    with session(where) if where.startswith("spark:") else session(remote=where) as spark:
        fits = [asdict(fit.model) for fit in identify(spark, sys.argv[2])]
        cores = parallelism(spark)
        pythons = sorted({python for _, python in over(spark, python_of, range(4))})
    print(json.dumps({"fits": fits, "cores": cores, "pythons": pythons}))
"""


class Server(Protocol):
    def __call__(self, folder: Path, /) -> AbstractContextManager[str]: ...


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three consumers in three files each, noisy."""
    folder = tmp_path_factory.mktemp("traces")
    draw = random.Random(5)
    for group in range(3):
        for part in range(3):
            rows, y = [], 500.0
            for k in range(200):
                u = draw.uniform(1, 20)
                y_next = 0.2 * y + (50 + group) * u + 30 + draw.gauss(0, 10)
                rows.append(
                    Transition(f"g{group}", f"t{part}", k, k + 1.0, 1.0, u, y, y_next, True)
                )
                y = y_next
            write_transitions(folder / f"{group}-{part}.parquet", rows)
    return folder


@pytest.mark.parametrize("server", [cluster, connect])
def test_a_server_gives_the_models_of_local_mode(
    server: Server, traces: Path, tmp_path: Path, spark: SparkSession
) -> None:
    with server(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, address, str(traces)],
            capture_output=True,
            text=True,
            timeout=400,
        )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    here = [fit.model for fit in identify(spark, traces)]
    assert len(said["fits"]) == len(here) == 3
    for there, model in zip(said["fits"], here, strict=True):
        assert model is not None
        for name in ("a", "b", "c", "interval"):
            assert there[name] == pytest.approx(getattr(model, name), rel=1e-12)
        assert there["linear_range"] == pytest.approx(list(model.linear_range), rel=1e-12)
        assert_close(there["standard_errors"], vars(model.standard_errors))
        assert_close(there["quality"], vars(model.quality))
    assert said["cores"] == 2
    assert said["pythons"] == [sys.executable]


def assert_close(there: dict[str, Any], here: dict[str, Any]) -> None:
    assert there == {name: pytest.approx(value, rel=1e-12) for name, value in here.items()}
