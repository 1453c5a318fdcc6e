"""Starting Spark, and failing to."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlmq.errors import InputError
from identification.session import _start, session


def test_a_missing_java_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError, match="openjdk-17-jre-headless"):
        _start("local[1]")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="where there is no bin/java"):
        _start("local[1]")


def test_a_java_that_fails_is_quoted(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'Error: this Java is too old' >&2\nexit 1\n")
    java.chmod(0o755)
    program = "from identification.session import session\nwith session(): pass"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "InputError: Spark did not start (Error: this Java is too old)" in done.stderr


@pytest.mark.spark
def test_a_session_that_runs_is_used_and_left_on(spark: SparkSession) -> None:
    with session() as again:
        # Spark may wrap the one session of its context again.
        assert again.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_a_session_that_another_thread_started_is_used_too(spark: SparkSession) -> None:
    def look() -> bool:
        with session() as again:
            return again.sparkContext is spark.sparkContext

    with ThreadPoolExecutor(1) as another:
        assert another.submit(look).result()
    assert spark.range(3).count() == 3
