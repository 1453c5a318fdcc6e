"""The demo's pictures: the curve, the fit, the poles, the closed loops."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from controlmq.design.analysis import step_response
from controlmq.experiments.demo.experiment import GOALS, ClosedLoop, Outcome
from controlmq.experiments.drawing import COLOURS, MARK, MEASURED, MODEL, one_plot, svg


def pictures(outcome: Outcome) -> dict[str, str]:
    """Every picture as SVG text, by name."""
    drawings: dict[str, Callable[[Outcome], Figure]] = {
        "open-loop": open_loop,
        "prediction": prediction,
        "poles": poles,
        "closed-loop": closed_loop,
        "disturbances": disturbances,
    }
    return {name: svg(draw(outcome)) for name, draw in drawings.items()}


def open_loop(outcome: Outcome) -> Figure:
    """Rate over prefetch, with the knee and the fitted line."""
    figure, axes = one_plot(7.2, 4.0)
    curve, knee = outcome.curve, outcome.curve.knee
    assert knee is not None
    shown = [level for level in curve.levels if level.prefetch <= 2.5 * knee.prefetch]
    axes.plot(
        [level.prefetch for level in shown],
        [level.rate for level in shown],
        "o",
        color=MEASURED,
        markersize=4,
        label="measured on the ramp",
    )
    low, high = outcome.model.linear_range
    axes.plot(
        [low, high],
        [outcome.model.rate_at(low), outcome.model.rate_at(high)],
        color=MODEL,
        linewidth=2.5,
        label=f"model, {outcome.model.gain:.1f} msg/s per message",
    )
    axes.axvline(knee.prefetch, color=MARK, linestyle="--", label=f"knee at {knee.prefetch:.1f}")
    axes.set_xlabel("prefetch u (messages)")
    axes.set_ylabel("arrival rate y (messages/second)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", frameon=False)
    return figure


def prediction(outcome: Outcome) -> Figure:
    """What the model predicts for the next sample against what was observed."""
    figure, axes = one_plot(4.6, 4.4)
    model = outcome.model
    predicted = [model.next_rate(row.y, row.u) for row in outcome.levels]
    observed = [row.y_next for row in outcome.levels]
    ends = [min(predicted), max(predicted)]
    axes.plot(ends, ends, color=MARK, linewidth=1, label="equal")
    axes.plot(predicted, observed, "o", color=MEASURED, markersize=3, alpha=0.6, label="samples")
    axes.set_xlabel("predicted y(k+1) (messages/second)")
    axes.set_ylabel("observed y(k+1) (messages/second)")
    axes.legend(frameon=False)
    return figure


def poles(outcome: Outcome) -> Figure:
    """The closed-loop poles in the unit circle."""
    figure, axes = one_plot(4.6, 4.4)
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color=MEASURED))
    for kind, design in outcome.designs.items():
        found = design.analysis.poles
        axes.plot(
            [pole.real for pole in found],
            [pole.imag for pole in found],
            "x",
            color=COLOURS[kind],
            markersize=9,
            markeredgewidth=2.5,
            label=kind.upper(),
        )
    axes.set_aspect("equal")
    axes.set_xlim(-1.1, 1.1)
    axes.set_ylim(-1.1, 1.1)
    axes.set_xlabel("real part")
    axes.set_ylabel("imaginary part")
    axes.legend(loc="upper left", frameon=False)
    return figure


def closed_loop(outcome: Outcome) -> Figure:
    """Rate and prefetch of every controller at each goal, from the start."""
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    grid = figure.subplots(2, len(GOALS), sharex=True)
    for column, goal in enumerate(GOALS):
        rates, prefetches = grid[0][column], grid[1][column]
        rates.axhspan(0.97 * goal, 1.03 * goal, color="#009e73", alpha=0.15, linewidth=0)
        rates.axhline(goal, color="#009e73", linewidth=1)
        for kind, run in outcome.held[goal].items():
            shown = run.steps[:40]
            numbers = range(len(shown))
            rates.plot(
                numbers, [s.sample.rate for s in shown], color=COLOURS[kind], label=kind.upper()
            )
            prefetches.step(
                numbers, [s.sample.prefetch for s in shown], color=COLOURS[kind], where="mid"
            )
        rates.set_title(f"goal {goal:g} msg/s, band 3 %", fontsize=10)
        rates.set_ylim(0, 1.25 * goal)
        prefetches.set_xlabel(f"sample ({outcome.scenario.sample_interval:g} s each)")
    grid[0][0].set_ylabel("arrival rate (msg/s)")
    grid[1][0].set_ylabel("prefetch (messages)")
    grid[0][0].legend(loc="lower right", frameon=False)
    return figure


def disturbances(outcome: Outcome) -> Figure:
    """The goal step, slower work, the pause and the burst, a row for every controller."""
    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    for axes, (kind, run) in zip(
        figure.subplots(len(outcome.stories), 1, sharex=True), outcome.stories.items(), strict=True
    ):
        _story(axes, outcome, kind, run)
    axes.set_xlabel(f"sample ({outcome.scenario.sample_interval:g} s each)")
    return figure


def _story(axes: Axes, outcome: Outcome, kind: str, run: ClosedLoop) -> None:
    numbers = range(len(run.steps))
    goals = [step.goal for step in run.steps]
    axes.step(numbers, goals, color="#009e73", where="post", label="goal")
    axes.plot(numbers, run.rates, color=COLOURS[kind], label=f"{kind.upper()}, simulated")
    phase = run.events[0].sample
    unit = step_response(outcome.designs[kind].tuning, phase)
    before, after = goals[phase - 1], goals[phase]
    axes.plot(
        range(phase, 2 * phase),
        [before + (after - before) * value for value in unit],
        color="black",
        linestyle=":",
        linewidth=2,
        label="predicted by python-control",
    )
    for event in run.events:
        axes.axvline(event.sample, color=MARK, linewidth=0.8, linestyle="--")
        axes.annotate(
            event.name,
            (event.sample, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -2),
            textcoords="offset points",
            fontsize=7,
            color=MARK,
            va="top",
        )
    axes.set_ylim(0, max(goals) * 1.35)
    axes.set_ylabel("rate (msg/s)")
    axes.legend(loc="lower left", fontsize=8, frameon=False, ncols=3)
