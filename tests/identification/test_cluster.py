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
from identification.aggregation import Sorting, cells_of
from identification.continuous import RunningStatistics
from identification.reading import read_traces
from identification.statistics import Forgetting
from tests.identification.servers import cluster, connect
from tests.identification.test_continuous import same

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


PROGRAM = """
import json, sys
from dataclasses import asdict
from controlmq.cli.main import main
from identification import identify
from identification.parallel import over, parallelism
from identification.session import session

def python_of(point):
    import sys
    return sys.executable

if __name__ == "__main__":
    where, traces, models = sys.argv[1:]
    option = "--master" if where.startswith("spark:") else "--remote"
    with session(where) if option == "--master" else session(remote=where) as spark:
        # Spark's 200, each nearly empty, would take most of the time.
        spark.conf.set("spark.sql.shuffle.partitions", "8")
        follow = ["follow", traces, "--out", models, "--half-life", "120", option, where]
        for _ in range(2):
            assert main([*follow, "--once"]) == 0
        fits = [asdict(fit.model) for fit in identify(spark, traces)]
        cores = parallelism(spark)
        pythons = sorted({python for _, python in over(spark, python_of, range(4))})
    print(json.dumps({"fits": fits, "cores": cores, "pythons": pythons}))
"""


class Server(Protocol):
    def __call__(self, folder: Path, /) -> AbstractContextManager[str]: ...


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three consumers in three files each, noisy.

    In whole sixteenths, so that sums of products are exact in whatever order Spark adds them.
    """
    folder = tmp_path_factory.mktemp("traces")
    draw = random.Random(5)
    for group in range(3):
        for part in range(3):
            rows, y = [], 500.0
            for k in range(200):
                u = round(16 * draw.uniform(1, 20)) / 16
                y_next = round(16 * (0.2 * y + (50 + group) * u + 30 + draw.gauss(0, 10))) / 16
                rows.append(
                    Transition(f"g{group}", f"t{part}", k, k + 1.0, 1.0, u, y, y_next, True)
                )
                y = y_next
            write_transitions(folder / f"{group}-{part}.parquet", rows)
    return folder


@pytest.mark.parametrize("server", [cluster, connect])
def test_a_server_gives_the_models_and_statistics_of_local_mode(
    server: Server, traces: Path, tmp_path: Path, spark: SparkSession
) -> None:
    with server(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, address, str(traces), str(tmp_path / "models")],
            capture_output=True,
            text=True,
            timeout=1000,
        )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    here = [fit.model for fit in identify(spark, traces)]
    assert len(said["fits"]) == len(here) == 3
    for there, model in zip(said["fits"], here, strict=True):
        assert model is not None
        for name in ("a", "b", "c", "interval"):
            assert there[name] == pytest.approx(getattr(model, name), rel=1e-12)
        assert there["linear_range"] == pytest.approx(list(model.linear_range), rel=1e-12)
        assert_close(there["standard_errors"], vars(model.standard_errors))
        assert_close(there["quality"], vars(model.quality))
    followed = RunningStatistics.load(tmp_path / "models" / ".follow" / "statistics.zip")
    weights = Forgetting(120.0, followed.reference)
    same(followed.statistics(), cells_of(read_traces(spark, traces), Sorting(forgetting=weights)))
    assert followed.seen.samples() == 3 * 3 * 200
    assert (tmp_path / "models" / "g0.json").exists()
    assert said["cores"] == 2
    assert said["pythons"] == [sys.executable]


def assert_close(there: dict[str, Any], here: dict[str, Any]) -> None:
    assert there == {name: pytest.approx(value, rel=1e-12) for name, value in here.items()}
