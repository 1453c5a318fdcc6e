"""Named series as a chart to explore: hover for values, hide a curve, zoom.

A figure holds its picture and the numbers behind it. ``explorable.js``, which every page has,
draws the numbers in place of the picture; without scripts, and on paper, the picture is there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from typing import Any, Literal

Kind = Literal["line", "dashed", "step", "points", "bars"]

DIGITS = 7
"""Significant digits of the numbers in a page."""


@dataclass(frozen=True)
class Series:
    """Values that belong together, in the order of ``x``; ``labels`` say more of each.

    A ``step`` holds the value of a sample from half a sample before it to half a sample after it;
    ``bars`` are as wide as their distance.
    """

    name: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]
    kind: Kind = "line"
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Mark:
    """An upright line at ``x`` that has a name."""

    x: float
    name: str


@dataclass(frozen=True)
class Panel:
    """Series on one pair of axes. The panels of a figure that have one ``x`` zoom together.

    ``at_first`` is the part of ``x`` that a reader sees before zooming out; None for all of it.
    ``height`` is in pixels.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    at_first: tuple[float, float] | None = None
    height: int = 230


def figure(picture: str, caption: str, panels: Sequence[Panel] = (), *, columns: int = 1) -> str:
    """A figure with its picture (an SVG element) and, where there are panels, their numbers."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    shown = f'<div class="picture">{picture}</div>'
    if not panels:
        return f"<figure>{shown}{below}</figure>"
    # A "<" could end the script element.
    numbers = json.dumps(_plain([asdict(panel) for panel in panels])).replace("<", "\\u003c")
    return (
        f'<figure class="explorable" style="--columns: {columns}">{shown}'
        f'<script type="application/json">{numbers}</script>{below}</figure>'
    )


def resource(name: str) -> str:
    """The text of ``explorable.js`` or ``explorable.css``, for a page to hold."""
    return files(__package__).joinpath(name).read_text("utf-8")


def _plain(value: Any) -> Any:
    """JSON types, with numbers rounded to ``DIGITS`` and None for those that are not finite."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [_plain(each) for each in value]
