"""Writes what the benchmarks of goals found into docs/goals.md.

    python -m benchmarks live_laws live_peers live_bound goal_laws bounded_worlds > found.json
    python -m benchmarks.live_page found.json

The page has a section for each benchmark. A section is made from the given files alone: parts that
were run one by one go into it if all their files are given, and a part that none of them has stays
out. A section of which no file has any part stays as it is.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import DOCS, table, with_section

PAGE = DOCS / "goals.md"

Section = Callable[[Mapping[str, Any]], str]
"""Makes the text of a section from what a benchmark found."""

TITLES = {
    "rate": "A rate to hold, 400/s",
    "at_most": "A ceiling, 400/s",
    "buffer_time": "A time in the buffer, 50 ms",
    "least": "The least prefetch that loses no throughput",
}


def merged(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The parts of each benchmark, from all files; a later one replaces an earlier one."""
    benchmarks: dict[str, dict[str, Any]] = {}
    for each in found:
        for name, parts in each.items():
            if isinstance(parts, Mapping):
                benchmarks.setdefault(name, {}).update(parts)
    return benchmarks


def middle(found: Mapping[str, float], digits: int = 2, factor: float = 1.0) -> str:
    """The median, and the extremes of what was measured repeatedly."""
    median, least, most = (factor * found[name] for name in ("median", "least", "most"))
    return f"{median:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def laws(found: Mapping[str, Any]) -> list[str]:
    """What ``live_laws`` found."""
    rows = []
    goals = {"400/s through 11 ms, 1 ms of work": found.get("rate")}
    for goal in ("1000", "3000"):
        goals[f"{goal}/s on loopback, no work"] = found.get("loopback", {}).get(goal)
    for name, held in goals.items():
        if held is not None:
            off, sd, prefetch = (
                middle(held[name]) for name in ("mean_off_percent", "sd_percent", "prefetch")
            )
            rows.append([name, off, sd, prefetch, *_runs(held)])
    parts = []
    if rows:
        columns = ["rate", "mean off the goal, %", "spread of a second, %", "prefetch"]
        columns += ["stolen, %", "runs"]
        parts.append(table(columns, rows))
        parts.append(
            "Stolen is the processor time that the host of this virtual machine gave to others; "
            "while it is taken, broker, network and consumer stand still. Of the runs, those count "
            "from which least was stolen."
        )
    if "rate" in found:
        fixed = found["rate"]["least_fixed_prefetch"]
        parts.append(f"The least fixed prefetch that reaches 400/s through 11 ms is {fixed}.")
    if "least" in found:
        pairs = found["least"]
        parts.append(
            "The least prefetch does "
            f"{middle(pairs['throughput_ratio'], 1, 100)} % of what a prefetch of 250 does, with "
            f"{middle(pairs['buffer_time_ratio'], 1, 100)} % of its time in the buffer "
            f"({len(pairs['pairs'])} pairs in turns; stolen "
            f"{_stolen([run for pair in pairs['pairs'] for run in pair.values()])} %)."
        )
    if "buffer_time" in found:
        phases = [
            f"{1000 * phase['mean']:.1f} ms ({1000 * phase['mean_by_littles_law']:.1f}) "
            f"with {1000 * phase['work']:g} ms of work"
            for phase in found["buffer_time"]["phases"]
        ]
        goal = 1000 * found["buffer_time"]["goal"]
        parts.append(
            f"A time in the buffer of {goal:g} ms: {', then '.join(phases)}. In brackets is what "
            "Little's law makes of prefetch, rate, round trip and work."
        )
    return parts


def _runs(held: Mapping[str, Any]) -> list[str]:
    """What was stolen from the runs that count, and how many of all these are."""
    counted = held["mean_off_percent"]["repetitions"]
    return [_stolen(held["runs"][:counted]), f"{counted} of {len(held['runs'])}"]


def _stolen(runs: Sequence[Mapping[str, Any]]) -> str:
    """The median and the extremes of what was stolen from runs; a dash where it is not known."""
    percent = [run["stolen_percent"] for run in runs if "stolen_percent" in run]
    if not percent:
        return "-"
    if len(percent) == 1:
        return f"{percent[0]:.2f}"
    return f"{statistics.median(percent):.2f} ({min(percent):.2f} to {max(percent):.2f})"


