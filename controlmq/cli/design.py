"""``controlmq design``: gains by pole placement, with the analysis of the closed loop."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import (
    add_model,
    add_placement,
    complex_number,
    model_from,
    number,
    option,
)
from controlmq.cli.output import complex_text, console, print_json, say
from controlmq.controllers.controller_file import KINDS
from controlmq.errors import InputError
from controlmq.extras import Needs, needs

if TYPE_CHECKING:
    from rich.table import Table

    from controlmq.design import Design
    from controlmq.design.robust import Worst

SUMMARY = "compute a controller's gains from a model by pole placement"
NEEDS: Needs = needs("design")

TEACHING = """\
examples:
  controlmq design --model model.json --controller pi --settling 8 --overshoot 5
  controlmq design --a 0.2631 --b 59.73 --controller pi --poles 0.5+0.33166j 0.5-0.33166j
  controlmq design --a 0.2631 --b 59.73 --controller pid --polynomial 1 -0.7 -0.063 0.11
  controlmq design --model model.json --controller pi --robust --out controller.json
  controlmq design --a 0 --b 80 --controller pi --poles 0 0 --factor 1.5

Poles nearer 0 answer faster and amplify more noise; poles nearer the unit circle are slow, and
outside it the loop is unstable; at 0 they are deadbeat. A modulus margin above 0.5 is
comfortable. Where the model has confidence intervals, or with --factor, the worst over all models
that the consumer may be is stated too. The file written
with --out is what controlmq.wrap, 'controlmq run' and 'controlmq simulate' take.
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    option(parser, "--controller", "the law", default="pi", choices=KINDS)
    add_model(parser)
    wish = parser.add_argument_group(
        "what you want (one of; default: the published poles, for P a pole at 0.3)"
    )
    option(wish, "--poles POLE...", "of the closed loop, such as 0.5+0.3j 0.5-0.3j", complex_number)
    meaning = "coefficients of the closed loop's polynomial, highest power first"
    option(wish, "--polynomial C...", meaning, number)
    add_placement(wish)
    meaning = "0 (none) to below 1: smooths the derivative of a PID"
    option(parser, "--derivative-filter F", meaning, number, 0.0)
    meaning = "0 to 1: below 1, a step of the goal kicks less"
    option(parser, "--setpoint-weight W", meaning, number, 1.0)
    meaning = "of poles without overshoot the fastest that keep a modulus margin of 0.5 "
    meaning += "for all that the model may be"
    option(parser, "--robust", meaning)
    meaning = "by which the model's gain may be off (default: its confidence intervals)"
    option(parser, "--factor F", meaning, number)
    option(parser, "--allow-unstable", "show an unstable design instead of refusing")
    option(parser, "--out FILE", "write the controller to a file")


def run(arguments: Namespace) -> int:
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
        robust=arguments.robust,
        factor=arguments.factor,
    )
    if arguments.out:
        design.tuning.save(Path(arguments.out))
    if arguments.json:
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
        "worst": asdict(design.worst) if design.worst is not None else None,
    }
    if design.tuning.kind == "p":
        content["stable_range"] = list(p_stable_range(design.tuning.model))
    return content


def _add_worst(table: Table, worst: Worst) -> None:
    if not worst.stable:
        table.add_row("at worst", "UNSTABLE")
        return
    settled = worst.settling_samples
    table.add_row("at worst settles within", f"{settled} samples" if settled else "not")
    table.add_row("at worst overshoots", f"{worst.overshoot:.2f} % of a goal step")
    table.add_row("worst modulus margin", f"{worst.modulus_margin:.2f}")


def _show(design: Design, out: str | None) -> None:
    from rich.table import Table

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
    if design.worst is not None:
        table.add_section()
        _add_worst(table, design.worst)
    elif design.tuning.model.confidence_intervals is not None:
        table.add_section()
        table.add_row("worst case", "unknown: the intervals of the model are too wide")
    view = console()
    view.print(table)
    if out:
        say(view, f"written to {out}")
