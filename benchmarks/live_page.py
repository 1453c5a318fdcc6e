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

JUDGED_SHARE = "asked for: at least 98"

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


def asked(found: Mapping[str, Any]) -> str:
    """A table of what was asked of each part, and whether it is met."""
    rows = [
        [figure["what"], said(figure["found"]), _limit(figure), _met(figure)]
        for part in found.values()
        for figure in part["figures"]
    ]
    return table(["what", "found", "asked for", "met"], rows)


def said(found: float | str) -> str:
    """A figure with as many digits as tell something; words as they are."""
    if isinstance(found, str):
        return found
    return f"{found:.0f}" if abs(found) >= 1000 else f"{round(found, 3) + 0.0:.4g}"


def _limit(figure: Mapping[str, Any]) -> str:
    for name, words in (("at_most", "at most"), ("at_least", "at least")):
        if name in figure:
            return f"{words} {figure[name]:.4g}"
    return ""


def _met(judged: Mapping[str, Any]) -> str:
    if "met" not in judged:
        return ""
    return "yes" if judged["met"] else "**no**"


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
    return [*parts, asked(found)] if found else []


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
            f"{100 * run['share_of_bound_and_capacity']:.1f}",
            f"{100 * run['share_of_bound']:.1f}",
            f"{run['waiting_mean']:.2f}",
            *([_stolen([run])] if taken else []),
            _met(run),
        ]
        for run in found.values()
    ]
    if not rows:
        return []
    stretches = [f"most in {stretch} s" for stretch in next(iter(found.values()))["most_allowed"]]
    columns = ["run", *stretches, f"% of the rate while the network forwards, {JUDGED_SHARE}"]
    columns += ["% of the rate with all stalls in it, not judged", "waiting, asked for: at most 2"]
    columns += [*(["stolen, %"] if taken else []), "met"]
    return [
        "A ceiling of 400/s through 11 ms, while the network stalls for 0.3 s every 15 s and its "
        "round trip changes to 4.7 times, half and back, every 5 minutes. Most hand-overs by the "
        "core's clock, what is allowed, and in brackets the most starts by the handler's clock. "
        "Judged is the share of the rate while the network forwards: in a stall no message can "
        "come, and afterwards a ceiling must not make up for it beyond its burst. With a burst of "
        "1 nothing is asked of the share.",
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
        parts += [f"### {TITLES[name]}", table(columns, rows), _before(played)]
    if parts:
        parts.insert(
            0,
            "Beside the strongest laws of the tournament through the same window, and what users "
            "do today, with 1, 2 and again 1 ms of work. One run of each, in the order of the sum "
            "of the columns, a rate in that of its error.",
        )
    return parts


def _before(played: Mapping[str, Any]) -> str:
    """Which laws are before ours in a table, and by how much."""
    if not played["before_ours"]:
        return "No law is before ours."
    laws = ", ".join(f"{law} by {by:.2f}" for law, by in played["before_ours"].items())
    return f"**Before ours: {laws}.**"


def in_blocks(parts: Callable[[Mapping[str, Any]], list[str]]) -> Section:
    return lambda found: "\n\n".join(parts(found))


SECTIONS: dict[str, Section] = {
    "live_laws": in_blocks(laws),
    "live_bound": in_blocks(bound),
    "live_peers": in_blocks(others),
    "goal_laws": asked,
    "bounded_worlds": asked,
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
