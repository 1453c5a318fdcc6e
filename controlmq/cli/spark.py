"""Where Spark runs: the options of every command that needs it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from controlmq.cli.arguments import option
from controlmq.cli.output import console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_spark(parser: ArgumentParser) -> None:
    """``--master`` and ``--remote``."""
    where = parser.add_mutually_exclusive_group()
    option(where, "--master MASTER", "Spark master to run on", default="local[*]")
    option(where, "--remote URL", "Spark Connect server to run on, such as sc://HOST:15002")


@contextmanager
def spark_session(arguments: Namespace, doing: str) -> Iterator[SparkSession]:
    """The Spark session that the arguments ask for; the terminal shows ``doing`` meanwhile."""
    from identification.session import session

    view = console(to_stderr=True)
    with (
        view.status("starting Spark") as status,
        session(arguments.master, remote=arguments.remote) as spark,
    ):
        status.update(doing)
        yield spark
