"""``controlmq follow``: models that keep up with running consumers, on Spark."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import add_fit, fit_of, number, option
from controlmq.cli.output import console, say
from controlmq.cli.spark import add_spark
from controlmq.extras import Needs, needs

if TYPE_CHECKING:
    from identification.continuous import NewModel, Progress

SUMMARY = "keep models up to date with running consumers, on Spark"
NEEDS: Needs = needs("identification")

TEACHING = """\
Watches the folder that consumers write their traces to ('controlmq run --trace', or a TraceWriter
given to wrap) and keeps a model file for every group in OUT. Older rows weigh less: half as much
for every half-life. A model file is replaced when the model has changed by more than its
uncertainty, and a consumer that runs with --controller OUT/GROUP.json takes it up.

Stop it with Ctrl-C or in any other way: started again with the same OUT it continues where it was,
counts no row twice and loses none.

examples:
  controlmq follow traces/ --out models/
  controlmq follow traces/ --out models/ --half-life 3600 --every 60
  controlmq follow traces/ --out models/ --group-by group service_time_band
  controlmq follow traces/ --out models/ --once
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("traces", help="the folder that consumers write to")
    option(parser, "--out DIR", "the folder of the models", required=True)
    option(parser, "--checkpoint DIR", "where to continue from (default OUT/.follow)")
    option(parser, "--half-life SECONDS", "age at which a row weighs half", number, 600.0)
    option(parser, "--every SECONDS", "time between looks for new rows", number, 10.0)
    option(parser, "--once", "take what is there, and end")
    add_fit(parser)
    add_spark(parser)


def run(arguments: Namespace) -> int:
    """Follow until stopped, printing a line for each change."""
    from identification.continuous import Options, follow
    from identification.session import session

    options = Options(arguments.half_life, **fit_of(arguments))
    with ExitStack() as stack:
        view = console(to_stderr=True)
        with view.status("starting Spark"):
            spark = stack.enter_context(session(arguments.master, remote=arguments.remote))
        say(view, f"following {arguments.traces}")
        follow(
            spark,
            arguments.traces,
            arguments.out,
            options,
            checkpoint=arguments.checkpoint,
            every=arguments.every,
            once=arguments.once,
            on_progress=print_data if arguments.json else Teller(),
        )
    return 0


class Teller:
    """Prints what a batch changed: new models, rows left out, groups without a model."""

    def __init__(self) -> None:
        self._causes: dict[str, str | None] = {}

    def __call__(self, progress: Progress) -> None:
        """Print the lines that one batch is worth, none if it changed nothing."""
        for sentence in progress.refused:
            _say(sentence)
        counts = progress.counts
        if counts.forgotten:
            _say(f"{counts.forgotten} rows are too old to count and are left out.")
        if counts.unplaced:
            _say(f"{counts.unplaced} rows lack a group, trace, sample or time and are left out.")
        for publication in progress.published:
            _say(_published(publication))
        for fit in progress.without:
            if self._causes.get(fit.group) != fit.cause:
                _say(f"{fit.group}: no model: {fit.reason}")
        self._causes = {fit.group: fit.cause for fit in progress.without}


def print_data(progress: Progress) -> None:
    """Print one batch as one line of JSON."""
    from controlmq.files import json_types

    print(json.dumps(json_types(as_data(progress)), allow_nan=False), flush=True)


def as_data(progress: Progress) -> dict[str, Any]:
    """One batch in JSON types."""
    return {
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "rows": asdict(progress.counts),
        "published": [
            {"group": each.group, "why": each.why, "file": str(each.path)}
            | {"model": each.model.as_data()}
            for each in progress.published
        ],
        "refused": list(progress.refused),
        "without": {fit.group: fit.reason for fit in progress.without},
    }


def _published(publication: NewModel) -> str:
    model = publication.model
    low, high = model.linear_range
    return (
        f"{publication.group}: a {model.a:.4f}, b {model.b:.4g}, c {model.c:.4g}, prefetch"
        f" {low:g} to {high:g}: {publication.path} ({publication.why})"
    )


def _say(sentence: str) -> None:
    print(f"{datetime.now():%H:%M:%S}  {sentence}", flush=True)
