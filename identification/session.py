"""A Spark session that is quiet, local by default and gone afterwards."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from controlmq.errors import ControlmqError, InputError
from controlmq.urls import shown

JAVA_HINT = "install openjdk-17-jre-headless (Debian's name) or set JAVA_HOME to a Java 17"

MASTER = re.compile(r"local(\[(\*|\d+)(, *\d+)?\])?|spark://.+|k8s://.+|yarn")
"""The masters that Spark accepts; its own error message is a page long."""

REMOTE = re.compile(r"sc://([^:/;]+)(?::(\d+))?([/;].*)?$")
STANDALONE = re.compile(r"spark://([^:/,]+):(\d+)$")
CONNECT_PORT = 15002
THROWN = re.compile(r"SparkException: (.+\.)$", re.MULTILINE)
"""Spark's own sentence on why it does not start."""

REACH_SECONDS = 5.0
"""How long a master or server may take to accept a connection."""

PACKAGES = ("controlmq", "identification", "simulator")
"""What executors elsewhere are sent."""

LOCAL_SHUFFLE_PARTITIONS = 8
"""Statistics per group are small: Spark's 200 would be 200 nearly empty tasks."""


@contextmanager
def session(master: str = "local[*]", *, remote: str | None = None) -> Iterator[SparkSession]:
    """A Spark session for a ``with`` block; a session that already runs is used and left on.

    ``master`` is Spark's own notation, ``local[2]`` for two cores of this machine. ``remote``
    is the URL of a Spark Connect server, ``sc://host:15002``, to be used instead. Executors
    elsewhere get this project's code.
    """
    running = _running()
    if running is not None:
        yield running
        return
    spark = _start(master) if remote is None else _connect(remote)
    with _interruptible(), tempfile.TemporaryDirectory(prefix="controlmq-code-") as folder:
        try:
            if remote is not None or not master.startswith("local"):
                _ship_code(spark, Path(folder))
            yield spark
        finally:
            # A Java that was interrupted before it could be stopped warns.
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                spark.stop()


def _running() -> SparkSession | None:
    """The session of this process, whichever thread started it."""
    if SparkContext._active_spark_context is None and not is_remote():
        return None
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C, whatever Java, which is interrupted too, raises then."""
    root = logging.getLogger()
    root.addFilter(_not_of_ctrl_c)
    try:
        yield
    except Exception as error:
        if _came_of_ctrl_c(error):
            raise KeyboardInterrupt from error
        raise
    finally:
        root.removeFilter(_not_of_ctrl_c)


def _not_of_ctrl_c(record: logging.LogRecord) -> bool:
    """Leave out what py4j logs, to the root logger and at length, when it is interrupted."""
    return record.module != "java_gateway"


def _came_of_ctrl_c(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _connect(url: str) -> SparkSession:
    """A session on a Spark Connect server."""
    found = REMOTE.match(url)
    if found is None:
        raise InputError(
            f"the Spark Connect server is {shown(url)}; give sc://HOST or sc://HOST:PORT."
        )
    try:
        import grpc  # type: ignore[import-untyped, unused-ignore]  # noqa: F401 (asked for early)
    except ModuleNotFoundError:
        raise ControlmqError(
            "Spark Connect needs more of pyspark; run: pip install 'pyspark[connect]'"
        ) from None
    _knock("Spark Connect server", found[1], int(found[2] or CONNECT_PORT))
    try:
        return SparkSession.builder.remote(url).getOrCreate()
    except PySparkException as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"the Spark Connect server at {shown(url)} refused: {reason}.") from None


def _knock(what: str, host: str, port: int) -> None:
    """Refuse within seconds an address that Spark would try to reach for minutes."""
    try:
        socket.create_connection((host, port), timeout=REACH_SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"no {what} answers at {host}:{port} ({reason}); start one or name another."
        ) from None


def _ship_code(spark: SparkSession, folder: Path) -> None:
    """Send this project's packages to the executors, so that Python functions run there."""
    here = Path(__file__).resolve().parent.parent
    archive = folder / "controlmq-code.zip"
    with zipfile.ZipFile(archive, "w") as code:
        for package in PACKAGES:
            for file in sorted((here / package).rglob("*")):
                if file.is_file() and file.suffix != ".pyc":
                    code.write(file, file.relative_to(here))
    spark.addArtifacts(str(archive), pyfile=True)


def _start(master: str) -> SparkSession:
    if not MASTER.fullmatch(master):
        raise InputError(
            f"the Spark master is {master!r}; give local[*], local[N], spark://HOST:PORT, yarn or "
            "k8s://URL."
        )
    standalone = STANDALONE.match(master)
    if standalone is not None:
        _knock("Spark master", standalone[1], int(standalone[2]))
    _find_java()
    # Interrupted, py4j logs the broken connection at length before the interrupt gets through.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Workers take their Python from the environment; in local mode the setting
    # spark.pyspark.python alone is not honoured.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(master).setAppName("controlmq")
    conf.set("spark.log.level", "ERROR")
    conf.set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false")
    conf.set("spark.sql.session.timeZone", "UTC")
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        conf.set("spark.driver.host", "127.0.0.1")
        conf.set("spark.driver.bindAddress", "127.0.0.1")
        conf.set("spark.sql.shuffle.partitions", str(LOCAL_SHUFFLE_PARTITIONS))
    # Java announces itself on standard error before any log setting is read, so a quiet
    # start sends that stream to a file: what goes wrong comes back as an exception anyway.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as chatter:
        try:
            if SparkContext._gateway is None:
                output = {"stdout": chatter, "stderr": chatter}
                gateway = launch_gateway(conf, output)  # type: ignore[no-untyped-call]
                return SparkSession(SparkContext(conf=conf, gateway=gateway))
            return SparkSession(SparkContext(conf=conf))
        except PySparkRuntimeError:
            said = _said(chatter)
            refused = THROWN.search(said)
            if refused is not None:
                raise InputError(f"Spark did not start: {refused[1]}") from None
            first = said.partition("\n")[0].strip() or "it gave no reason"
            raise InputError(f"Spark did not start ({first}); {JAVA_HINT} or newer.") from None
        except Py4JError:
            # If a master hangs up, Java reports only its own shutdown.
            raise InputError(
                f"Spark did not start on {master}; see that what answers there is a master of "
                f"Spark {pyspark.__version__}."
            ) from None


def _find_java() -> None:
    """Refuse to start without Java, with a message that says how to get it."""
    home = os.environ.get("JAVA_HOME")
    if home is None:
        if shutil.which("java") is None:
            raise InputError(f"Spark needs Java and there is none; {JAVA_HINT}.")
    elif not os.access(Path(home, "bin", "java"), os.X_OK):
        raise InputError(f"JAVA_HOME is {home}, where there is no bin/java; {JAVA_HINT}.")


def _said(chatter: IO[str]) -> str:
    """What Java wrote; the lines after the first are errors that follow from it."""
    chatter.seek(0)
    return chatter.read().strip()
