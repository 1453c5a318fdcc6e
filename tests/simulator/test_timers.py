"""The earliest timer is on top, whatever was set before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.timers import NEVER, ROOT, new_timers, set_timer, when

times = st.integers(0, 5).map(float) | st.just(NEVER)


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), times), max_size=60))
def test_the_earliest_timer_is_on_top_and_of_equals_the_lowest_slot(
    slots: int, changes: list[tuple[int, float]]
) -> None:
    timers = new_timers(slots)
    expected = [NEVER] * slots
    for slot, due in changes:
        set_timer(timers, slot % slots, due)
        expected[slot % slots] = due
        assert timers.due[ROOT] == min(expected)
        assert timers.slot[ROOT] == expected.index(min(expected))
        assert when(timers, slot % slots) == due