def bound(found: Mapping[str, Any]) -> list[str]:
    """What ``live_bound`` found."""
    taken = any("stolen_percent" in run for run in found.values())
    rows = [
        [
            f"burst {run['burst']:g}, {_handlers(run['handlers'])}, {run['seconds'] / 60:g} min",
            *(
                f"{run['most_handed_over'][stretch]} of {run['most_allowed'][stretch]:g}"
                f" ({run['most_started'][stretch]})"
                for stretch in run["most_allowed"]
            ),
            f"{100 * run['share_of_bound_and_capacity']:.1f} ({100 * run['share_of_bound']:.1f})",
            f"{run['waiting_mean']:.2f}",
            *([_stolen([run])] if taken else []),
        ]
        for run in found.values()
    ]
    if not rows:
        return []
    stretches = [f"most in {stretch} s" for stretch in next(iter(found.values()))["most_allowed"]]
    columns = ["run", *stretches, "% of bound and capacity (of the bound)", "waiting"]
    columns += ["stolen, %"] if taken else []
    return [
        "A ceiling of 400/s through 11 ms, while the network stalls for 0.3 s every 15 s and its "
        "round trip changes to 4.7 times, half and back, every 5 minutes. Most hand-overs by the "
        "core's clock, what is allowed, and in brackets the most starts by the handler's clock. "
        "While the network stands still the capacity is nothing; in brackets is the share of the "
        "bound with that time in it:",
        table(columns, rows),
    ]


def _handlers(number: object) -> str:
    return f"a pool of {number}" if isinstance(number, int) else str(number)


def others(found: Mapping[str, Any]) -> list[str]:
    """What ``live_peers`` found."""
    parts = []
    for name, played in found.items():
        taken = any("stolen_percent" in row for row in played["rows"])
        columns = ["law", *played["columns"].values(), *(["stolen, %"] if taken else [])]
        rows = [
            [
                f"**{row['law']}**" if row["ours"] else row["law"],
                *(f"{row[column]:.2f}" for column in played["columns"]),
                *([_stolen([row])] if taken else []),
            ]
            for row in played["rows"]
        ]
        parts += [f"### {TITLES[name]}", table(columns, rows)]
    if parts:
        parts.insert(
            0,
            "Beside the strongest laws of the tournament through the same window, and what users "
            "do today, with 1, 2 and again 1 ms of work:",
        )
    return parts


