"""The report on a fleet: how its models are distributed, which fit worst, which are missing."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from controlmq.experiments.drawing import MODEL, svg
from controlmq.experiments.explorable import Panel, Series, figure
from controlmq.experiments.page import page, table

if TYPE_CHECKING:
    from controlmq.model import ArxModel
    from identification import Diagnosis, Fit

TITLE = "Models of a fleet"

ROWS_SHOWN = 20
"""Rows of a table of the worst; models.parquet has them all."""


GROUPS_NAMED = 8
"""Groups that a bar of a histogram names."""


def report(fits: Sequence[Fit], diagnoses: Sequence[Diagnosis]) -> str:
    """The whole page."""
    models = [(fit, fit.model) for fit in fits if fit.model is not None]
    refused = [fit for fit in fits if fit.model is None]
    sections = [
        f"<h1>{TITLE}</h1>",
        f"<p>{len(models)} of {len(fits)} groups have a model <code>y(k+1) = a y(k) + b u(k) + c"
        f"</code>, from {sum(fit.rows for fit in fits)} rows, "
        f"{sum(fit.rows_starved for fit in fits)} of them starved and not fitted.</p>",
    ]
    if models:
        sections += [
            "<h2>Distribution</h2>",
            _histograms(models),
            _quantiles([model for _, model in models]),
            "<h2>The worst fits</h2>",
            _worst(models),
        ]
    if refused:
        sections += ["<h2>Groups without a model</h2>", _refused(refused)]
    if diagnoses:
        sections += ["<h2>A closer look</h2>", _diagnosed(diagnoses)]
    return page(TITLE, sections)


def _numbers(models: Sequence[ArxModel]) -> dict[str, list[float]]:
    """The figures of a fleet, by their names in the report."""
    return {
        "a": [model.a for model in models],
        "gain b/(1-a), msg/s per message": [model.gain for model in models],
        "top of the linear range, messages": [model.linear_range[1] for model in models],
        "R2 on held-out rows": [_r2(model) for model in models],
    }


def _r2(model: ArxModel) -> float:
    """R2 on rows held out, or on those fitted where none were."""
    if model.quality is None:
        return 0.0
    test = model.quality.r2_test
    return model.quality.r2_train if test is None else test


def _histograms(models: Sequence[tuple[Fit, ArxModel]]) -> str:
    from matplotlib.figure import Figure

    groups = [fit.group for fit, _ in models]
    numbers = _numbers([model for _, model in models])
    drawn = Figure(figsize=(9, 4.8), layout="constrained")
    panels = []
    for axes, (name, values) in zip(drawn.subplots(2, 2).flat, numbers.items(), strict=True):
        bins = min(40, max(5, len(values) // 5))
        counts, edges, _ = axes.hist(values, bins=bins, color=MODEL)
        axes.set(xlabel=name, ylabel="groups")
        panels.append(_bars(name, [int(count) for count in counts], list(edges), values, groups))
    return figure(svg(drawn), "", panels, columns=2)


def _bars(
    name: str,
    counts: Sequence[int],
    edges: Sequence[float],
    values: Sequence[float],
    groups: Sequence[str],
) -> Panel:
    """A histogram whose bars say which groups are in them."""
    within: list[list[str]] = [[] for _ in counts]
    for value, group in zip(values, groups, strict=True):
        within[min(bisect_right(edges, value), len(counts)) - 1].append(group)
    labels = []
    for (low, high), those in zip(pairwise(edges), within, strict=True):
        more = f" and {len(those) - GROUPS_NAMED} more" if len(those) > GROUPS_NAMED else ""
        named = f": {', '.join(those[:GROUPS_NAMED])}{more}" if those else ""
        labels.append(f"{low:.4g} to {high:.4g}{named}")
    centres = [(low + high) / 2 for low, high in pairwise(edges)]
    bars = Series("groups", MODEL, centres, counts, "bars", labels)
    return Panel("", name, "groups", [bars])


def _quantiles(models: Sequence[ArxModel]) -> str:
    rows = []
    for name, values in _numbers(models).items():
        if len(values) > 1:
            low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        else:
            low = middle = high = values[0]
        shown = (min(values), low, middle, high, max(values))
        rows.append([name, *(f"{value:.4g}" for value in shown)])
    return table(["", "least", "quarter", "half", "three quarters", "most"], rows)


def _worst(models: Sequence[tuple[Fit, ArxModel]]) -> str:
    worst = sorted(models, key=lambda pair: _r2(pair[1]))[:ROWS_SHOWN]
    rows = [
        [
            fit.group,
            f"{_r2(model):.3f}",
            *(
                f"{value:.4g} ± {getattr(model.standard_errors, name):.2g}"
                for name, value in (("a", model.a), ("b", model.b), ("c", model.c))
            ),
            f"{model.linear_range[0]:.1f} to {model.linear_range[1]:.1f}",
            str(fit.rows),
        ]
        for fit, model in worst
    ]
    head = ["group", "R2", "a", "b", "c", "linear range", "rows"]
    return table(head, rows) + "<p>± one standard error.</p>"


def _refused(refused: Sequence[Fit]) -> str:
    counted = Counter(str(fit.cause) for fit in refused).most_common()
    causes = table(["cause", "groups"], [[cause, str(count)] for cause, count in counted])
    examples = [[fit.group, str(fit.reason)] for fit in refused[:ROWS_SHOWN]]
    return causes + table(["group", "reason"], examples)


def _diagnosed(diagnoses: Sequence[Diagnosis]) -> str:
    rows = [
        [
            each.group,
            f"{each.one_step_rmse:.4g}",
            f"{each.simulated_rmse:.4g}",
            f"{each.autocorrelation:.2f}",
            f"{each.order}, {each.delay}",
            each.finding,
        ]
        for each in sorted(diagnoses, key=lambda each: each.enough)[:ROWS_SHOWN]
    ]
    head = ["group", "one-step error", "simulated", "autocorrelation", "best order, delay", ""]
    return table(head, rows)
