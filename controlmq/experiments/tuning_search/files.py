"""The files of a search: every score, the ranking, the picture, the best controller."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controlmq.experiments.tuning_search.search import Outcome
from controlmq.files import json_types
from controlmq.student import mean_interval
from simulator.studies.tuning_candidates import METRICS, Candidate, Ranked, front
from simulator.studies.tuning_candidates.ranking import Scores, per_seed, value_of


def write(outcome: Outcome, data: Mapping[str, Any], folder: Path) -> None:
    """Every file of the folder; the trace of the experiment is not one of them."""
    from controlmq.experiments.tuning_search.picture import picture
    from controlmq.experiments.tuning_search.report import report

    shutil.rmtree(folder / "experiment", ignore_errors=True)
    _write_points(outcome, folder / "points.parquet")
    (folder / "ranking.json").write_text(
        json.dumps(json_types(data), indent=2, allow_nan=False) + "\n"
    )
    drawn = picture(outcome)
    (folder / "front.svg").write_text(drawn)
    (folder / "report.html").write_text(report(outcome, drawn), "utf-8")
    outcome.best.candidate.tuning.save(folder / "controller.json")


def as_data(outcome: Outcome) -> dict[str, Any]:
    """The ranking in JSON types, the best first."""
    search = outcome.search
    data: dict[str, Any] = {
        "by": search.by,
        "units": METRICS,
        "scenarios": [trial.scenario.name for trial in search.trials],
        "goals": list(search.trials[0].goals),
        "duration": search.trials[0].duration,
        "seeds": list(search.seeds),
        "models": [model.as_data() for model in outcome.models.values()],
        "chosen": outcome.best.candidate.number,
        "front": [each.candidate.number for each in front_of(outcome)],
        "ranking": [_ranked(place, each) for place, each in enumerate(outcome.ranked, 1)],
    }
    if outcome.unseen is not None:
        unseen = outcome.unseen
        data["unseen"] = {
            "scenarios": [trial.scenario.name for trial in search.unseen],
            "chosen": _means(unseen.best),
            "published_pi": asdict(unseen.published_tuning.gains) | _means(unseen.published),
            "chosen_less_published_pi": {m: asdict(i) for m, i in unseen.difference.items()},
        }
    return data


def front_of(outcome: Outcome) -> list[Ranked]:
    """The candidates worth a look: none has both less error and less effort."""
    return front(outcome.ranked, outcome.search.by, other_axis(outcome.search.by))


def other_axis(by: str) -> str:
    """The metric of the other axis: effort, or error if effort is searched."""
    return "iae" if by == "effort" else "effort"


def _means(scores: Scores) -> dict[str, dict[str, float]]:
    return {metric: asdict(mean_interval(per_seed(scores, metric))) for metric in METRICS}


def _ranked(place: int, each: Ranked) -> dict[str, Any]:
    return {
        "place": place,
        **_described(each.candidate),
        **{metric: asdict(interval) for metric, interval in each.means.items()},
    }


def _described(candidate: Candidate) -> dict[str, Any]:
    tuning = candidate.tuning
    return {
        "candidate": candidate.number,
        "controller": tuning.kind,
        "asked": candidate.asked,
        **asdict(tuning.gains),
        "interval": tuning.model.interval,
        "upper": candidate.upper,
    }


def _write_points(outcome: Outcome, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [trial.scenario.name for trial in outcome.search.trials]
    rows = [
        {
            **_described(each.candidate),
            "scenario": names[index],
            "seed": seed,
            **{metric: value_of(score, metric) for metric in METRICS},
            "recoveries": list(score.recovery),
        }
        for each in sorted(outcome.ranked, key=lambda ranked: ranked.candidate.number)
        for seed, trials in outcome.scores[each.candidate.number].items()
        for index, score in enumerate(trials)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
