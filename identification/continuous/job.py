"""The continuous job: a query watches the folder, batches count rows, models are written."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from controlmq.checks import above_zero
from controlmq.errors import ControlmqError, InputError
from identification.continuous.absorbing import Counts, absorb
from identification.continuous.listing import FolderSource, versions
from identification.continuous.model_folder import ModelFolder, NewModel
from identification.continuous.running_statistics import Options, RunningStatistics, start
from identification.continuous.snapshot import held_still
from identification.failures import in_a_sentence
from identification.fit import Fit
from identification.reading import Kinds, as_traces, columns_of, read_files

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_EVERY_SECONDS = 0.2
"""Seconds between looks at whether the query still runs."""

FILES_REMEMBERED_FOR = "36500d"
"""How long Spark's file source remembers a file. With its default of a week it would silently
skip a file that has an older date."""


@dataclass(frozen=True)
class Progress:
    """The result of one batch. ``refused`` has a sentence for each file left out; ``without`` are
    the groups that have no model now, with their reasons. What was published before stays.
    """

    counts: Counts = field(default_factory=Counts)
    published: tuple[NewModel, ...] = ()
    refused: tuple[str, ...] = ()
    without: tuple[Fit, ...] = ()


def follow(
    spark: SparkSession,
    traces: str | os.PathLike[str],
    models: str | os.PathLike[str],
    options: Options,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 10.0,
    once: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Keep the models in the folder ``models`` true to what consumers write to ``traces``.

    Looks for new rows every ``every`` seconds, or ``once`` only. ``checkpoint``, by default
    ``.follow`` in the folder of the models, is where it continues after any kind of end.
    ``traces`` is a folder or, with a scheme (``hdfs://...``), any place that Spark reads, where
    files are then taken for complete and read once. Returns when it is done; Ctrl-C ends it.

    On Spark Connect, which would run batches and keep their files on the server, this process
    watches the folder itself and has the server add up.
    """
    pause = f"{max(1, round(1000 * above_zero('every', every)))} milliseconds"
    publisher = ModelFolder(Path(models))
    place = Path(models, ".follow") if checkpoint is None else Path(checkpoint)
    with _alone(place), in_a_sentence(traces):
        follower = _Follower(str(traces), place, publisher, options, on_progress)
        if _behind_connect(spark):
            _watch(spark, follower, every, once)
            return
        query = (
            follower.stream(spark)
            .writeStream.foreachBatch(follower.on_batch)
            .option("checkpointLocation", (place / "spark").absolute().as_uri())
            .trigger(**({"availableNow": True} if once else {"processingTime": pause}))
            .start()
        )
        _wait(query, follower)


