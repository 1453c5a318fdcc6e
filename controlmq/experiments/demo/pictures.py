"""The demo's pictures: the curve, the fit, the poles, the closed loops."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

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
    prefetches, rates = [level.prefetch for level in shown], [level.rate for level in shown]
    axes.plot(prefetches, rates, "o", color=MEASURED, markersize=4, label="measured on the ramp")
    ends = outcome.model.linear_range
    line = [outcome.model.rate_at(end) for end in ends]
    label = f"model, {outcome.model.gain:.1f} msg/s per message"
    axes.plot(ends, line, color=MODEL, linewidth=2.5, label=label)
    axes.axvline(knee.prefetch, color=MARK, linestyle="--", label=f"knee at {knee.prefetch:.1f}")
    axes.set(xlabel="prefetch u (messages)", ylabel="arrival rate y (messages/second)")
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
    unit = "y(k+1) (messages/second)"
    axes.set(xlabel=f"predicted {unit}", ylabel=f"observed {unit}")
    axes.legend(frameon=False)
    return figure


def poles(outcome: Outcome) -> Figure:
    """The closed-loop poles in the unit circle."""
    figure, axes = one_plot(4.6, 4.4)
    axes.add_patch(Circle((0, 0), 1, fill=False, color=MEASURED))
    for kind, design in outcome.designs.items():
        found = design.analysis.poles
        places = [pole.real for pole in found], [pole.imag for pole in found]
        colour, label = COLOURS[kind], kind.upper()
        axes.plot(*places, "x", color=colour, markersize=9, markeredgewidth=2.5, label=label)
    axes.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
    axes.set(xlabel="real part", ylabel="imaginary part")
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
            shown = [step.sample for step in run.steps[:40]]
            numbers, colour = range(len(shown)), COLOURS[kind]
            rates.plot(numbers, [each.rate for each in shown], color=colour, label=kind.upper())
            prefetches.step(numbers, [each.prefetch for each in shown], color=colour, where="mid")
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
    predicted = [before + (after - before) * value for value in unit]
    label = "predicted by python-control"
    axes.plot(range(phase, 2 * phase), predicted, "k:", linewidth=2, label=label)
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
    axes.set(ylim=(0, max(goals) * 1.35), ylabel="rate (msg/s)")
    axes.legend(loc="lower left", fontsize=8, frameon=False, ncols=3)
