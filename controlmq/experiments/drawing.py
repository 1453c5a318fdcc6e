"""How pictures look, whichever command draws them."""

from __future__ import annotations

import io

from controlmq.extras import check

# Before the import below: it would fail without naming the extra.
check({"reports": ["matplotlib"]}, "controlmq.experiments.drawing")

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

matplotlib.rcParams.update(
    {
        "svg.hashsalt": "controlmq",  # the same result gives the same file
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
    }
)

COLOURS = {"p": "#8c6bb1", "pi": "#0072b2", "pid": "#d55e00"}
MEASURED, MODEL, MARK = "#4d4d4d", "#0072b2", "#b2182b"


def one_plot(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this size in inches, with one pair of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def svg(figure: Figure) -> str:
    """The figure as an SVG element, to stand alone or in a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    written = text.getvalue()
    return written[written.index("<svg") :]
