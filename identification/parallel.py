"""A function over many points, on Spark's executors, with results as they come.

Points are sent in batches, each batch as a Spark job: Spark runs as many jobs side by
side as there are cores, results arrive while others still run, and the same calls work on a
local session, a cluster and Spark Connect.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.utils import is_remote

from controlmq.errors import ControlmqError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Point = TypeVar("Point")
Result = TypeVar("Result")

BATCHES_PER_CORE = 24
"""Enough that progress is seen and the last batches keep all cores busy; few enough that a
job's own cost, some 50 ms, stays small beside its work."""

JOBS_PER_CORE = 2
"""Jobs under way for each core: one runs, one is ready when it ends."""

CANCEL_EVERY_SECONDS = 0.2
"""Between two requests to cancel what is still under way."""


def over(
    spark: SparkSession, function: Callable[[Point], Result], points: Sequence[Point]
) -> Generator[tuple[int, Result], None, None]:
    """``function`` of every point, as ``(number of the point, result)``, in any order.

    Function, points and results must be picklable, the function's module importable by the
    executors. The first point that raises ends all of it; a
    :class:`~controlmq.errors.ControlmqError` is raised again as it was. Leaving the iterator
    early, for example by Ctrl-C, cancels what is under way.
    """
    cores = parallelism(spark)
    size = max(1, -(-len(points) // (cores * BATCHES_PER_CORE)))
    batches = [
        range(start, min(start + size, len(points))) for start in range(0, len(points), size)
    ]
    tag = f"controlmq-{uuid.uuid4().hex}"

    def job(batch: range) -> list[tuple[int, Result]]:
        _tag(spark, tag)
        return _run(spark, function, [(number, points[number]) for number in batch])

    pool = ThreadPoolExecutor(cores * JOBS_PER_CORE, thread_name_prefix="controlmq-job")
    jobs: list[Future[list[tuple[int, Result]]]] = [pool.submit(job, batch) for batch in batches]
    try:
        for done in as_completed(jobs):
            yield from done.result()
    finally:
        for each in jobs:
            each.cancel()
        # A job on its way to Spark is not yet known there: cancel until none is left.
        while wait(jobs, timeout=0).not_done:
            _cancel(spark, tag)
            wait(jobs, timeout=CANCEL_EVERY_SECONDS)
        pool.shutdown(wait=True)


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs side by side, asked in a way that Connect knows too."""
    from pyspark.sql import functions as sf

    rows = spark.range(100_000).select(sf.spark_partition_id().alias("part"))
    return max(1, rows.distinct().count())


def _tag(spark: SparkSession, tag: str) -> None:
    """Mark what this thread starts from now on."""
    if is_remote():
        spark.addTag(tag)
    else:
        # A session's tag is known only to the thread that set it; a context's to all.
        spark.sparkContext.addJobTag(tag)


def _cancel(spark: SparkSession, tag: str) -> None:
    """End what was marked, whichever thread started it."""
    if is_remote():
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobsWithTag(tag)


def _run(
    spark: SparkSession, function: Callable[[Point], Result], batch: Sequence[tuple[int, Point]]
) -> list[tuple[int, Result]]:
    """One batch as one task. The points travel with the function."""

    def work(ignored: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in ignored:
            pass
        for number, point in batch:
            yield pa.RecordBatch.from_pydict({"answer": [_answer(function, number, point)]})

    rows = spark.range(1, numPartitions=1).mapInArrow(work, "answer binary").collect()
    return [_result(bytes(row.answer)) for row in rows]


def _answer(function: Callable[[Any], Any], number: int, point: object) -> bytes:
    """The result of a point; a user's mistake is returned as such, not as a traceback."""
    try:
        return pickle.dumps((number, function(point), None))
    except ControlmqError as error:
        return pickle.dumps((number, None, str(error)))


def _result(answer: bytes) -> tuple[int, Any]:
    number, result, error = pickle.loads(answer)
    if error is not None:
        raise ControlmqError(error)
    return number, result
