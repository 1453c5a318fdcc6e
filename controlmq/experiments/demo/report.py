"""The demo's report: one HTML file with everything in it."""

from __future__ import annotations

from html import escape
from typing import Any

from controlmq.experiments.demo import charts
from controlmq.experiments.demo.experiment import Outcome
from controlmq.experiments.explorable import figure
from controlmq.experiments.page import page, table

TITLE = "controlmq demo"


def report(outcome: Outcome, data: dict[str, Any], drawn: dict[str, str]) -> str:
    """The whole page; ``data`` are the findings, ``drawn`` the pictures by name."""
    model = outcome.model
    sections = [
        _header(outcome, data),
        "<h2>1. The curve</h2>",
        figure(
            drawn["open-loop"],
            f"A ramp shows how far prefetch has authority: up to {data['curve']['knee']:.1f} "
            f"messages ({data['curve']['rate_at_knee']:.0f} msg/s); from there on the handlers are "
            "busy, and more prefetch only hoards messages.",
            charts.open_loop(outcome),
        ),
        "<h2>2. The model</h2>",
        f"<p><code>y(k+1) = {model.a:.4f} y(k) + {model.b:.2f} u(k) {model.c:+.2f}</code>, "
        f"one step being {model.interval:g} s, fitted by Spark on levels in random order inside "
        f"the linear range.</p>",
        _model_table(data["model"]),
        '<div class="pair">',
        figure(drawn["prediction"], "One-step predictions against what was observed."),
        figure(drawn["poles"], "Where the design put the closed-loop poles."),
        "</div>",
        "<h2>3. The controllers</h2>",
        _gains_table(data),
        "<h2>4. The closed loop</h2>",
        figure(
            drawn["closed-loop"],
            "From prefetch 1 to the goal. 450 msg/s lies between two whole prefetches; a "
            "real-valued window reaches it.",
            charts.closed_loop(outcome),
            columns=2,
        ),
        _closed_loop_table(data),
        "<h2>5. A goal step and two disturbances</h2>",
        figure(
            drawn["disturbances"],
            "The goal rises to 600; then work takes twice as long and returns; then publishers "
            "pause until the queue of 1,000 is dry, and come back at twice their rate. P cannot "
            "remove what its model does not know; PI and PID can, and none winds up.",
            charts.disturbances(outcome),
        ),
        _disturbance_table(data),
        "<h2>6. Why not fit a ramp?</h2>",
        _ramp_paragraph(data["ramp_without_offset"]),
    ]
    return page(TITLE, sections)


def _header(outcome: Outcome, data: dict[str, Any]) -> str:
    pi = data["closed_loop"]["pi"]
    published = data["published"]["closed_loop"]["pi"]
    return (
        "<h1>A consumer settles on its goal</h1>\n"
        f"<p>Scenario <b>{escape(outcome.scenario.name)}</b>, seed {outcome.seed}: a simulated "
        "RabbitMQ consumer was measured, modelled and given controllers. At a goal of 400 msg/s "
        f"the PI controller held <b>{pi['mean']:.1f} msg/s</b> with a standard deviation of "
        f"<b>{pi['sd']:.1f}</b>; the loop's authors published {published['mean']:.1f} and "
        f"{published['sd']:.1f} for theirs, on a real broker and a shared network.</p>"
    )


def _model_table(model: dict[str, Any]) -> str:
    errors = model["standard_errors"] or {}
    rows = [
        [name, f"{model[name]:.5g}", f"{errors[name]:.2g}" if errors else ""]
        for name in ("a", "b", "c")
    ]
    fit = [
        ["R2", f"{model['r2_train']:.4f}", f"{model['r2_test']:.4f}"],
        ["RMSE (msg/s)", f"{model['rmse_train']:.3g}", f"{model['rmse_test']:.3g}"],
        ["rows", str(model["rows_train"]), str(model["rows_test"])],
    ]
    return (
        '<div class="pair">'
        + table(["", "estimate", "standard error"], rows)
        + table(["", "training", "held out"], fit)
        + "</div>"
    )


def _gains_table(data: dict[str, Any]) -> str:
    rows = []
    for kind, gains in data["gains"].items():
        analysis = data["analysis"][kind]
        used = {"p": ("kp",), "pi": ("kp", "ki")}.get(kind, ("kp", "ki", "kd"))
        shown = [f"{gain:.6f}" if name in used else "" for name, gain in gains.items()]
        margins = [f"{analysis[margin]:.2f}" for margin in ("gain_margin", "modulus_margin")]
        step = [str(analysis["settling_samples"]), f"{analysis['overshoot']:.1f} %"]
        rows.append([kind.upper(), *shown, *step, *margins])
    columns = ["", "Kp", "Ki", "Kd", "settling", "overshoot", "gain margin", "modulus margin"]
    return table(columns, rows)


def _closed_loop_table(data: dict[str, Any]) -> str:
    rows = []
    for kind in data["gains"]:
        for key, goal in (("closed_loop", 400), ("closed_loop_450", 450)):
            ours = data[key][kind]
            published = data["published"]["closed_loop"][kind] if goal == 400 else None
            settled = ours["settling_samples"]
            settling = "not settled" if settled is None else str(settled)
            held = [f"{ours['mean']:.1f}", f"{ours['sd']:.2f}", settling]
            peer = [f"{published[each]:.1f}" if published else "" for each in ("mean", "sd")]
            rows.append([f"{kind.upper()} at {goal}", *held, f"{ours['overshoot']:.1f} %", *peer])
    columns = ["", "mean", "sd", "settling", "overshoot", "published mean", "published sd"]
    return table(columns, rows)


def _disturbance_table(data: dict[str, Any]) -> str:
    rows = []
    for kind, phases in data["disturbances"].items():
        for phase in phases:
            settled = phase["samples_until_within_5_percent"]
            rates = [f"{phase['lowest']:.0f}", f"{phase['highest']:.0f}"]
            end = [f"{phase['overshoot']:.1f} %", "never" if settled is None else str(settled)]
            rows.append([f"{kind.upper()}: {phase['event']}", *rates, *end])
    columns = ["", "lowest", "highest", "overshoot", "samples until within 5 %"]
    return table(columns, rows)


def _ramp_paragraph(ramp: dict[str, Any]) -> str:
    return (
        f"<p>Take the line <code>{escape(ramp['line'])}</code>, which has no dynamics at all, "
        "ramp u from 1 to 22 and fit it without an offset: least squares answers "
        f"<b>a = {ramp['a']:.4f}, b = {ramp['b']:.2f}</b>, the published model, with an R2 of "
        f"{ramp['r2']:.4f}. The dynamics are made up: on a ramp the rate before and the prefetch "
        "now rise together, and the missing offset has nowhere else to go. Fitted with an offset "
        f"the same rows are refused: {escape(ramp['refusal_with_offset'])} Levels in random order "
        "tell a from b, and a window that settles within a round trip has an a near 0.</p>"
    )
