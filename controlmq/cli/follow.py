"""``controlmq follow``: models that keep up with running consumers, on Spark."""

from __future__ import annotations

import argparse
import json
from argparse import ArgumentParser
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import (
    Commands,
    add_fit,
    add_group_by,
    group_by_of,
    new_command,
    number,
)
from controlmq.cli.spark import add_spark

if TYPE_CHECKING:
    from identification.continuous import NewModel, Progress

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


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(
        commands, "follow", "keep models up to date with running consumers, on Spark", TEACHING
    )
    parser.add_argument("traces", help="the folder that consumers write to")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the models")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="where to continue from (default OUT/.follow)"
    )
    parser.add_argument(
        "--half-life",
        type=number,
        default=600.0,
        metavar="SECONDS",
        help="after which a row weighs half (default 600)",
    )
    parser.add_argument(
        "--every", type=number, default=10.0, metavar="SECONDS", help="between looks (default 10)"
    )
    parser.add_argument("--once", action="store_true", help="take what is there, and end")
    add_group_by(parser)
    add_fit(parser)
    add_spark(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Follow until stopped, printing a line for each change."""
    from controlmq.cli.output import console, say
    from identification.continuous import Options, follow
    from identification.session import session

    options = Options(
        arguments.half_life,
        by=group_by_of(arguments),
        offset=not arguments.no_offset,
        linear_range=tuple(arguments.linear_range) if arguments.linear_range else None,
    )
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
    counts = progress.counts
    return {
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "rows": {
            "new": counts.new,
            "repeated": counts.repeated,
            "forgotten": counts.forgotten,
            "unplaced": counts.unplaced,
        },
        "published": [
            {
                "group": each.group,
                "why": each.why,
                "file": str(each.path),
                "model": json.loads(each.model.to_json()),
            }
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
