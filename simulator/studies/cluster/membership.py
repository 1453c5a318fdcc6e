"""Which queue of a cluster a client joins, and when the cluster grows or shrinks.

Bouchenak et al., "Selfware SP4: Self-management of JMS-based applications" (2008). Queue ``i``
has ``N_i`` producers, ``M_i`` consumers and a capacity of ``C_i`` clients; without an index the
sums over the cluster. ``x_i = N_i/N``, ``y_i = M_i/M``, load ``L_i = (N_i + M_i)/C_i``. The best
of ``k`` queues is ``x_i = y_i = 1/k``: a queue with ``x_i > y_i`` fills up, one with
``x_i < y_i`` keeps its consumers idle.

A client stays with its queue: it cannot be moved. A queue that is to be removed is marked: it gets
no new clients, and is removed once its last client has left and it has no messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlmq.errors import InputError
from simulator.scenario import checks

PRODUCER, CONSUMER = "producer", "consumer"
ROLES = (PRODUCER, CONSUMER)

MOST_QUEUES = 16
"""Queues that a cluster grows to by default."""


@dataclass
class Member:
    """A queue of a cluster: its clients, its capacity, and whether it is marked for removal.

    ``waiting`` is the number of messages in it, which the owner of the messages keeps up to date.
    """

    name: str
    capacity: int
    clients: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))
    marked: bool = False
    waiting: int = 0

    @property
    def size(self) -> int:
        """Clients of both roles."""
        return sum(self.clients.values())

    @property
    def load(self) -> float:
        """Clients divided by capacity: from 1 on it should take no more."""
        return self.size / self.capacity


class Cluster:
    """The members of a cluster, and the rules by which clients and queues come and go.

    ``capacity`` is a number for all queues, at most ``most`` of them, or a sequence with a number
    for each possible queue. With ``provision``, a queue is added before a client joins that would
    overload the cluster, and a queue is marked once the others have room for all clients.
    """

    def __init__(
        self,
        capacity: int | Sequence[int],
        queues: int = 1,
        *,
        provision: bool = True,
        most: int | None = None,
    ) -> None:
        capacities = _capacities(capacity, most)
        checks.whole("queues", queues, 1, len(capacities))
        self.capacities = {f"queue {n}": each for n, each in enumerate(capacities, 1)}
        """The capacities of all possible queues, in the order in which they are added."""
        self.provision = provision
        self.members: list[Member] = []
        self.removed: list[str] = []
        for _ in range(queues):
            self.grow()

    @property
    def most(self) -> int:
        """The largest possible number of queues."""
        return len(self.capacities)

    @property
    def staying(self) -> list[Member]:
        """The queues that are not marked, the oldest first."""
        return [member for member in self.members if not member.marked]

    @property
    def clients(self) -> int:
        """Clients of the whole cluster."""
        return sum(member.size for member in self.members)

    @property
    def load(self) -> float:
        """Clients divided by capacity, over the queues that are not marked."""
        staying = self.staying
        return sum(each.size for each in staying) / sum(each.capacity for each in staying)

    def grow(self) -> Member:
        """Unmark a queue, or add one if none is marked."""
        for member in self.members:
            if member.marked:
                member.marked = False
                return member
        taken = {member.name for member in self.members}
        for name, capacity in self.capacities.items():
            if name not in taken:
                self.members.append(Member(name, capacity))
                return self.members[-1]
        raise InputError(f"the cluster has {self.most} queues and may have no more; raise most.")

    def shrink(self, member: Member) -> None:
        """Mark a queue for removal; it is removed once it is empty."""
        if self.staying == [member]:
            raise InputError(f"{member.name} is the last queue of the cluster and has to stay.")
        member.marked = True
        self.remove_empty()

    def remove_empty(self) -> None:
        """Remove every marked queue that has neither clients nor messages left."""
        for member in list(self.members):
            if member.marked and member.size == 0 and member.waiting == 0:
                self.members.remove(member)
                self.removed.append(member.name)

    def join(self, role: str) -> Member:
        """Attach a new client to the unmarked queue with room that has the fewest of its role."""
        checks.choice("role", role, ROLES)
        # More than once if the unmarked queue is full itself.
        while self.provision and self.load >= 1 and len(self.staying) < self.most:
            self.grow()
        staying = self.staying
        roomy = [member for member in staying if member.load < 1]
        # min takes the first of equals: the oldest queue.
        return self.attach(role, min(roomy or staying, key=lambda each: each.clients[role]).name)

    def attach(self, role: str, name: str) -> Member:
        """Attach a new client to a queue that the caller has chosen."""
        member = self.member(name)
        member.clients[role] += 1
        return member

    def leave(self, role: str, name: str) -> None:
        """Detach a client; mark a queue if the others have room for all clients."""
        member = self.member(name)
        if member.clients[role] == 0:
            raise InputError(f"{name} has no {role} that could leave.")
        member.clients[role] -= 1
        self.remove_empty()
        if self.provision:
            self._shrink_if_it_can()

    def _shrink_if_it_can(self) -> None:
        """Mark the queue with the fewest clients of those with ``C_i <= C - (N + M)``."""
        staying = self.staying
        spare = sum(each.capacity for each in staying) - self.clients
        spared = [each for each in staying if each.capacity <= spare]
        if spared and len(staying) > 1:
            self.shrink(min(spared, key=lambda each: each.size))

    def member(self, name: str) -> Member:
        """The member with this name."""
        for member in self.members:
            if member.name == name:
                return member
        raise InputError(f"there is no queue {name!r} in the cluster.")


def _capacities(capacity: int | Sequence[int], most: int | None) -> list[int]:
    """The capacity of every possible queue."""
    if isinstance(capacity, Sequence):
        if most is not None:
            raise InputError(
                f"most is {most}, but a list of capacities gives the number of queues already; "
                "leave most out."
            )
        capacities = list(capacity)
        checks.whole("number of capacities", len(capacities), 1, 1_000)
    else:
        most = MOST_QUEUES if most is None else most
        checks.whole("most", most, 1, 1_000)
        capacities = [capacity] * most
    for each in capacities:
        checks.whole("capacity", each, 1, 1_000_000)
    return capacities
