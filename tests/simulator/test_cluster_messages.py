"""A simulated cluster whose clients and queues come and go loses no message."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulator.studies.cluster import CONSUMER, PRODUCER, Cluster, Machines, SimulatedCluster

STEPS = st.tuples(
    st.sampled_from(("join", "join", "leave")),
    st.sampled_from((PRODUCER, CONSUMER)),
    st.integers(0, 100),
    st.sampled_from((0.0, 0.01, 1.5)),
)

MACHINES = [
    Machines(queue_work=work, forward_above=above)
    for work in (1 / 1900, 1 / 50)
    for above in (None, 20)
]

ON_ITS_WAY = [
    ("join", CONSUMER, 0, 1.5),
    ("join", PRODUCER, 0, 1.5),
    ("join", CONSUMER, 0, 1.5),
    ("join", PRODUCER, 0, 0.0),
    ("join", CONSUMER, 0, 0.0),
    ("join", CONSUMER, 0, 0.01),
]
"""Queue 3 goes while a message is between the relay and it."""


def two_queues(machines: Machines | None = None) -> SimulatedCluster:
    """A producer and a consumer, half of what it needs, on each of two queues."""
    system = SimulatedCluster(
        Cluster(10, 2, provision=False, most=2), machines or Machines(), seed=1
    )
    for role in (PRODUCER, CONSUMER) * 2:
        system.join(role)
    return system


def leave(system: SimulatedCluster, queue: str, role: str) -> None:
    """All clients of a role leave a queue."""
    for client in [name for name, each in system.clients.items() if each == (role, queue)]:
        system.leave(client)


def published_and_finished(system: SimulatedCluster) -> tuple[int, int]:
    """Messages that producers sent, and that consumers have worked on."""
    simulation = system.simulation
    published = int(simulation.state.publishers["published"].sum())
    workers = [name for name in simulation.consumers if name.startswith(CONSUMER)]
    return published, sum(simulation.totals(name).finished for name in workers)


def waiting_in(system: SimulatedCluster, queue: str) -> int:
    """Messages that wait in a queue of the simulation, member of the cluster or not."""
    names = [each.name for each in system.simulation.scenario.queues]
    return int(system.simulation.state.queues["length"][names.index(queue)])


def test_what_waits_in_a_queue_that_goes_is_worked_on_elsewhere() -> None:
    system = two_queues()
    system.run(10.0)
    system.cluster.shrink(system.cluster.member("queue 2"))
    leave(system, "queue 2", CONSUMER)
    leave(system, "queue 2", PRODUCER)
    assert waiting_in(system, "queue 2") > 300
    assert system.cluster.removed == []
    system.run(5.0)
    assert system.cluster.removed == ["queue 2"]
    leave(system, "queue 1", PRODUCER)
    system.run(60.0)
    published, finished = published_and_finished(system)
    assert published == finished > 1000


def test_a_queue_is_not_removed_before_what_was_sent_to_it_has_entered() -> None:
    slow = Machines(rate=100.0, queue_work=0.9)  # entering a queue takes a third of that
    system = two_queues(slow)
    system.run(1.0)
    system.cluster.shrink(system.cluster.member("queue 2"))
    leave(system, "queue 2", CONSUMER)
    leave(system, "queue 2", PRODUCER)
    assert waiting_in(system, "queue 2") < 10
    assert system.cluster.removed == []
    leave(system, "queue 1", PRODUCER)
    system.run(400.0)
    assert system.cluster.removed == ["queue 2"]
    published, finished = published_and_finished(system)
    assert published == finished > 150


def test_nothing_is_forwarded_to_a_marked_queue() -> None:
    system = two_queues(Machines(forward_above=50))
    leave(system, "queue 1", CONSUMER)
    leave(system, "queue 2", PRODUCER)
    system.run(10.0)
    sent = system.simulation.sent["to", "queue 2"]
    assert sent > 0
    system.cluster.shrink(system.cluster.member("queue 2"))
    system.run(10.0)
    assert system.simulation.sent["to", "queue 2"] - sent <= 20  # those on their way
    assert system.cluster.member("queue 1").waiting > 500


def test_a_cluster_grows_and_shrinks_again_and_again() -> None:
    system = SimulatedCluster(Cluster(2, most=2))
    for _ in range(5):
        clients = [system.join(CONSUMER) for _ in range(4)]
        assert len(system.cluster.members) == 2
        for client in clients:
            system.leave(client)
        assert len(system.cluster.members) == 1
    assert len(system.cluster.removed) == 5


def check(system: SimulatedCluster, joined: dict[str, tuple[str, str]]) -> None:
    """Every client is where it joined, and what is no member has neither clients nor messages."""
    assert system.clients == joined
    members = {member.name: member for member in system.cluster.members}
    for name in system.cluster.capacities:
        attached = {
            role: list(joined.values()).count((role, name)) for role in (PRODUCER, CONSUMER)
        }
        if name in members:
            assert members[name].clients == attached
        else:
            assert attached == {PRODUCER: 0, CONSUMER: 0}
            assert waiting_in(system, name) == 0


def test_every_message_is_worked_on_once_while_clients_join_and_leave() -> None:
    removed: list[str] = []

    @settings(max_examples=20)
    @example(ON_ITS_WAY, MACHINES[-1])
    @given(st.lists(STEPS, min_size=5, max_size=40), st.sampled_from(MACHINES))
    def any_order(steps: list[tuple[str, str, int, float]], machines: Machines) -> None:
        system = SimulatedCluster(Cluster([2, 3, 2]), machines)
        joined: dict[str, tuple[str, str]] = {}
        for what, role, which, seconds in steps:
            if what == "join":
                client = system.join(role)
                joined[client] = system.clients[client]
            elif joined:
                client = list(joined)[which % len(joined)]
                system.leave(client)
                del joined[client]
            check(system, joined)
            if seconds > 0:
                system.run(seconds)
            check(system, joined)
        for client in joined:
            system.leave(client)
        for _ in system.cluster.staying:
            system.join(CONSUMER)
        while system.run(10.0).waiting > 0:
            assert system.simulation.now < 2_000
        system.run(2.0)
        published, finished = published_and_finished(system)
        assert published == finished
        assert system.cluster.members == system.cluster.staying
        removed.extend(system.cluster.removed)

    any_order()
    assert removed
