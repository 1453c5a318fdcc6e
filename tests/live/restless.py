"""A window that is never still, for tests in which the changes themselves must not show."""

from __future__ import annotations

from typing import Any


def changing(*targets: float) -> Any:
    """A controller that goes through ``targets`` again and again."""
    return lambda sample, goal: targets[sample.number % len(targets)]


LANES: dict[str, Any] = {
    "goal": 100,
    "controller": changing(1, 9, 4.5, 14, 0.6),
    "interval": 0.02,
    "prefetch": 2,
}
"""A window that is never still: whatever works here works with any controller."""
