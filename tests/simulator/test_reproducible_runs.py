"""The same seed is the same run, however it is cut and whatever runs beside it."""

from __future__ import annotations

import pytest

from simulator import (
    Consumer,
    Duration,
    Link,
    Publishers,
    Queue,
    Scenario,
    Send,
    Simulation,
    Size,
)
from tests.simulator.scenarios import NOISY, one_queue, with_prefetch, with_publishers


def run(scenario: Scenario, cuts: list[float], seed: int = 7) -> Simulation:
    simulation = Simulation(scenario, seed)
    for time in cuts:
        simulation.run_until(time)
    return simulation


def outcome(simulation: Simulation) -> tuple[object, ...]:
    state = simulation.state
    return (simulation.counts, *(getattr(state, name).tobytes() for name in state.ROWS))


def test_the_same_seed_gives_the_same_run_bit_for_bit() -> None:
    scenario = with_prefetch(NOISY, 5.625)
    assert outcome(run(scenario, [10.0])) == outcome(run(scenario, [10.0]))


def test_cutting_a_run_into_samples_changes_nothing() -> None:
    for prefetch in (0.375, 5.625, 22.0, 40.0):
        scenario = with_prefetch(NOISY, prefetch)
        whole = outcome(run(scenario, [10.0]))
        assert outcome(run(scenario, [float(k) for k in range(1, 11)])) == whole
        assert outcome(run(scenario, [k / 300 for k in range(1, 3001)])) == whole


def test_another_seed_gives_another_run() -> None:
    scenario = with_prefetch(NOISY, 5.0)
    one, two = (run(scenario, [10.0], seed).totals("consumer") for seed in (1, 2))
    assert one != two


def test_more_publishers_leave_the_draws_of_the_business_logic_alone() -> None:
    def work_times(publishers: int) -> list[float]:
        simulation = Simulation(with_publishers(NOISY, publishers), seed=3)
        sums: dict[int, float] = {}
        for step in range(1, 4000):
            simulation.run_until(step * 0.001)
            totals = simulation.totals("consumer")
            sums[totals.finished] = totals.work_time
        assert max(sums) >= 200
        return [sums[finished] for finished in range(1, 200)]

    assert work_times(25) == work_times(40)


@pytest.mark.parametrize(
    "size",
    [Size(2000.0, "exponential"), Size(distribution="replay", values=[90.0, 2000.0, 50.0, 700.0])],
)
def test_what_joins_leaves_the_sizes_of_the_others_alone(size: Size) -> None:
    # More comes than two workers take, so that when each sends does not depend on the others;
    # the link, which is too thin, shows how many bytes each has sent.
    scenario = Scenario(
        "joining",
        1.0,
        [
            Publishers("p", "done", Duration(0.01), message_size=size, link="thin"),
            Publishers("tasks", "work", Duration(0.01)),
        ],
        [Queue("work"), Queue("done")],
        [Consumer("c", "work", Duration(0.025), link="thin", sends=[Send("done", size=size)])],
        [Link("thin", bytes_per_second=2e4)],
    )
    plain, joined = Simulation(scenario), Simulation(scenario)
    joined.run_until(5.0)
    joined.add_publishers("p")
    joined.add_consumer("c")
    sent = []
    for simulation in (plain, joined):
        simulation.run_until(50.0)
        state = simulation.state
        ports = [int(state.publishers[0]["port"]), int(state.consumers[0]["port"])]
        sent.append(state.ports["free"][ports].tolist())
    assert min(sent[0]) > 50.0
    assert sent[0] == sent[1]


def test_changing_the_work_leaves_the_publishers_alone() -> None:
    every = Duration(0.001, "exponential")
    published = {
        run(
            one_queue(every, Duration(work, "lognormal", work), prefetch=3), [20.0]
        ).counts.published
        for work in (0.0001, 0.01)
    }
    assert len(published) == 1
