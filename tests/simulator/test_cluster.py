"""The self-optimising clustered queue: its rules, and the two experiments of its source."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq.errors import InputError
from simulator import Broker, Consumer, Duration, Publishers, Queue, Scenario, Simulation
from simulator.studies.cluster import (
    CONSUMER,
    PRODUCER,
    Cluster,
    ClusterPlant,
    ClusterSample,
    GrowthFeedback,
    Machines,
    ProvisioningRule,
    SimulatedCluster,
)
from tests.known.clustered_queue import CAPACITY, balanced, controlled, grown, peak
from tests.simulator.test_gallery import program

ROOT = Path(__file__).parents[2]


def test_clients_join_where_their_role_is_rarest() -> None:
    cluster = Cluster(100, 2)
    cluster.attach(PRODUCER, "queue 1")
    assert cluster.join(PRODUCER).name == "queue 2"
    assert cluster.join(CONSUMER).name == "queue 1"
    assert cluster.join(CONSUMER).name == "queue 2"


def test_a_full_cluster_grows_with_the_next_client() -> None:
    cluster = Cluster(2)
    assert [cluster.join(CONSUMER).name for _ in range(3)] == ["queue 1", "queue 1", "queue 2"]


def test_a_marked_queue_gets_no_clients_and_goes_with_its_last() -> None:
    cluster = Cluster(2)
    joined = [cluster.join(CONSUMER).name for _ in range(3)]
    cluster.leave(CONSUMER, joined[0])
    assert [member.marked for member in cluster.members] == [True, False]
    assert cluster.join(CONSUMER).name == "queue 2"
    cluster.leave(CONSUMER, "queue 1")
    assert cluster.removed == ["queue 1"]


def test_a_marked_queue_stays_while_it_has_messages() -> None:
    cluster = Cluster(2, 2, provision=False)
    cluster.member("queue 2").waiting = 1
    cluster.shrink(cluster.member("queue 2"))
    assert cluster.removed == []
    cluster.member("queue 2").waiting = 0
    cluster.remove_empty()
    assert cluster.removed == ["queue 2"]


def test_a_removed_queue_leaves_its_name_to_the_next() -> None:
    cluster = Cluster(2, 3, provision=False)
    cluster.shrink(cluster.member("queue 2"))
    assert cluster.grow().name == "queue 2"
    assert cluster.grow().name == "queue 4"


def test_a_full_cluster_takes_a_marked_queue_back_even_at_its_most() -> None:
    cluster = Cluster(2, 2, most=2)
    cluster.attach(PRODUCER, "queue 1")
    cluster.shrink(cluster.member("queue 1"))
    assert [cluster.join(PRODUCER).name for _ in range(3)] == ["queue 2", "queue 2", "queue 1"]


def test_each_queue_may_have_a_capacity_of_its_own() -> None:
    cluster = Cluster([1, 3, 2])
    joined = [cluster.join(CONSUMER).name for _ in range(6)]
    assert joined == ["queue 1", *["queue 2"] * 3, *["queue 3"] * 2]
    assert [member.load for member in cluster.members] == [1, 1, 1]
    assert cluster.most == 3


def test_a_full_queue_takes_nobody_while_another_has_room() -> None:
    cluster = Cluster([2, 10], 2)
    for _ in range(6):
        cluster.join(PRODUCER)
    assert [member.size for member in cluster.members] == [2, 4]


def test_any_queue_the_cluster_can_spare_is_marked() -> None:
    """The one with the fewest clients is too large to be spared, the other is not."""
    cluster = Cluster([10, 3], 2)
    for role, name in (*[(PRODUCER, "queue 1")] * 2, *[(CONSUMER, "queue 2")] * 3):
        cluster.attach(role, name)
    cluster.leave(PRODUCER, "queue 1")
    assert [member.marked for member in cluster.members] == [False, True]


def test_of_queues_it_can_spare_the_one_with_the_fewest_clients_is_marked() -> None:
    cluster = Cluster([4, 6, 9], 3)
    for name in ("queue 1", "queue 1", "queue 2", "queue 3", "queue 3", "queue 3"):
        cluster.attach(CONSUMER, name)
    cluster.leave(CONSUMER, "queue 3")
    assert [member.marked for member in cluster.members] == [False, True, False]


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 100)), max_size=80),
    st.lists(st.integers(1, 6), max_size=12),
)
def test_no_client_is_moved_and_no_queue_goes_with_clients(
    steps: list[tuple[bool, bool, int]], capacities: list[int]
) -> None:
    cluster, clients = Cluster([*capacities, 100]), []
    for joins, produces, which in steps:
        role = PRODUCER if produces else CONSUMER
        if joins:
            clients.append((role, cluster.join(role).name))
        elif clients:
            cluster.leave(*clients.pop(which % len(clients)))
        # Everybody is where it was attached, and everything attached is somebody.
        for member in cluster.members:
            for each in (PRODUCER, CONSUMER):
                assert member.clients[each] == clients.count((each, member.name))
        names = {member.name for member in cluster.members}
        assert {name for _, name in clients} <= names
        assert all(member.load <= 1 for member in cluster.members)
        assert len(cluster.staying) >= 1


def test_one_producer_needs_two_consumers() -> None:
    for consumers, stable in ((1, False), (2, True)):
        system = SimulatedCluster(Cluster(100, 1, most=1))
        system.join(PRODUCER)
        for _ in range(consumers):
            system.join(CONSUMER)
        assert (system.run(60.0).growth < 1.0) is stable


def test_optimised_balancing_is_stable_and_beats_the_default() -> None:
    optimised = balanced("optimised", seed=0)
    default = [balanced("default", seed=seed) for seed in range(10)]
    assert optimised.growth == pytest.approx(0, abs=0.5)
    assert optimised.throughput == pytest.approx(350, rel=0.01)
    assert optimised.throughput > 1.15 * statistics.fmean(each.throughput for each in default)
    assert sum(each.growth > 1 for each in default) >= 5


@pytest.mark.slow
def test_provisioning_doubles_what_one_queue_can_do() -> None:
    one, two = (peak(grown(provision)) for provision in (False, True))
    assert one == pytest.approx(1900, rel=0.01)
    assert 1.9 <= round(two / one, 2) <= 2.0


def test_forwarding_loses_nothing() -> None:
    system = SimulatedCluster(
        Cluster(100, 2, provision=False, most=2), Machines(forward_above=50), "default", seed=1
    )
    for role, count in ((PRODUCER, 4), (CONSUMER, 8)):
        for _ in range(count):
            system.join(role)
    system.run(20.0)
    for client in [name for name, (role, _) in system.clients.items() if role == PRODUCER]:
        system.leave(client)
    system.run(60.0)
    simulation = system.simulation
    finished = sum(
        simulation.totals(name).finished
        for name in simulation.consumers
        if not name.startswith("forward")
    )
    assert finished == int(simulation.state.publishers["published"].sum())
    assert simulation.sent["to", "queue 1"] + simulation.sent["to", "queue 2"] > 0


def test_a_long_queue_works_more_slowly() -> None:
    def rate(waiting: int) -> float:
        simulation = Simulation(
            Scenario(
                "slowing",
                1.0,
                [Publishers("p", "q", Duration(0.0001))],
                [Queue("q", slowdown=0.001)],
                [Consumer("c", "q", Duration(0.0), prefetch=0.0)],
                broker=Broker(deliver=0.001),
            )
        )
        simulation.run_until(0.0001 * waiting)
        simulation.pause_publishers()
        simulation.set_prefetch("c", 10.0)
        before = simulation.now
        simulation.run_until(before + 0.05)
        return simulation.totals("c").arrivals / 0.05

    assert rate(1000) == pytest.approx(rate(100) * 1.1 / 2, rel=0.1)


@pytest.mark.slow
def test_the_example_prints_what_its_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program("clustered_queue").main(tmp_path)
    printed, page = capsys.readouterr().out, (ROOT / "docs" / "selfware.md").read_text()
    for figure in ("144", "4.20", "17", "1.90", "145248"):
        assert figure in printed
        assert figure in page
    assert (tmp_path / "clustered-queue.svg").read_text().startswith("<svg")


@pytest.mark.slow
def test_the_rule_as_a_controller_provisions_as_the_cluster_does() -> None:
    steps = controlled(ProvisioningRule())
    assert steps[0].sample.prefetch == 1
    assert steps[-1].prefetch == 3  # 144 clients, 63 a queue
    assert steps[-1].sample.rate == pytest.approx(48 * 87.5, rel=0.01)


def test_the_rule_adds_up_capacities_in_the_order_in_which_queues_are_kept() -> None:
    def wanted(clients: int) -> float:
        sample = ClusterSample(1, 1.0, 1.0, 1.0, 0, clients=clients, capacities=(5, 1, 3))
        return ProvisioningRule()(sample, 100.0)

    assert [wanted(clients) for clients in (0, 4, 5, 6, 8)] == [1, 1, 2, 3, 3]


def test_a_controller_sees_which_capacity_goes_first_and_which_comes_next() -> None:
    cluster = Cluster([5, 1, 3, 7], 3, provision=False)
    plant = ClusterPlant(SimulatedCluster(cluster), 1.0, lambda *_: None)
    for name in ("queue 1", "queue 3", "queue 3", "queue 2"):
        cluster.attach(CONSUMER, name)
    cluster.shrink(cluster.member("queue 2"))
    sample = plant.observe()
    assert sample.capacities == (3, 5, 1, 7)
    plant.actuate(1.0)
    assert [member.name for member in cluster.staying] == ["queue 3"]


@pytest.mark.slow
def test_feedback_on_growth_provisions_without_knowing_the_clients() -> None:
    """Producers three times as fast as the capacity was made for: only feedback sees it."""
    rule, feedback = (
        controlled(
            controller, rate=3 * Machines().rate, work=Machines().work / 3, joins=CAPACITY // 6
        )
        for controller in (ProvisioningRule(), GrowthFeedback())
    )
    assert feedback[-1].prefetch > rule[-1].prefetch
    assert feedback[-1].sample.rate > 1.2 * rule[-1].sample.rate


def test_bad_clusters_are_refused() -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Cluster(0), "capacity is 0"),
        (lambda: Cluster([3, 0]), "capacity is 0"),
        (lambda: Cluster([]), "number of capacities is 0"),
        (lambda: Cluster([3, 4], most=2), "leave most out"),
        (lambda: Cluster(1, most=1).grow(), "may have no more"),
        (lambda: Cluster(1).shrink(Cluster(1).members[0]), "has to stay"),
        (lambda: Cluster(1).join("reader"), "role is 'reader'"),
        (lambda: Cluster(1).leave(PRODUCER, "queue 1"), "no producer that could leave"),
        (lambda: Cluster(1).member("queue 9"), "no queue 'queue 9'"),
        (lambda: SimulatedCluster(Cluster(1), balance="luck"), "balance is 'luck'"),
        (
            lambda: ClusterPlant(SimulatedCluster(Cluster(1)), 1.0, lambda *_: None),
            "provision=False",
        ),
    ]
    for make, words in wrong:
        with pytest.raises(InputError, match=words):
            make()
