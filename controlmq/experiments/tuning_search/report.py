"""The report on a search: the chosen controller, the front, the best candidates."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from controlmq.experiments.drawing import COLOURS, MARK
from controlmq.experiments.explorable import Kind, Panel, Series, figure
from controlmq.experiments.page import page, table
from controlmq.experiments.tuning_search.files import front_of, other_axis
from controlmq.experiments.tuning_search.search import Outcome
from controlmq.student import Interval
from simulator.studies.tuning_candidates import METRICS, Candidate, Ranked

TITLE = "A search for a controller"

ROWS_SHOWN = 20
ALSO_SHOWN = ("overshoot", "settling", "sd")
"""Rows and further columns of the table of candidates; ranking.json has them all."""


def report(outcome: Outcome, picture: str) -> str:
    """The whole page; ``picture`` is the front as SVG."""
    search, best = outcome.search, outcome.best
    by, other = search.by, other_axis(search.by)
    names = ", ".join(trial.scenario.name for trial in search.trials)
    goals = " and ".join(f"{goal:g}" for goal in search.trials[0].goals)
    sections = [
        f"<h1>{TITLE}</h1>",
        f"<p>{len(outcome.ranked)} controllers held {goals} msg/s on {escape(names)} with "
        f"{len(search.seeds)} seeds each. By {by} the best is "
        f"{escape(_described(best.candidate))}: <b>{_interval(best.means[by])}</b> "
        f"{METRICS[by]}.</p>",
        f"<h2>{by} against {other}</h2>",
        figure(
            picture,
            "Every candidate by its means. None beats those of the front in both. Hover over "
            "one for what it is.",
            [_front(outcome)],
        ),
        "<h2>The best candidates</h2>",
        _best(outcome.ranked[:ROWS_SHOWN], by),
        "<p>Means with 95 % intervals over the seeds; less is better.</p>",
    ]
    if outcome.unseen is not None:
        sections += ["<h2>On scenarios that the search did not see</h2>", _unseen(outcome)]
    return page(TITLE, sections)


def _front(outcome: Outcome) -> Panel:
    by, other = outcome.search.by, other_axis(outcome.search.by)

    def series(name: str, colour: str, those: Sequence[Ranked], kind: Kind = "points") -> Series:
        those = sorted(those, key=lambda each: each.means[other].mean)
        x, y = ([each.means[metric].mean for each in those] for metric in (other, by))
        return Series(name, colour, x, y, kind, [_label(each, by) for each in those])

    kinds = [
        series(
            kind.upper(),
            COLOURS[kind],
            [each for each in outcome.ranked if each.candidate.tuning.kind == kind],
        )
        for kind in outcome.search.kinds
    ]
    front = series("front", MARK, front_of(outcome), "line")
    chosen = series("chosen", MARK, [outcome.best])
    axes = f"{other} ({METRICS[other]})", f"{by} ({METRICS[by]})"
    return Panel("", *axes, [front, *kinds, chosen], height=380)


def _best(ranked: Sequence[Ranked], by: str) -> str:
    metrics = list(dict.fromkeys((by, other_axis(by), *ALSO_SHOWN)))
    rows = [
        [
            f"{place}. {each.candidate.tuning.kind.upper()} {each.candidate.asked}",
            *(_interval(each.means[metric]) for metric in metrics),
        ]
        for place, each in enumerate(ranked, 1)
    ]
    return table(["controller", *(f"{metric} ({METRICS[metric]})" for metric in metrics)], rows)


def _unseen(outcome: Outcome) -> str:
    assert outcome.unseen is not None
    names = ", ".join(trial.scenario.name for trial in outcome.search.unseen)
    rows = [
        [f"{metric} ({unit})", _interval(outcome.unseen.difference[metric])]
        for metric, unit in METRICS.items()
    ]
    return f"<p>{escape(names)}, with other seeds.</p>" + table(
        ["", "the chosen one less the published PI"], rows
    )


def _described(candidate: Candidate) -> str:
    gains = candidate.tuning.gains
    return (
        f"{candidate.tuning.kind.upper()} with Kp {gains.kp:.4g}, Ki {gains.ki:.4g}, "
        f"Kd {gains.kd:.4g}, samples of {candidate.interval:g} s, {candidate.upper_in_words}"
    )


def _label(each: Ranked, by: str) -> str:
    return (
        f"candidate {each.candidate.number}, {each.candidate.asked}; {by} "
        f"{_interval(each.means[by])}; {_described(each.candidate)}"
    )


def _interval(found: Interval) -> str:
    half = float(f"{found.high - found.mean:.2g}")
    return f"{found.mean:.4g}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{half:g}"
