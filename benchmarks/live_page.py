"""Writes what the live benchmarks of goals found into docs/goals.md.

    python -m benchmarks live_laws live_peers live_bound > found.json
    python -m benchmarks.live_page found.json

Parts that were run one by one go into one page: give all their files. A part that none of them has
stays out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "goals.md"
BEGIN, END = "<!-- live: begin -->", "<!-- live: end -->"

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


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
            rows.append([name, off, sd, prefetch])
    parts = []
    if rows:
        columns = ["rate", "mean off the goal, %", "spread of a second, %", "prefetch"]
        parts.append(table(columns, rows))
    if "rate" in found:
        fixed = found["rate"]["least_fixed_prefetch"]
        parts.append(f"The least fixed prefetch that reaches 400/s through 11 ms is {fixed}.")
    if "least" in found:
        pairs = found["least"]
        parts.append(
            "The least prefetch does "
            f"{middle(pairs['throughput_ratio'], 1, 100)} % of what a prefetch of 250 does, with "
            f"{middle(pairs['buffer_time_ratio'], 1, 100)} % of its time in the buffer "
            f"({len(pairs['pairs'])} pairs in turns)."
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


def bound(found: Mapping[str, Any]) -> list[str]:
    """What ``live_bound`` found."""
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
        ]
        for run in found.values()
    ]
    if not rows:
        return []
    stretches = [f"most in {stretch} s" for stretch in next(iter(found.values()))["most_allowed"]]
    columns = ["run", *stretches, "% of bound and capacity (of the bound)", "waiting"]
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
        columns = ["law", *played["columns"].values()]
        rows = [
            [
                f"**{row['law']}**" if row["ours"] else row["law"],
                *(f"{row[column]:.2f}" for column in played["columns"]),
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


def section(found: Sequence[Mapping[str, Any]]) -> str:
    """All that is between the marks of the page."""
    benchmarks = merged(found)
    parts = [
        *laws(benchmarks.get("live_laws", {})),
        *bound(benchmarks.get("live_bound", {})),
        *others(benchmarks.get("live_peers", {})),
    ]
    return "\n\n".join(parts)


def main() -> int:
    found = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    if not found:
        print("give the files that hold what benchmarks printed.", file=sys.stderr)
        return 2
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{section(found)}\n\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
