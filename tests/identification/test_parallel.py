"""A function over many points on Spark's executors."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from controlmq.errors import ControlmqError, InputError
from identification.parallel import over, parallelism

pytestmark = pytest.mark.spark


def test_every_point_comes_back_once_with_its_number(spark: SparkSession) -> None:
    points = [(number, f"point {number}") for number in range(53)]
    found = dict(over(spark, lambda point: (point[1], point[0] ** 2), points))
    assert found == {number: (f"point {number}", number**2) for number in range(53)}
    assert list(over(spark, len, [])) == []


def test_executors_run_the_drivers_python_and_share_the_work(spark: SparkSession) -> None:
    found = [where for _, where in over(spark, lambda _: (sys.executable, os.getpid()), range(8))]
    assert {python for python, _ in found} == {sys.executable}
    assert os.getpid() not in {process for _, process in found}
    assert parallelism(spark) == 2


def test_a_mistake_in_one_point_comes_back_as_its_sentence(spark: SparkSession) -> None:
    def refuse(point: int) -> int:
        if point == 3:
            raise InputError("the goal is 0; give a number above 0.")
        return point

    with pytest.raises(ControlmqError, match=r"^the goal is 0; give a number above 0\.$"):
        list(over(spark, refuse, range(10)))


def test_results_come_while_others_run_and_leaving_cancels_those(spark: SparkSession) -> None:
    def wait(point: int) -> int:
        import time

        if point > 0:
            time.sleep(600)
        return point

    # Two cores: one for the point that waits, one for the other, whichever comes first.
    with closing(over(spark, wait, range(2))) as results:
        assert next(results) == (0, 0)
    assert dict(over(spark, lambda point: -point, range(3))) == {0: 0, 1: -1, 2: -2}


def test_leaving_at_once_cancels_jobs_on_their_way_to_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(_: int) -> None:
        import time

        time.sleep(600)

    def leave(_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("identification.parallel.as_completed", leave)
        with pytest.raises(KeyboardInterrupt):
            list(over(spark, wait, range(4)))
    assert dict(over(spark, lambda point: -point, range(3))) == {0: 0, 1: -1, 2: -2}
