"""How long Li's two thread pools are simulated."""

from __future__ import annotations

from simulator.studies.visibility import TwoPools


def seconds(pools: TwoPools) -> float:
    """Long enough for one percent: busy pools forget slowly."""
    return float(400.0 / (1 - max(pools.loads)) ** 1.8)
