"""Which queue of a cluster a client joins, and when the cluster grows or shrinks.

Bouchenak et al., "Selfware SP4: Self-management of JMS-based applications" (2008). Queue ``i``
has ``N_i`` producers, ``M_i`` consumers and a capacity of ``C_i`` clients; without an index the
sums over the cluster. ``x_i = N_i/N``, ``y_i = M_i/M``, load ``L_i = (N_i + M_i)/C_i``. The best
of ``k`` queues is ``x_i = y_i = 1/k``: a queue with ``x_i > y_i`` fills up, one with
``x_i < y_i`` keeps its consumers idle.

A client stays with its queue: it cannot be moved. So a queue that is to go is marked, gets no
new clients, and is removed once the last has left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controlmq.errors import InputError
from simulator import checks

PRODUCER, CONSUMER = "producer", "consumer"
ROLES = (PRODUCER, CONSUMER)


@dataclass
class Member:
    """A queue of a cluster: its clients, how many it is made for, whether it is to go."""

    name: str
    capacity: int
    clients: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))
    marked: bool = False

    @property
    def size(self) -> int:
        """Clients of both roles."""
        return sum(self.clients.values())

    @property
    def load(self) -> float:
        """Clients over capacity: above 1 it should take no more."""
        return self.size / self.capacity


class Cluster:
    """The members of a cluster, and the rules by which clients and queues come and go.

    With ``provision`` a client that would overload the cluster brings a new queue with it, up
    to ``most`` queues; a queue is marked once the others have room for all clients.
    """

    def __init__(
        self, capacity: int, queues: int = 1, *, provision: bool = True, most: int = 16
    ) -> None:
        checks.whole("capacity", capacity, 1, 1_000_000)
        checks.whole("most", most, 1, 1_000)
        checks.whole("queues", queues, 1, most)
        self.capacity, self.provision, self.most = capacity, provision, most
        self.members: list[Member] = []
        self.removed: list[str] = []
        self._made = 0
        for _ in range(queues):
            self.grow()

    @property
    def total(self) -> int:
        """Capacity of the whole cluster."""
        return sum(member.capacity for member in self.members)

    @property
    def clients(self) -> int:
        """Clients of the whole cluster."""
        return sum(member.size for member in self.members)

    @property
    def load(self) -> float:
        """Clients over capacity of the whole cluster."""
        return self.clients / self.total

    def grow(self) -> Member:
        """Take back a marked queue, or add one."""
        for member in self.members:
            if member.marked:
                member.marked = False
                return member
        self._made += 1
        member = Member(f"queue {self._made}", self.capacity)
        self.members.append(member)
        return member

    def shrink(self, member: Member) -> None:
        """Mark a queue to go; it is removed with its last client."""
        member.marked = True
        self._remove_if_empty(member)

    def join(self, role: str) -> Member:
        """Attach a new client where its role is rarest among queues that are to stay."""
        checks.choice("role", role, ROLES)
        if self.provision and self.load >= 1 and len(self.members) < self.most:
            self.grow()
        staying = [member for member in self.members if not member.marked]
        # min takes the first of equals: the oldest queue.
        member = min(staying, key=lambda each: each.clients[role])
        member.clients[role] += 1
        return member

    def attach(self, role: str, name: str) -> Member:
        """Attach a new client to a queue that somebody else has chosen."""
        member = self.member(name)
        member.clients[role] += 1
        return member

    def leave(self, role: str, name: str) -> None:
        """Detach a client; then see whether the cluster can do with a queue less."""
        member = self.member(name)
        if member.clients[role] == 0:
            raise InputError(f"{name} has no {role} that could leave.")
        member.clients[role] -= 1
        if self._remove_if_empty(member) or not self.provision:
            return
        staying = [each for each in self.members if not each.marked]
        spare = sum(each.capacity for each in staying) - self.clients
        if len(staying) > 1:
            smallest = min(staying, key=lambda each: each.size)
            if smallest.capacity <= spare:
                self.shrink(smallest)

    def member(self, name: str) -> Member:
        """The member of a name."""
        for member in self.members:
            if member.name == name:
                return member
        raise InputError(f"there is no queue {name!r} in the cluster.")

    def _remove_if_empty(self, member: Member) -> bool:
        if not member.marked or member.size > 0:
            return False
        self.members.remove(member)
        self.removed.append(member.name)
        return True
