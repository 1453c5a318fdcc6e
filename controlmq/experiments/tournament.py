"""A tournament from its plan to its page: trials on Spark, tables, pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from controlmq.experiments.drawing import one_plot, svg
from controlmq.student import Interval, mean_interval
from simulator.studies.tournament import METRICS, TABLES, Trial, cost, run_trial
from simulator.studies.tournament.entries import EXPERIMENT_SAMPLES, LIMITS
from simulator.studies.tournament.peers import MOMS
from simulator.studies.tournament.plan import HELD_OUT_DRAW, Plan, Row, best_variants, table_of
from simulator.studies.tournament.plants import DRAWN
from simulator.studies.tournament.vector import LAWS, SERVICES, in_flight

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str, int, int], None]

TITLES = {
    "rate": "A rate to hold",
    "at_most": "A ceiling",
    "buffer_time": "A time in the buffer",
    "least": "The least prefetch that loses no throughput",
}

NOTES = {
    "at_most": "Samples are a second long. What ours is above the ceiling is its burst, 50 ms' "
    "worth of messages or 5 % of a sample, which it uses once after a change. Laws that move the "
    "prefetch alone use no burst: where their worst sample happens to be less than 5 % above, or "
    "they stay below the ceiling and lose throughput, they can be before ours. So can a sleep "
    "where one handler does work that never varies. None of them bounds anything between two "
    "samples, or knows of a shorter round trip before the next one.",
    "buffer_time": "The sum takes a percent off the goal for as bad as a percent of throughput. "
    "Where only a few messages may wait, they run out now and then: a law that lets more of them "
    "wait than the goal asks for loses less throughput and can have the smaller sum.",
    "least": "The sum takes a message that waits for as bad as a percent of throughput. Where work "
    "and network vary so much that many messages must wait if no throughput is to be lost, a law "
    "that gives up some throughput can have the smaller sum.",
}
"""What a table alone does not tell, and why a peer may be before ours on some plants, whichever
plants are drawn."""

VECTOR = (
    "Requests in flight to a service whose answers take longer the more of them there are, as in "
    "the tests of Vector's adaptive request concurrency, until all are answered. Of its thirteen "
    "scenarios six are left out: four with errors, which a consumer never gets from its broker, "
    "and two with a fixed concurrency, which leave a law nothing to decide. In bold: within the "
    "band that Vector expects of its own law, once rounded to one decimal. A service that is never "
    "slower asks for as many as possible, and the band there is how far Vector's law gets until "
    "the end."
)

BY_HAND = "by hand"
"""How ours were tuned: in trials that nobody counted."""

OURS, THEIRS = "#0072b2", "#999999"


def run_tournament(spark: SparkSession, plan: Plan, progress: Progress) -> dict[str, list[Row]]:
    """The tables: light tuning first, then every law on plants that tuning has not seen."""
    tables = {}
    for table in TABLES:
        trials = list(plan.tuning_trials(table))
        best = best_variants(trials, _found(spark, trials, f"{table}: tuning peers", progress))
        trials = list(plan.trials(table, best))
        found = _found(spark, trials, f"{table}: playing", progress)
        tables[table] = table_of(table, trials, found)
    return tables


def _found(
    spark: SparkSession, trials: Sequence[Trial], doing: str, progress: Progress
) -> list[dict[str, float]]:
    from identification.parallel import over

    found: dict[int, dict[str, float]] = {}
    for number, metrics in over(spark, run_trial, trials):
        found[number] = metrics
        progress(doing, len(found), len(trials))
    return [found[number] for number in range(len(trials))]


def write(tables: Mapping[str, Sequence[Row]], plan: Plan, folder: Path) -> None:
    """The page ``tournament.md`` and a picture for each table."""
    for table, rows in tables.items():
        (folder / f"tournament-{table}.svg").write_text(_picture(table, rows))
    (folder / "tournament.md").write_text(_page(tables, plan))


def _page(tables: Mapping[str, Sequence[Row]], plan: Plan) -> str:
    parts = [
        "# The tournament",
        "Laws for [goals](goals.md), ours and those of other projects, on the same simulated "
        f"consumers (plants): {plan.held_out} drawn at random, each with its round trip tripled "
        "and then its work doubled, and the named ones of "
        "`simulator/studies/tournament/plants.py`, as far as the goal makes sense there; "
        f"{plan.seeds} seeds each. The formulas of the peers are in "
        "`simulator/studies/tournament/peers.py`. Means over plants with 95 % intervals, each "
        "plant the mean of its seeds; less is better.",
        tuning(plan),
        "This page is made by:",
        f"    controlmq tournament --plants {plan.held_out} --tuning {plan.tuning} "
        f"--seeds {plan.seeds} --messages {plan.messages:g} --draw {plan.draw} --out tournament/",
    ]
    for table, rows in tables.items():
        parts += [f"## {TITLES[table]}", verdict(table, rows)]
        parts += [NOTES[table]] if table in NOTES else []
        parts += [f"![{TITLES[table]}](tournament-{table}.svg)", _table(table, rows, plan)]
        parts += _lost(table, rows)
    parts += ["## Vector's scenarios", VECTOR, _vector_table()]
    return "\n\n".join(parts) + "\n"


def tuning(plan: Plan) -> str:
    """What each law knows of the plants, and by how many trials it was tuned."""
    new = (
        "that was new when this page was made: no law had been tried on them. If you change a "
        "law, choose another seed (`--draw`) for the next page."
        if plan.draw == HELD_OUT_DRAW
        else "that was asked for; whether a law had been tried on them is not known here."
    )
    return (
        "Peers run as they come and, where they have something to tune, also as the best of a few "
        f"variants on {plan.tuning} other plants. The column *tuning trials* has the number of "
        "runs that this took: each variant once on each of those plants. Ours were tuned by hand "
        "while they were developed, on other plants and in trials that nobody counted; the peers "
        "had no more than the runs stated. Since then ours run with the constants of their files, "
        "the same in every table. The named plants were at hand when ours were designed, so the "
        f"drawn ones decide who wins. They are those of the seed {plan.draw}, {new} Laws on a "
        "model (P, PI and PID, published or deadbeat, and whatever has `scale 1`) get one of each "
        f"plant, from an experiment of {EXPERIMENT_SAMPLES} samples in its first phase. The others "
        "know nothing of the plant. Of PI and PID, `settling` places other poles than the "
        "published ones, which settle in so many samples. The laws of adaptive-moms use whole "
        f"prefetches from {MOMS.low:g} to {MOMS.high:g}, as published (`most` raises that of hpa), "
        f"where ours may use any from {LIMITS.low:g} to {LIMITS.high:,g}."
    )


def _vector_table() -> str:
    """The mean number in flight of each law with each service, in bold where Vector expects it."""
    lines = [f"| scenario | Vector expects | {' | '.join(LAWS)} |", "|---" * (2 + len(LAWS)) + "|"]
    for service in SERVICES:
        low, high = service.band
        found = [in_flight(service, make()) for make in LAWS.values()]
        cells = " | ".join(
            f"**{each:.2f}**" if low <= round(each, 1) <= high else f"{each:.2f}" for each in found
        )
        lines.append(f"| {service.name} | {low:g} to {high:g} | {cells} |")
    return "\n".join(lines)


def verdict(table: str, rows: Sequence[Row]) -> str:
    """Who is first on the drawn plants, by how much, and what it is on all plants.

    The named plants were at hand when ours were designed, so they do not decide.
    """
    ours = next(row for row in rows if row.entry.ours)
    plants = list(ours.by_plant)
    drawn = [plant for plant in plants if plant.startswith(DRAWN)]
    peer, ahead = _best_peer(table, rows, drawn)
    apart = ahead if ahead.mean >= 0 else _other_way(ahead)
    by = f"by {_cell(apart)} over the {len(drawn)} plants drawn at random"
    chance = "; that may be chance" if apart.low <= 0 else ""
    if ahead.mean >= 0:
        said = f"{'Ours is first' if chance else 'Ours wins'}: {_name(ours)}, before {peer}, {by}"
    else:
        said = f"**Ours is not first**: {peer} is before {_name(ours)}, {by}"
    said += f"{chance}. Over all {len(plants)} plants "
    peer, ahead = _best_peer(table, rows, plants)
    if ahead.mean >= 0:
        said += f"ours is before {peer}, by {_cell(ahead)}."
    else:
        said += f"{peer} is before ours, by {_cell(_other_way(ahead))}."
    lost = len(_peers_before(table, rows))
    said += f" On {len(plants) - lost} of {len(plants)} plants no peer is before it."
    order = "error" if table == "rate" else "sum of the columns"
    return f"{said} The table is in the order of the {order} over all plants."


def _best_peer(table: str, rows: Sequence[Row], plants: Sequence[str]) -> tuple[str, Interval]:
    """The peer that is best over some plants, and by how much it is behind the best of ours."""
    ours = next(row for row in rows if row.entry.ours)

    def behind(row: Row) -> Interval:
        return mean_interval(
            [cost(table, row.by_plant[each]) - cost(table, ours.by_plant[each]) for each in plants]
        )

    peer = min((row for row in rows if not row.entry.ours), key=lambda row: behind(row).mean)
    return f"{_name(peer)} ({peer.entry.source})", behind(peer)


def _other_way(apart: Interval) -> Interval:
    """The same distance, seen from the other one."""
    return Interval(-apart.mean, -apart.high, -apart.low)


def _peers_before(table: str, rows: Sequence[Row]) -> dict[str, Row]:
    """The best peer on each plant where it is before ours, the best of ours over all plants."""
    ours = next(row for row in rows if row.entry.ours)
    peers = [row for row in rows if not row.entry.ours]
    before = {}
    for plant, own in ours.by_plant.items():
        best = min(peers, key=lambda row: cost(table, row.by_plant[plant]))
        if cost(table, best.by_plant[plant]) < cost(table, own):
            before[plant] = best
    return before


def _lost(table: str, rows: Sequence[Row]) -> list[str]:
    """A table of the plants on which a peer is before ours; nothing where there are none."""
    ours = next(row for row in rows if row.entry.ours)
    before, metrics = _peers_before(table, rows), METRICS[table]
    if not before:
        return []
    columns = " | ".join(f"{words}: the peer, ours" for words in metrics.values())
    lines = [f"| plant | peer | {columns} |", "|---" * (2 + len(metrics)) + "|"]
    for plant, peer in before.items():
        theirs, own = peer.by_plant[plant], ours.by_plant[plant]
        cells = " | ".join(f"{theirs[metric]:.2f}, {own[metric]:.2f}" for metric in metrics)
        lines.append(f"| {plant} | {_name(peer)} | {cells} |")
    best = "Plants on which a peer is before ours, and the peer that is best there:"
    return [best, "\n".join(lines)]


def _table(table: str, rows: Sequence[Row], plan: Plan) -> str:
    metrics = METRICS[table]
    columns = ["law", "from", *metrics.values(), "tuning trials"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        name = f"**{_name(row)}**" if row.entry.ours else _name(row)
        cells = " | ".join(_cell(row.means[metric]) for metric in metrics)
        tuned = BY_HAND if row.entry.ours else plan.tuned_with(row.entry)
        lines.append(f"| {name} | {row.entry.source} | {cells} | {tuned} |")
    return "\n".join(lines)


def _name(row: Row) -> str:
    chosen = ", ".join(f"{word} {value:g}" for word, value in row.chosen.items())
    return f"{row.entry.name} ({chosen})" if chosen else row.entry.name


def _cell(found: Interval) -> str:
    return f"{found.mean:.2f} ± {found.high - found.mean:.2f}"


def _picture(table: str, rows: Sequence[Row]) -> str:
    """The cost of every law, the best on top."""
    figure, axes = one_plot(7.2, 0.6 + 0.24 * len(rows))
    names = [_name(row) for row in rows][::-1]
    costs = [max(row.cost.mean, 0.01) for row in rows][::-1]
    colours = [OURS if row.entry.ours else THEIRS for row in rows][::-1]
    axes.barh(names, costs, color=colours)
    axes.set(xscale="log", xlabel="cost: the sum of the columns, %, on a logarithmic scale")
    if table == "rate":
        axes.set(xlabel="mean size of the error, % of the goal, on a logarithmic scale")
    return svg(figure)
