"""``controlmq ingest``: raw samples to transitions, on Spark."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from controlmq.cli.arguments import number, option
from controlmq.cli.output import console, print_json, say
from controlmq.cli.spark import add_spark, spark_session
from controlmq.errors import InputError
from controlmq.extras import Needs, needs

if TYPE_CHECKING:
    from identification.ingest import Ingested

SUMMARY = "make traces of raw samples, on Spark"
NEEDS: Needs = needs("identification")

TEACHING = """\
A raw sample is one interval of one consumer. Its columns:

  group           the consumer
  trace           one recording of it (may be left out)
  sample, time    its number, its end in seconds or as a timestamp: one of the two, or both
  interval        its length in seconds (else the distance in time, or --interval)
  prefetch, rate  the prefetch in force, the messages/second that arrived
  window_limited  whether the window, not an empty queue, was the limit (else taken for true)

What is called otherwise in the files is named with --column. Neighbouring samples become
transitions; across a gap there is none. Samples that cannot be used go to OUT/_quarantine with the
reason, and are counted. Running again replaces OUT with the same.

examples:
  controlmq ingest samples.csv --out traces/
  controlmq ingest logs/ --out traces/ --column group=consumer --column prefetch=qos
  controlmq ingest samples.jsonl --out traces/ --keep queue && \\
  controlmq identify traces/ --group-by queue
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "raw", nargs="+", help="CSV, JSON lines or Parquet files, or folders of them"
    )
    option(parser, "--out DIR", "the trace folder to write", required=True)
    meaning = "the raw files call NAME by the name RAW (may be repeated)"
    option(parser, "--column NAME=RAW", meaning, _naming, action="append")
    meaning = "keep this column, to group by (may be repeated)"
    option(parser, "--keep RAW", meaning, action="append")
    option(parser, "--interval SECONDS", "length of a sample, if none is given", number)
    meaning = "samples further apart than this many times the usual are no neighbours"
    option(parser, "--gap TIMES", meaning, number, 1.5)
    add_spark(parser)


def run(arguments: Namespace) -> int:
    """Ingest and print what became of the samples."""
    from identification.ingest import ingest
    from identification.raw import Columns

    named = dict(arguments.column or ())
    if len(named) < len(arguments.column or ()):
        raise InputError("--column names one part of a sample twice; name each once.")
    with spark_session(arguments, "reading samples") as spark:
        done = ingest(
            spark,
            arguments.raw,
            arguments.out,
            columns=Columns(named, arguments.keep or ()),
            interval=arguments.interval,
            gap=arguments.gap,
        )
    if arguments.json:
        print_json({**asdict(done), "written": arguments.out})
    else:
        _show(done, arguments.out)
    if done.transitions == 0:
        raise InputError(
            f"no transition in {done.samples} samples; see {arguments.out}/_quarantine."
        )
    return 0


def _naming(word: str) -> tuple[str, str]:
    name, equals, raw = word.partition("=")
    if not (name and equals and raw):
        raise ArgumentTypeError(f"{word!r} is not of the form NAME=RAW")
    return name, raw


def _show(done: Ingested, out: str) -> None:
    view = console()
    say(view, f"{done.samples} samples: {done.transitions} transitions of {done.traces} traces")
    if done.gaps:
        say(view, f"{done.gaps} gaps, across which there is no transition")
    for reason, count in done.quarantined.items():
        say(view, f"{count} in quarantine: {reason}")
    say(view, f"written to {out}")