class _Follower:
    """What a batch needs to know."""

    def __init__(
        self,
        traces: str,
        place: Path,
        publisher: ModelFolder,
        options: Options,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.traces, self.place, self.publisher = traces, place, publisher
        self.remote = "://" in traces
        self.file = place / "statistics.zip"
        self.state = start(self.file, options)
        if not self.file.exists():
            # Spark would mark as done what was not counted.
            shutil.rmtree(place / "spark", ignore_errors=True)
        self.failure: BaseException | None = None
        self._on_progress = on_progress
        self._tell(self._published(self.state, Progress()))

    def stream(self, spark: SparkSession) -> DataFrame:
        """The rows of files elsewhere, the names of files here."""
        if self.remote:
            schema = spark.read.parquet(self.traces).schema
            reader = spark.readStream.schema(schema).option("maxFileAge", FILES_REMEMBERED_FOR)
            return reader.option("recursiveFileLookup", True).parquet(self.traces)
        self.check_folder()
        spark.dataSource.register(FolderSource)
        folder = str(Path(self.traces).absolute())
        return spark.readStream.format(FolderSource.name()).load(folder)

    def check_folder(self) -> None:
        """Refuse a folder that is not there, or not any more."""
        if not self.remote and not Path(self.traces).is_dir():
            raise InputError(
                f"there is no folder {self.traces} to follow; make it, or start what writes to it."
            )

    def on_batch(self, batch: DataFrame, _number: int) -> None:
        """A batch of the query: rows of files elsewhere, the listing of the folder here."""
        try:
            if self.remote:
                rows = as_traces(batch, self.state.options.by)
                state, counts = absorb(self.state, rows, time.time())
                self._done(state, Progress(counts))
            else:
                listing = {str(row.file): str(row.version) for row in batch.toLocalIterator()}
                self.take(batch.sparkSession, listing)
        except BaseException as error:
            self.failure = error
            raise

    def take(self, spark: SparkSession, listing: Mapping[str, str]) -> None:
        """Count what is new in the folder, whose files have these versions."""
        known = self.state.files
        changed = [name for name, version in listing.items() if known.get(name) != version]
        files = (Path(self.traces, name) for name in changed)
        with held_still(files, self.place / "batch") as held:
            state, counts, refused = self._absorb(spark, held)
        self._done(replace(state, files=listing), Progress(counts, refused=tuple(refused)))

    def _done(self, state: RunningStatistics, progress: Progress) -> None:
        """Publish what a batch changes, and only then take it for done."""
        progress = self._published(state, progress)
        state.save(self.file)
        self.state = state
        self._tell(progress)

    def _absorb(
        self, spark: SparkSession, held: Mapping[Path, Path]
    ) -> tuple[RunningStatistics, Counts, list[str]]:
        """Absorb the files that can be read; one that cannot does not hold up the others."""
        files, refused = _sorted_out(held, self.state.options.by)
        while files:
            try:
                rows = read_files(spark, files, self.state.options.by)
                return *absorb(self.state, rows, time.time()), refused
            except (PySparkException, Py4JError) as error:
                damaged = [name for name in files if name.name in str(error)]
                if not damaged:
                    raise
                for name in damaged:
                    refused.append(f"{held[name]} is damaged; its rows are left out.")
                    del files[name]
        return self.state, Counts(), refused

    def _published(self, state: RunningStatistics, progress: Progress) -> Progress:
        """Write the models that changed; returns ``progress`` with them."""
        statistics = state.statistics()
        fits = state.fits(statistics)
        published = tuple(self.publisher.publish(statistics, fits))
        without = tuple(fit for fit in fits if fit.model is None)
        return replace(progress, published=published, without=without)

    def _tell(self, progress: Progress) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)


def _sorted_out(
    held: Mapping[Path, Path], by: Iterable[str]
) -> tuple[dict[Path, Kinds], list[str]]:
    """The files that are traces, with their columns, and of the others why they are not."""
    files: dict[Path, Kinds] = {}
    refused = []
    for name, file in held.items():
        try:
            files[name] = columns_of(name, tuple(by))
        except InputError as error:
            refused.append(str(error).replace(str(name), str(file)))
    return files, refused


def _watch(spark: SparkSession, follower: _Follower, every: float, once: bool) -> None:
    """What the query does, done here: look, and take what has changed."""
    if follower.remote:
        raise InputError(
            f"behind Spark Connect a folder can be followed, but not {follower.traces}; follow it "
            "with a --master."
        )
    never = threading.Event()
    while True:
        follower.check_folder()
        listing = dict(versions(Path(follower.traces)))
        if listing != follower.state.files:
            follower.take(spark, listing)
        if once:
            return
        never.wait(every)


def _wait(query: StreamingQuery, follower: _Follower) -> None:
    """Until the query ends; an interrupt ends it and leaves the batch under way undone."""
    never = threading.Event()
    try:
        while query.isActive:
            never.wait(LOOK_EVERY_SECONDS)
    finally:
        if query.isActive:
            query.stop()
    if follower.failure is not None:
        raise follower.failure
    error = query.exception()
    if error is not None:
        follower.check_folder()
        raise error


def _behind_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def _alone(place: Path) -> Iterator[IO[str]]:
    """Make sure that no other process counts into the same folder."""
    import fcntl

    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = open(place / "lock", "w")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InputError(f"cannot make the checkpoint {place}: {error.strerror}.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ControlmqError(
                f"{place} is in use by another process; stop it, or give another checkpoint."
            ) from None
        yield lock
