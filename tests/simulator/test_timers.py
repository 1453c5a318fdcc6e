"""The earliest timer is on top, whatever was set before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.rows import CLOCK
from simulator.state import State
from simulator.timers import NEVER, ROOT, leaves, new_timers, set_timer, when

times = st.integers(0, 5).map(float) | st.just(NEVER)


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), times), max_size=60))
def test_the_earliest_timer_is_on_top_and_of_equals_the_lowest_slot(
    slots: int, changes: list[tuple[int, float]]
) -> None:
    clock = np.zeros(1, CLOCK)
    clock["leaves"] = leaves(slots)
    due, winner = new_timers(np.full(slots, NEVER))
    state = State(clock=clock, due=due, winner=winner)
    expected = [NEVER] * slots
    for slot, time in changes:
        set_timer(state, slot % slots, time)
        expected[slot % slots] = time
        assert state.due[ROOT] == min(expected)
        assert state.winner[ROOT] == expected.index(min(expected))
        assert when(state, slot % slots) == time
        rebuilt = new_timers(np.array(expected))
        assert np.array_equal(rebuilt[0], state.due)
        assert rebuilt[1][ROOT] == state.winner[ROOT]
