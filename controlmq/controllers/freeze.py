"""When a controller must not learn from a sample."""

from __future__ import annotations

from controlmq.sample import Sample


def frozen(sample: Sample, goal: float) -> bool:
    """Whether the sample says nothing about the prefetch, so that the law must stand still.

    While the window is not the limit, a rate below the goal is the queue's doing, and a law
    that answered it would wind up. A rate above the goal is different: lowering the prefetch
    until the window is the limit again brings it back to the goal.
    """
    return not sample.window_limited and sample.rate <= goal
