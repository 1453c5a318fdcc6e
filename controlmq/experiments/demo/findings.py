"""The demo's outcome as data: what ``--json`` prints and the report tabulates."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from controlmq import published
from controlmq.design.analysis import step_response
from controlmq.experiments.demo.experiment import PAUSE, ClosedLoop, Outcome
from controlmq.performance import SETTLED_SHARE_OF_GOAL, settling_samples

NOT_FINDINGS = ("format", "version", "equation", "confidence_intervals", "units")
"""Keys of a model file that the findings leave out."""

PUBLISHED = {
    "source": f"{published.SOURCE}, goal {published.GOAL:g} msg/s",
    "model": {
        "a": round(published.A, 2),
        "b": published.B,
        "r2_train": published.R2_TRAIN,
        "r2_test": published.R2_TEST,
    },
    "closed_loop": published.CLOSED_LOOPS,
}
"""What the authors of the loop measured on their consumer."""


def findings(outcome: Outcome) -> dict[str, Any]:
    """Everything in JSON types, rates in messages/second, overshoot in percent of the goal."""
    model = json.loads(outcome.model.to_json())
    knee = outcome.curve.knee
    assert knee is not None
    ramp = outcome.ramp_fit
    return {
        "scenario": outcome.scenario.name,
        "seed": outcome.seed,
        "curve": {"knee": knee.prefetch, "rate_at_knee": knee.rate},
        "model": {key: model[key] for key in model if key not in NOT_FINDINGS},
        "gains": {kind: asdict(d.tuning.gains) for kind, d in outcome.designs.items()},
        "analysis": {kind: asdict(d.analysis) for kind, d in outcome.designs.items()},
        "closed_loop": _judged(outcome, 400.0),
        "closed_loop_450": _judged(outcome, 450.0),
        "goal_step": {kind: _goal_step(outcome, kind) for kind in outcome.stories},
        "disturbances": {kind: _phases(run) for kind, run in outcome.stories.items()},
        "ramp_without_offset": {
            "line": f"y = {published.STATIC_LINE_GAIN} u - {-published.STATIC_LINE_OFFSET}",
            "a": ramp.a,
            "b": ramp.b,
            "r2": ramp.r2,
            "condition_with_offset": ramp.condition_with_offset,
            "refusal_with_offset": ramp.refusal_with_offset,
        },
        "published": PUBLISHED,
    }


def _judged(outcome: Outcome, goal: float) -> dict[str, Any]:
    return {kind: asdict(judged) for kind, judged in outcome.judged[goal].items()}


def _goal_step(outcome: Outcome, kind: str) -> dict[str, float]:
    """How far the simulated goal step strays from the predicted one, in percent of the goal."""
    run = outcome.stories[kind]
    phase = run.events[0].sample
    before, after = run.steps[phase - 1].goal, run.steps[phase].goal
    predicted = step_response(outcome.designs[kind].tuning, phase)
    gaps = [
        abs(rate - (before + (after - before) * unit))
        for rate, unit in zip(run.rates[phase : 2 * phase], predicted, strict=True)
    ]
    return {"from": before, "to": after, "largest_gap_percent": 100 * max(gaps) / after}


def _phases(run: ClosedLoop) -> list[dict[str, Any]]:
    """After each event: how far off the goal, and after how many samples back within 5 %.

    A pause of the publishers is left out: without messages there is no rate to judge.
    """
    ends = [event.sample for event in run.events[1:]] + [len(run.steps)]
    found = []
    for event, end in zip(run.events, ends, strict=True):
        if event.name == PAUSE:
            continue
        rates = run.rates[event.sample : end]
        goal = run.steps[event.sample].goal
        found.append(
            {
                "event": event.name,
                "goal": goal,
                "lowest": min(rates),
                "highest": max(rates),
                "overshoot": max(0.0, 100 * (max(rates) - goal) / goal),
                "samples_until_within_5_percent": settling_samples(
                    rates, goal, SETTLED_SHARE_OF_GOAL
                ),
            }
        )
    return found
