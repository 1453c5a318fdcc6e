"""``controlmq identify``: models from recorded traces, on Spark."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import add_json, new_command, number
from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.cli.arguments import Commands
    from identification import Fit

TEACHING = """\
A trace is a folder of Parquet files with a row for every sample: prefetch u(k), rate y(k) and
the rate y(k+1) that followed. 'controlmq simulate --trace' writes one. Every group in it gets a
model of its own, fitted on three quarters of the samples and tested on the rest.

A model is refused, with the reason, when it would mislead: R2 below 0.8, a ramp (on which
nothing tells a from b; use levels in random order), a constant prefetch, too few rows.

examples:
  controlmq identify traces/
  controlmq identify traces/ --out model.json
  controlmq identify fleet/ --out models/ --json
  controlmq identify traces/ --linear-range 1 20
"""


def add_to(commands: Commands) -> None:
    """Register the command."""
    parser = new_command(commands, "identify", "fit models to recorded traces, on Spark", TEACHING)
    parser.add_argument("trace", help="a Parquet file, or a folder of them")
    parser.add_argument(
        "--out",
        metavar="PATH",
        help="write the model to this .json file, or every group's model into this folder",
    )
    parser.add_argument(
        "--linear-range",
        nargs=2,
        type=number,
        metavar=("LOW", "HIGH"),
        help="fit between these prefetches (default: below the knee found in the data)",
    )
    parser.add_argument(
        "--no-offset", action="store_true", help="force the model through the origin, c = 0"
    )
    parser.add_argument(
        "--held-out", type=number, default=0.25, metavar="SHARE", help="share of samples to test on"
    )
    parser.add_argument(
        "--master", default="local[*]", help="Spark master to run on (default local[*])"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fit, print, write; exit 2 when no group could be identified."""
    from controlmq.cli.output import console, print_json
    from identification import identify
    from identification.session import session

    linear_range = tuple(arguments.linear_range) if arguments.linear_range else None
    view = console(to_stderr=True)
    with view.status("starting Spark") as status, session(arguments.master) as spark:
        status.update("fitting")
        fits = identify(
            spark,
            arguments.trace,
            offset=not arguments.no_offset,
            linear_range=linear_range,
            held_out=arguments.held_out,
        )
    written = _write(fits, Path(arguments.out)) if arguments.out else []
    if arguments.json:
        print_json({"groups": [as_data(fit) for fit in fits], "written": written})
    else:
        _show(fits, written)
    if all(fit.model is None for fit in fits):
        what = fits[0].reason if len(fits) == 1 else f"none of {len(fits)} groups was identified."
        raise InputError(f"no model: {what}")
    return 0


def as_data(fit: Fit) -> dict[str, Any]:
    """One group's model, or the reason there is none, in JSON types."""
    estimates = fit.estimates
    return {
        "group": fit.group,
        "model": json.loads(fit.model.to_json()) if fit.model else None,
        "reason": fit.reason,
        "estimates": {"a": estimates.a, "b": estimates.b, "c": estimates.c} if estimates else None,
        "condition": fit.condition,
        "knee": fit.knee.prefetch if fit.knee else None,
        "rows": fit.rows,
        "rows_starved": fit.rows_starved,
        "rows_outside": fit.rows_outside,
    }


def _write(fits: list[Fit], out: Path) -> list[str]:
    models = [(fit.group, fit.model) for fit in fits if fit.model is not None]
    if not models:
        return []
    if out.suffix == ".json":
        if len(fits) > 1:
            raise InputError(f"{len(fits)} groups do not fit into {out}; name a folder with --out.")
        models[0][1].save(out)
        return [str(out)]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}.") from None
    written: list[str] = []
    for group, model in models:
        name = re.sub(r"[^\w.-]", "_", group).lstrip(".") or "group"
        path = out / f"{name}.json"
        count = 2
        while str(path) in written:
            path, count = out / f"{name}-{count}.json", count + 1
        model.save(path)
        written.append(str(path))
    return written


def _show(fits: list[Fit], written: list[str]) -> None:
    from rich.table import Table

    from controlmq.cli.output import console, say

    table = Table(title="y(k+1) = a y(k) + b u(k) + c")
    for column in ("group", "a", "b", "c", "linear range", "R2 train", "R2 test", "RMSE test"):
        table.add_column(column, justify="left" if column == "group" else "right")
    for fit in fits:
        model = fit.model
        if model is None or model.quality is None:
            continue
        low, high = model.linear_range
        table.add_row(
            fit.group,
            f"{model.a:.4f}",
            f"{model.b:.3f}",
            f"{model.c:.2f}",
            f"{low:.1f} to {high:.1f}",
            f"{model.quality.r2_train:.4f}",
            "" if model.quality.r2_test is None else f"{model.quality.r2_test:.4f}",
            "" if model.quality.rmse_test is None else f"{model.quality.rmse_test:.3g}",
        )
    view = console()
    if table.row_count:
        view.print(table)
    for fit in fits:
        if fit.model is None and len(fits) > 1:
            say(view, f"{fit.group}: no model: {fit.reason}")
        if fit.rows_starved:
            say(view, f"{fit.group}: {fit.rows_starved} of {fit.rows} rows starved, not fitted")
    for path in written:
        say(view, f"written to {path}")
