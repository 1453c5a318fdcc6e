"""The picture of a search: error against effort, and the front between them."""

from __future__ import annotations

from collections.abc import Sequence

from controlmq.experiments.drawing import COLOURS, MARK, one_plot, svg
from controlmq.experiments.tuning_search.files import front_of, other_axis
from controlmq.experiments.tuning_search.search import Outcome
from simulator.studies.tuning_candidates import METRICS, Ranked


def picture(outcome: Outcome) -> str:
    """All candidates by the metric searched for and by effort, as SVG."""
    figure, axes = one_plot(7.2, 4.6)
    by, other = outcome.search.by, other_axis(outcome.search.by)

    def places(those: Sequence[Ranked]) -> tuple[list[float], list[float]]:
        return [each.means[other].mean for each in those], [each.means[by].mean for each in those]

    for kind in outcome.search.kinds:
        those = [each for each in outcome.ranked if each.candidate.tuning.kind == kind]
        colour, label = COLOURS[kind], kind.upper()
        axes.plot(*places(those), "o", color=colour, markersize=4, alpha=0.6, label=label)
    worth = front_of(outcome)
    efforts, errors = places(worth)
    half = [each.means[by].high - each.means[by].mean for each in worth]
    label = "front, 95 % intervals"
    axes.errorbar(efforts, errors, half, color=MARK, linewidth=1, capsize=2, label=label)
    chosen = places([outcome.best])
    axes.plot(*chosen, "*", color=MARK, markersize=14, label="chosen")
    axes.set(xlabel=f"{other} ({METRICS[other]})", ylabel=f"{by} ({METRICS[by]})")
    axes.legend(frameon=False)
    return svg(figure)
