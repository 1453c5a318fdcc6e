"""``controlmq design``: gains by pole placement, with the analysis of the closed loop."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import (
    Commands,
    add_model,
    complex_number,
    model_from,
    new_command,
    number,
)
from controlmq.controllers.controller_file import KINDS
from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.design import Design

TEACHING = """\
examples:
  controlmq design --model model.json --controller pi --settling 8 --overshoot 5
  controlmq design --a 0.2631 --b 59.73 --controller pi --poles 0.5+0.33166j 0.5-0.33166j
  controlmq design --a 0.2631 --b 59.73 --controller pid --polynomial 1 -0.7 -0.063 0.11
  controlmq design --model model.json --controller pi --out controller.json

Poles nearer 0 answer faster and amplify more noise; poles nearer the unit circle are slow, and
outside it the loop is unstable. A modulus margin above 0.5 is comfortable. The file written
with --out is what controlmq.wrap, 'controlmq run' and 'controlmq simulate' take.
"""


def add_to(commands: Commands) -> ArgumentParser:
    """Register the command."""
    parser = new_command(
        commands, "design", "compute a controller's gains from a model by pole placement", TEACHING
    )
    parser.add_argument("--controller", choices=KINDS, default="pi", help="the law (default pi)")
    add_model(parser)
    wish = parser.add_argument_group(
        "what you want (one of; default: the published poles, for P a pole at 0.3)"
    )
    wish.add_argument("--poles", nargs="+", type=complex_number, metavar="POLE")
    wish.add_argument(
        "--polynomial",
        nargs="+",
        type=number,
        metavar="C",
        help="coefficients, highest power first",
    )
    wish.add_argument("--settling", type=number, metavar="SAMPLES", help="samples until settled")
    wish.add_argument(
        "--overshoot", type=number, metavar="PERCENT", help="with --settling (default 0)"
    )
    parser.add_argument(
        "--derivative-filter",
        type=number,
        default=0.0,
        metavar="F",
        help="0 (none) to below 1: smooths the derivative of a PID",
    )
    parser.add_argument(
        "--setpoint-weight",
        type=number,
        default=1.0,
        metavar="W",
        help="0 to 1: below 1, a step of the goal kicks less",
    )
    parser.add_argument(
        "--allow-unstable", action="store_true", help="show an unstable design instead of refusing"
    )
    parser.add_argument("--out", metavar="FILE", help="write the controller to a file")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Design, print, and write the file if asked for."""
    from controlmq.design import design_controller

    model = model_from(arguments)
    if model is None:
        raise InputError("there is no model to design for; give --model FILE, or --a and --b.")
    design = design_controller(
        model,
        arguments.controller,
        poles=arguments.poles,
        polynomial=arguments.polynomial,
        settling_samples=arguments.settling,
        overshoot=arguments.overshoot,
        derivative_filter=arguments.derivative_filter,
        setpoint_weight=arguments.setpoint_weight,
        allow_unstable=arguments.allow_unstable,
    )
    if arguments.out:
        design.tuning.save(Path(arguments.out))
    if arguments.json:
        from controlmq.cli.output import print_json

        print_json(as_data(design))
    else:
        _show(design, arguments.out)
    return 0


def as_data(design: Design) -> dict[str, Any]:
    """The design as JSON types: gains on top, then what the loop does with them."""
    from controlmq.design import p_stable_range

    content: dict[str, Any] = {
        "controller": design.tuning.kind,
        **asdict(design.tuning.gains),
        "polynomial": list(design.polynomial),
        "analysis": asdict(design.analysis),
    }
    if design.tuning.kind == "p":
        content["stable_range"] = list(p_stable_range(design.tuning.model))
    return content


def _show(design: Design, out: str | None) -> None:
    from rich.table import Table

    from controlmq.cli.output import complex_text, console, say
    from controlmq.design import p_stable_range

    analysis, gains = design.analysis, design.tuning.gains
    table = Table(title=f"{design.tuning.kind.upper()} controller", show_header=False)
    table.add_row("Kp", f"{gains.kp:.7g}")
    if design.tuning.kind != "p":
        table.add_row("Ki", f"{gains.ki:.7g}")
    if design.tuning.kind == "pid":
        table.add_row("Kd", f"{gains.kd:.7g}")
    if design.tuning.kind == "p":
        low, high = p_stable_range(design.tuning.model)
        table.add_row("stable for Kp in", f"{low:.6f}..{high:.6f}")
    table.add_row("closed-loop poles", ", ".join(complex_text(pole) for pole in analysis.poles))
    table.add_row("stable", "yes" if analysis.stable else "NO")
    if analysis.stable:
        settled = analysis.settling_samples
        table.add_row("settles within", f"{settled} samples" if settled else "not in 400 samples")
        table.add_row("overshoot", f"{analysis.overshoot:.2f} % of a goal step")
        table.add_row("steady-state error", f"{abs(100 * analysis.steady_state_error):.2f} %")
        table.add_row("gain margin", f"{analysis.gain_margin:.2f}")
        table.add_row("modulus margin", f"{analysis.modulus_margin:.2f}")
    view = console()
    view.print(table)
    if out:
        say(view, f"written to {out}")
