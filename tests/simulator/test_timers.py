"""The earliest timer is on top, whatever was set before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.rows import CLOCK
from simulator.engine.simulation_state import SimulationState
from simulator.engine.timers import NEVER, ROOT, leaves, new_timers, set_timer, when

times = st.integers(0, 5).map(float) | st.just(NEVER)


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), times), max_size=60))
def test_the_earliest_timer_is_on_top_and_of_equals_the_lowest_slot(
    slots: int, changes: list[tuple[int, float]]
) -> None:
    clock = np.zeros(1, CLOCK)
    clock["leaves"] = leaves(slots)
    state = SimulationState(clock=clock, timers=new_timers(np.full(slots, NEVER)))
    expected = [NEVER] * slots
    for slot, time in changes:
        set_timer(state, slot % slots, time)
        expected[slot % slots] = time
        assert state.timers[ROOT]["due"] == min(expected)
        assert state.timers[ROOT]["slot"] == expected.index(min(expected))
        assert when(state, slot % slots) == time
        assert np.array_equal(state.timers, new_timers(np.array(expected)))
