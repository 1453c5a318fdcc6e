"""The picture of a search: error against effort, and the front between them."""

from __future__ import annotations

from controlmq.experiments.drawing import COLOURS, MARK, one_plot, svg
from controlmq.experiments.tuning_search.files import front_of, other_axis
from controlmq.experiments.tuning_search.search import Outcome
from simulator.studies.tuning_search import METRICS


def picture(outcome: Outcome) -> str:
    """All candidates by the metric searched for and by effort, as SVG."""
    figure, axes = one_plot(7.2, 4.6)
    by, other = outcome.search.by, other_axis(outcome.search.by)
    for kind in outcome.search.kinds:
        those = [each for each in outcome.ranked if each.candidate.tuning.kind == kind]
        axes.plot(
            [each.means[other].mean for each in those],
            [each.means[by].mean for each in those],
            "o",
            color=COLOURS[kind],
            markersize=4,
            alpha=0.6,
            label=kind.upper(),
        )
    worth = front_of(outcome)
    axes.errorbar(
        [each.means[other].mean for each in worth],
        [each.means[by].mean for each in worth],
        yerr=[each.means[by].high - each.means[by].mean for each in worth],
        color=MARK,
        linewidth=1,
        capsize=2,
        label="front, 95 % intervals",
    )
    best = outcome.ranked[0].means
    axes.plot([best[other].mean], [best[by].mean], "*", color=MARK, markersize=14, label="chosen")
    axes.set_xlabel(f"{other} ({METRICS[other]})")
    axes.set_ylabel(f"{by} ({METRICS[by]})")
    axes.legend(frameon=False)
    return svg(figure)
