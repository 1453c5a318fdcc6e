"""How many calls of the core a message costs where its ack is held for a while."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from controlmq.consumer import core
from controlmq.consumer.core import Core
from tests.worlds.steady import CoreWorld, Plant

MOST_CALLS = 30
CONSUMER = str(Path(inspect.getfile(core)).parent)


@pytest.mark.parametrize("spread", [False, True], ids=["unspread", "spread"])
@pytest.mark.parametrize("prefetch", [2.5, 0.5])
def test_held_acks_cost_few_calls(prefetch: float, spread: bool) -> None:
    # One interval is over, so that the spacing is known; the next ends after all this.
    world = CoreWorld(Plant(prefetch, 0.001, 0.011, 1, spread, interval=10.0))
    world.run_for(10.5)
    before = world.arrivals
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        # The world asks for acks after every event; a runner does when there are some.
        asking = code is Core.take_acks.__code__
        if event == "call" and code.co_filename.startswith(CONSUMER) and not asking:
            calls[code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        world.run_for(15.0)
    finally:
        sys.setprofile(None)
    assert world.arrivals - before > 100
    assert calls.total() / (world.arrivals - before) <= MOST_CALLS, calls.most_common()
