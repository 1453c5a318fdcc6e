"""Consumers of one process or several in a terminal, drawn from what their dashboards tell."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from controlmq.observe.dashboard import DEFAULT_PORT
from controlmq.observe.serving import LOOPBACK
from controlmq.sample import STARVED_TOLERANCE_SHARE

ANSWER_SECONDS = 3.0
"""Seconds for a process to answer."""

BARS = "▁▂▃▄▅▆▇█"

SHORTEST_CURVE = 12
"""Characters below which a curve of rates is left out."""

GOALS: dict[str, Callable[[float], str]] = {
    "rate": lambda value: f"{value:g}",
    "at_most": lambda value: f"<={value:g}",
    "buffer_time": lambda value: f"{1000 * value:g}ms",
    "protect": lambda value: "protect",
}
"""A goal in a few characters."""


@dataclass(frozen=True)
class Process:
    """What one process told, or why it did not."""

    address: str
    told: dict[str, Any] | None
    problem: str = ""


def url_of(address: str) -> str:
    """The URL of a dashboard, from an address as users give it: a port, host:port or a URL."""
    if address.startswith("http://"):
        return address.rstrip("/")
    if not address:
        return f"http://{LOOPBACK}:{DEFAULT_PORT}"
    return f"http://{LOOPBACK}:{address}" if address.isdigit() else f"http://{address}"


def ask(address: str) -> Process:
    """What the process at ``address`` tells now."""
    try:
        with urllib.request.urlopen(f"{url_of(address)}/consumers", timeout=ANSWER_SECONDS) as told:
            return Process(address, json.load(told))
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return Process(address, None, str(getattr(reason, "strerror", None) or reason).lower())


@dataclass(frozen=True)
class Column:
    """A column of the table: its title, its width, and whether it can be left out.

    Columns with a higher ``rank`` are the first to go where the terminal is narrow.
    """

    title: str
    width: int
    rank: int
    left: bool = False


COLUMNS = (
    Column("consumer", 16, 0, left=True),
    Column("queue", 16, 6, left=True),
    Column("rate/s", 8, 0),
    Column("goal", 8, 0),
    Column("prefetch", 8, 0),
    Column("limits", 11, 4),
    Column("in fl.", 6, 3),
    Column("held", 5, 1),
    Column("lanes", 5, 2),
    Column("buffer", 8, 2),
    Column("handler", 8, 5),
    Column("received", 10, 6),
    Column("rejected", 8, 7),
    Column("law", 10, 5, left=True),
    Column("state", 15, 1, left=True),
)


def frame(processes: Sequence[Process], width: int, height: int, now: float) -> list[str]:
    """The lines of a screen: a table of all consumers, their rates as curves, the last events."""
    heading = f"controlmq  {time.strftime('%H:%M:%S', time.localtime(now))}"
    heading += f"  {len(processes)} process{'es' if len(processes) != 1 else ''}"
    lines = [_cut(f"{heading}   (Ctrl-C ends this, not the consumers)", width), ""]
    columns = _fitting(width)
    lines.append(_row([column.title for column in columns], columns))
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for process in processes:
        if process.told is None:
            where = url_of(process.address).removeprefix("http://")
            lines.append(_cut(f"{where} does not answer: {process.problem}", width))
            continue
        rows += [(each, each["samples"][-1]) for each in process.told["consumers"]]
        if not process.told["consumers"]:
            where = process.told["process"]
            lines.append(_cut(f"{where['host']} {where['pid']}: no consumer yet", width))
    for consumer, sample in rows:
        words = _words(consumer, sample, now)
        lines.append(_row([words[column.title] for column in columns], columns))
    room = height - len(lines) - 1
    events = _events(processes)
    curves = _curves([consumer for consumer, _ in rows], width)
    shown = curves[: max(0, room - min(len(events) + 2, max(3, room // 3)))]
    if shown:
        lines += ["", *shown[: max(0, room - 1)]]
    left = height - len(lines) - 2
    if events and left > 1:
        lines += ["", *[_cut(line, width) for line in events[-(left):]]]
    return lines[:height]


def _fitting(width: int) -> list[Column]:
    """The columns for which there is room; names get what is left over."""
    columns = list(COLUMNS)
    while sum(column.width + 2 for column in columns) - 2 > width and len(columns) > 1:
        columns.remove(max(columns, key=lambda column: column.rank))
    spare = width - (sum(column.width + 2 for column in columns) - 2)
    names = [column for column in columns if column.title in ("consumer", "queue")]
    return [
        Column(column.title, column.width + min(24, spare // max(1, len(names))), 0, True)
        if column in names and spare > 0
        else column
        for column in columns
    ]


def _row(words: Sequence[str], columns: Sequence[Column]) -> str:
    cells = []
    for word, column in zip(words, columns, strict=True):
        word = _cut(word, column.width)
        cells.append(word.ljust(column.width) if column.left else word.rjust(column.width))
    return "  ".join(cells).rstrip()


def _words(consumer: dict[str, Any], sample: dict[str, Any], now: float) -> dict[str, str]:
    goals, limits = sample["goals"], sample["limits"]
    return {
        "consumer": consumer["consumer"],
        "queue": consumer["queue"],
        "rate/s": f"{sample['rate']:.1f}",
        "goal": " ".join(GOALS[kind](value) for kind, value in goals.items()) or "-",
        "prefetch": f"{sample['prefetch']:.2f}",
        "limits": f"{limits[0]:g}-{limits[1]:g}" if limits else "-",
        "in fl.": f"{sample['in_flight']:.1f}",
        "held": f"{sample['held']:.1f}",
        "lanes": str(sample["lanes"]),
        "buffer": f"{1000 * sample['buffer_time']:.3g} ms",
        "handler": f"{1000 * sample['handler_time']:.3g} ms",
        "received": str(sample["received"]),
        "rejected": str(sample["refused"]),
        "law": sample["law"],
        "state": state_of(consumer, sample, now),
    }


def state_of(consumer: dict[str, Any], sample: dict[str, Any], now: float) -> str:
    """The one word that matters most."""
    silent = now - sample["time"]
    if not consumer["running"]:
        return "ended"
    if silent > 3 * sample["interval"] + 3:
        return f"silent {silent:.0f} s"
    if sample["switched_off"]:
        return "kill switch on"
    if sample["starved"] > STARVED_TOLERANCE_SHARE:
        return "dry, frozen" if sample["frozen"] else "dry"
    if sample["at_limit"]:
        return f"at {sample['at_limit']} limit"
    return "fixed" if sample["law"] == "fixed" else "holding"


def _curves(consumers: Sequence[dict[str, Any]], width: int) -> list[str]:
    """The last rates of each consumer, from 0 to the highest, newest to the right."""
    name = min(24, max((len(each["consumer"]) for each in consumers), default=0))
    room = width - name - 22
    if room < SHORTEST_CURVE:
        return []
    lines = []
    for each in consumers:
        rates = [sample["rate"] for sample in each["samples"][-room:]]
        most = max(rates) or 1.0
        curve = "".join(BARS[min(7, int(8 * rate / most))] for rate in rates)
        lines.append(
            f"{_cut(each['consumer'], name).ljust(name)}  {curve.rjust(room)}  0-{most:.0f}/s"
        )
    return [_cut(line, width) for line in lines]


def _events(processes: Sequence[Process]) -> list[str]:
    told = [event for each in processes if each.told for event in each.told["events"]]
    told.sort(key=lambda event: event["time"])
    return [
        f"{time.strftime('%H:%M:%S', time.localtime(event['time']))}  "
        f"{event['consumer']}: {event['text']}"
        for event in told
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
