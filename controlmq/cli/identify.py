"""``controlmq identify``: models from recorded traces, on Spark."""

from __future__ import annotations

import random
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import add_fit, fit_of, number, option
from controlmq.cli.output import console, print_json, say, table
from controlmq.cli.spark import add_spark, spark_session
from controlmq.errors import InputError
from controlmq.extras import Needs, check, needs

if TYPE_CHECKING:
    from controlmq.model import ArxModel, FitQuality
    from identification import Diagnosis, Fit

SUMMARY = "fit models to recorded traces, on Spark"
NEEDS: Needs = needs("identification")

TEACHING = """\
A trace is a folder of Parquet files with a row for every sample: prefetch u(k), rate y(k) and
the rate y(k+1) that followed. 'controlmq simulate --trace' writes one, 'controlmq ingest' makes one
of raw samples. Every group in it gets a model of its own, fitted on three quarters of the samples
and tested on the rest.

A model is refused, with the reason, when it would mislead: R2 below 0.8, a ramp (on which
a cannot be told from b; use levels in random order), a constant prefetch, too few rows.

--out FOLDER holds a model file for every group, report.html and the table models.parquet.
--diagnose takes a second look at groups: 'flagged' (refused for a poor fit), 'all', a number of
groups drawn at random, or groups by name.

examples:
  controlmq identify traces/
  controlmq identify traces/ --out model.json
  controlmq identify fleet/ --out models/ --json
  controlmq identify fleet/ --group-by group service_time_band --out models/
  controlmq identify traces/ --linear-range 1 20
  controlmq identify traces/ --half-life 86400 --diagnose flagged
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("trace", help="a Parquet file, or a folder of them")
    meaning = "write the model to this .json file, or all models and a report into this folder"
    option(parser, "--out PATH", meaning)
    add_fit(parser)
    option(parser, "--held-out SHARE", "share of samples to test on", number, 0.25)
    meaning = "hold out blocks of samples or whole traces"
    option(parser, "--split", meaning, default="time", choices=("time", "trace"))
    meaning = "rows weigh half as much for every HALF_LIFE seconds of age"
    option(parser, "--half-life SECONDS", meaning, number)
    option(parser, "--diagnose WHICH...", "look closer: flagged, all, N or groups")
    add_spark(parser)


def run(arguments: Namespace) -> int:
    """Fit, print, write; exit 2 when no group could be identified."""
    from identification import diagnose_traces, identify
    from identification.statistics import Forgetting

    if arguments.out and _is_folder(Path(arguments.out)):
        check(needs("reports"), "the report in --out")
    half_life = arguments.half_life
    with spark_session(arguments, "fitting") as spark:
        fits = identify(
            spark,
            arguments.trace,
            **fit_of(arguments),
            held_out=arguments.held_out,
            split=arguments.split,
            forgetting=None if half_life is None else Forgetting(half_life),
        )
        chosen = _chosen(arguments.diagnose, fits) if arguments.diagnose else []
        diagnoses = diagnose_traces(spark, arguments.trace, chosen) if chosen else []
    written = _write(fits, diagnoses, Path(arguments.out)) if arguments.out else []
    if arguments.json:
        data: dict[str, Any] = {"groups": [as_data(fit) for fit in fits]}
        if arguments.diagnose:
            data["diagnoses"] = [vars(each) for each in diagnoses]
        print_json(data | {"written": written})
    else:
        _show(fits, diagnoses, written)
    if all(fit.model is None for fit in fits):
        what = fits[0].reason if len(fits) == 1 else f"none of {len(fits)} groups was identified."
        raise InputError(f"no model: {what}")
    return 0


def as_data(fit: Fit) -> dict[str, Any]:
    """One group's model, or the reason there is none, in JSON types."""
    estimates = fit.estimates
    return {
        "group": fit.group,
        "model": fit.model.as_data() if fit.model else None,
        "reason": fit.reason,
        "cause": fit.cause,
        "estimates": {"a": estimates.a, "b": estimates.b, "c": estimates.c} if estimates else None,
        "condition": fit.condition,
        "knee": fit.knee.prefetch if fit.knee else None,
        "rows": fit.rows,
        "rows_starved": fit.rows_starved,
        "rows_outside": fit.rows_outside,
    }


def _chosen(which: Sequence[str], fits: Sequence[Fit]) -> list[Fit]:
    """The groups to look closer at."""
    if list(which) == ["all"]:
        return list(fits)
    if list(which) == ["flagged"]:
        return [fit for fit in fits if fit.cause in ("poor fit", "unstable", "falling rate")]
    groups = {fit.group for fit in fits}
    if len(which) == 1 and which[0].isdigit() and which[0] not in groups:
        drawn = random.Random(0).sample(range(len(fits)), min(int(which[0]), len(fits)))
        return [fits[number] for number in sorted(drawn)]
    if unknown := sorted(set(which) - groups):
        raise InputError(
            f"there is no group {unknown[0]!r} in the trace; give flagged, all, a number or groups."
        )
    return [fit for fit in fits if fit.group in which]


def _write(fits: Sequence[Fit], diagnoses: Sequence[Diagnosis], out: Path) -> list[str]:
    from controlmq.experiments.fleet.files import write_fleet

    if _is_folder(out):
        return write_fleet(fits, diagnoses, out)
    if len(fits) > 1:
        raise InputError(f"{len(fits)} groups do not fit into {out}; name a folder with --out.")
    model = fits[0].model
    if model is None:
        return []
    model.save(out)
    return [str(out)]


def _is_folder(out: Path) -> bool:
    return out.suffix != ".json"


GROUPS_SHOWN = 40
"""Groups that the terminal lists; the report of a fleet has all."""


def _row(group: str, model: ArxModel, quality: FitQuality) -> list[str]:
    low, high = model.linear_range
    return [
        *(group, f"{model.a:.4f}", f"{model.b:.3f}", f"{model.c:.2f}"),
        *(f"{low:.1f} to {high:.1f}", f"{quality.r2_train:.4f}"),
        "" if quality.r2_test is None else f"{quality.r2_test:.4f}",
        "" if quality.rmse_test is None else f"{quality.rmse_test:.3g}",
    ]


def _show(fits: Sequence[Fit], diagnoses: Sequence[Diagnosis], written: Sequence[str]) -> None:
    view = console()
    rows = [
        _row(fit.group, fit.model, fit.model.quality)
        for fit in fits[:GROUPS_SHOWN]
        if fit.model and fit.model.quality
    ]
    if rows:
        columns = ("group", "a", "b", "c", "linear range", "R2 train", "R2 test", "RMSE test")
        view.print(table("y(k+1) = a y(k) + b u(k) + c", columns, rows, left="group"))
    for fit in fits[:GROUPS_SHOWN]:
        if fit.model is None and len(fits) > 1:
            say(view, f"{fit.group}: no model: {fit.reason}")
        if fit.rows_starved:
            say(view, f"{fit.group}: {fit.rows_starved} of {fit.rows} rows starved, not fitted")
    if len(fits) > GROUPS_SHOWN:
        models = sum(fit.model is not None for fit in fits)
        say(view, f"... {models} of {len(fits)} groups have a model; --out FOLDER lists all")
    for each in diagnoses[:GROUPS_SHOWN]:
        say(view, f"{each.group}: {each.finding}")
    for path in written[-GROUPS_SHOWN:]:
        say(view, f"written to {path}")