def simulated_laws(found: Mapping[str, Any]) -> list[list[str]]:
    """Rows of what ``goal_laws`` found."""
    rows = []
    if least := found.get("least"):
        phases = len(least["phases"])
        lost = f"{least['mean_lost_percent']:.2f}, at most {least['most_lost_percent']:.2f}"
        waits = f"{least['buffered']:.1f}, the best fixed {least['best_fixed_buffered']:.1f}"
        rows += [
            ["least prefetch: throughput lost, %", lost, "1.2, at most 2"],
            ["least prefetch: messages that wait", waits, "1.15 times, or 0.5 more"],
            [
                "least prefetch: phases in which the work done is within 3 % of what it settles "
                "at after 15 samples",
                f"{least['recovered_in_15_samples']} of {phases}",
                "all",
            ],
            [
                "the same, counted in messages, whose random work scatters within ten samples: "
                "least share of the settled throughput, %",
                f"{100 * min(phase['counted_share'] for phase in least['phases']):.1f}",
                "",
            ],
        ]
    if pools := found.get("handlers"):
        shares = ", ".join(f"{100 * pool['rate'] / pool['capacity']:.1f}" for pool in pools)
        numbers = ", ".join(str(pool["handlers"]) for pool in pools)
        rows.append([f"least prefetch with {numbers} handlers: % of their capacity", shares, ""])
    if rate := found.get("rate"):
        for name, words, asked in (
            ("error_percent", "mean size of the error", "0.6 of the published PI's"),
            ("sd_percent", "spread of a second", "no more than the published PI's"),
        ):
            by_law = "; ".join(f"{law}: {value:.2f}" for law, value in rate[name].items())
            rows.append([f"rate: {words}, %", by_law, asked])
        rows += [
            [
                "rate, nothing random: samples until it stays within 2 %",
                f"at most {rate['most_samples_to_2_percent']}",
                "5",
            ],
            [
                "rate of 0.5/s: messages in 200 s",
                f"{rate['messages_in_200_s_at_half_a_message_a_second']}",
                "95 to 105",
            ],
        ]
    if waited := found.get("buffer_time"):
        means = ", ".join(f"{1000 * mean:.1f}" for mean in waited["mean"])
        soon = ", ".join(str(sample) for sample in waited["within_20_percent_from_sample"])
        rows += [
            ["50 ms in the buffer, with 4, 40 and 4 ms of work: mean, ms", means, "within 3 %"],
            ["the same: samples until it stays within 20 %", soon, "5"],
        ]
    if spared := found.get("protect"):
        laws_tried = spared["laws"].items()
        rates = "; ".join(
            f"{law}: {statistics.fmean(each['rates']):.0f}" for law, each in laws_tried
        )
        worst = "; ".join(f"{law}: {1000 * max(each['p99s']):.0f}" for law, each in laws_tried)
        rows += [
            [
                "protection: messages/second",
                f"{rates}; fixed {spared['best_fixed']}: {spared['best_fixed_rate']:.0f}",
                "95 % of the best fixed",
            ],
            ["protection: worst p99, ms", worst, f"{1000 * spared['p99_bound']:.0f}"],
        ]
    if several := found.get("selector"):
        rows.append(
            [
                "a ceiling and a time in the buffer over a day: overshoot of either, %",
                f"{several['rate_overshoot_percent']:.1f}, {several['time_overshoot_percent']:.1f} "
                f"({several['time_overshoot_percent_without_tracking']:.0f} without tracking)",
                "5",
            ]
        )
    if robust := found.get("robust"):
        worse = ", ".join(
            f"{name} {max(value, 0.0):.1f}"
            for name, value in robust["stated_exceeded_percent"].items()
        )
        rows += [
            [
                f"robust P, PI and PID on {robust['models']} models of {robust['identified']} "
                "identified sets: unstable loops",
                f"{robust['unstable']} of {robust['loops']}",
                "0",
            ],
            [
                "the same: what was stated is exceeded by at most, % of it (of an overshoot below "
                "1 % of the step: % of that)",
                worse,
                "5",
            ],
        ]
    return rows


def simulated_bounds(found: Mapping[str, Any]) -> list[list[str]]:
    """Rows of what ``bounded_worlds`` found."""
    rows = []
    if worlds := found.get("bound"):
        rows.append(
            [
                "ceiling: worlds with a stretch above its bound",
                f"{worlds['violations']} of {worlds['seeds']}",
                "0",
            ]
        )
    if reached := found.get("reached"):
        rows += [
            [
                "ceiling: % of what handlers that always have a message would start behind the "
                f"same bucket, {reached['share']['repetitions']} consumers",
                middle(reached["share"], 1, 100),
                "99",
            ],
            [
                "the same of the smaller of the ceiling and of handlers per mean work, %",
                middle(reached["share_of_means"], 1, 100),
                "",
            ],
            ["ceiling: messages that wait", middle(reached["waiting"]), "2 on average"],
        ]
    return rows


def in_blocks(parts: Callable[[Mapping[str, Any]], list[str]]) -> Section:
    return lambda found: "\n\n".join(parts(found))


def in_rows(rows: Callable[[Mapping[str, Any]], list[list[str]]]) -> Section:
    return lambda found: table(["what", "found", "asked for"], rows(found))


SECTIONS: dict[str, Section] = {
    "live_laws": in_blocks(laws),
    "live_bound": in_blocks(bound),
    "live_peers": in_blocks(others),
    "goal_laws": in_rows(simulated_laws),
    "bounded_worlds": in_rows(simulated_bounds),
}
"""What is written of each benchmark."""


def filled(page: str, found: Sequence[Mapping[str, Any]]) -> str:
    """The page with what was found; a section of which nothing was found stays as it is."""
    for name, benchmark in merged(found).items():
        if name in SECTIONS:
            page = with_section(page, name, SECTIONS[name](benchmark))
    return page


def main() -> int:
    found = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    if not found:
        print("give the files that hold what benchmarks printed.", file=sys.stderr)
        return 2
    PAGE.write_text(filled(PAGE.read_text(), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
