"""What of the demo can be explored: the curve, the closed loops, the disturbances."""

from __future__ import annotations

from controlmq.design.analysis import step_response
from controlmq.experiments.demo.experiment import GOALS, ClosedLoop, Outcome
from controlmq.experiments.drawing import COLOURS, MEASURED, MODEL
from controlmq.experiments.explorable import Mark, Panel, Series

GOAL_COLOUR = "#009e73"
PREDICTED_COLOUR = "#4d4d4d"

TRANSIENT_SAMPLES = (-0.5, 39.5)
"""The samples of a closed loop that are shown at first: until it has settled, as in the picture."""


def open_loop(outcome: Outcome) -> list[Panel]:
    """Rate over prefetch, as far as the ramp went."""
    curve, model, knee = outcome.curve, outcome.model, outcome.curve.knee
    assert knee is not None
    prefetches, rates = zip(*((each.prefetch, each.rate) for each in curve.levels), strict=True)
    ends = model.linear_range
    line = [model.rate_at(end) for end in ends]
    series = [
        Series("measured on the ramp", MEASURED, prefetches, rates, "points"),
        Series("model", MODEL, ends, line),
    ]
    marks = [Mark(knee.prefetch, "knee")]
    axes = "prefetch (messages)", "arrival rate (msg/s)"
    return [Panel("Rate over prefetch", *axes, series, marks)]


def closed_loop(outcome: Outcome) -> list[Panel]:
    """Rate and prefetch of every controller at each goal, all samples."""
    axis = _samples(outcome)
    rates, prefetches = [], []
    for goal in GOALS:
        runs = outcome.held[goal]
        numbers = range(max(len(run.steps) for run in runs.values()))
        goals = Series("goal", GOAL_COLOUR, numbers, [goal] * len(numbers))
        rate = [
            Series(kind.upper(), COLOURS[kind], numbers, run.rates) for kind, run in runs.items()
        ]
        title, label = f"Goal {goal:g} msg/s", "arrival rate (msg/s)"
        rates.append(Panel(title, axis, label, [goals, *rate], at_first=TRANSIENT_SAMPLES))
        prefetch = [
            Series(kind.upper(), COLOURS[kind], numbers, _prefetches(run), "step")
            for kind, run in runs.items()
        ]
        prefetches.append(
            Panel(
                f"Prefetch for {goal:g} msg/s",
                axis,
                "prefetch (messages)",
                prefetch,
                at_first=TRANSIENT_SAMPLES,
            )
        )
    return rates + prefetches


def disturbances(outcome: Outcome) -> list[Panel]:
    """The goal step, slower work, the pause and the burst, a panel for every controller."""
    return [_story(outcome, kind, run) for kind, run in outcome.stories.items()]


def _story(outcome: Outcome, kind: str, run: ClosedLoop) -> Panel:
    numbers = range(len(run.steps))
    goals = [step.goal for step in run.steps]
    phase = run.events[0].sample
    unit = step_response(outcome.designs[kind].tuning, phase)
    before, after = goals[phase - 1], goals[phase]
    predicted = [before + (after - before) * value for value in unit]
    told = [f"prefetch {prefetch:.4g}" for prefetch in _prefetches(run)]
    series = [
        Series("goal", GOAL_COLOUR, numbers, goals, "step"),
        Series(kind.upper(), COLOURS[kind], numbers, run.rates, "line", told),
        Series("predicted", PREDICTED_COLOUR, range(phase, 2 * phase), predicted, "dashed"),
    ]
    marks = [Mark(event.sample, event.name) for event in run.events]
    return Panel(kind.upper(), _samples(outcome), "rate (msg/s)", series, marks)


def _prefetches(run: ClosedLoop) -> list[float]:
    return [step.sample.prefetch for step in run.steps]


def _samples(outcome: Outcome) -> str:
    return f"sample ({outcome.scenario.sample_interval:g} s each)"
