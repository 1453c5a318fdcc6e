"""Two thread pools in a row, the second with retransmission: how long a message takes, by theory.

Li, Cui and Ma, "Modeling Message Queueing Services with Reliability Guarantee" (2015). Senders
bring messages to the broker and the broker's threads send them on; a share ``1 - q`` of what
these send is lost, and sent again once it is visible again. Each pool is an M/M/n queue::

    L1 = lambda              L2 = lambda / q              rho_i = L_i / (n_i mu_i)
    S_i = 1 / (sum over j < n_i of (n_i rho_i)^j / j!  +  (n_i rho_i)^n_i / (n_i! (1 - rho_i)))
    N_i = rho_i (n_i rho_i)^n_i S_i / (n_i! (1 - rho_i)^2)  +  n_i rho_i
    W = (N_1 + N_2) / lambda

``W`` is the time in both pools. What a lost message waits, invisible, comes on top of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controlmq.checks import above_zero
from controlmq.errors import InputError
from simulator.scenario import checks


@dataclass(frozen=True)
class TwoPools:
    """Messages/second, and for the senders' and the broker's pool: threads, messages/second each.

    ``arrives`` is the probability ``q`` that what the broker sends comes to the receiver.
    """

    rate: float
    sender_threads: int
    broker_threads: int
    sender_speed: float = 10.0
    broker_speed: float = 10.0
    arrives: float = 1.0

    def __post_init__(self) -> None:
        for key in ("rate", "sender_speed", "broker_speed", "arrives"):
            above_zero(key, getattr(self, key))
        if self.arrives > 1:
            raise InputError(f"arrives is {self.arrives}; give a probability above 0 and up to 1.")
        for key in ("sender_threads", "broker_threads"):
            checks.whole(key, getattr(self, key), 1, 10_000)

    @property
    def loads(self) -> tuple[float, float]:
        """The share of time that threads of each pool are busy."""
        return (
            self.rate / (self.sender_threads * self.sender_speed),
            self.rate / self.arrives / (self.broker_threads * self.broker_speed),
        )

    @property
    def in_system(self) -> tuple[float, float]:
        """Messages in each pool, waiting and being sent, on average over time."""
        first, second = self.loads
        if max(first, second) >= 1:
            raise InputError(
                f"the pools are busy {100 * first:.0f} % and {100 * second:.0f} % of the time and "
                "never settle; give more threads or fewer messages."
            )
        return in_pool(self.sender_threads, first), in_pool(self.broker_threads, second)

    @property
    def time(self) -> float:
        """``W``: seconds a message is in both pools on average."""
        return sum(self.in_system) / self.rate


def in_pool(threads: int, load: float) -> float:
    """Messages in an M/M/n queue on average."""
    offered = threads * load
    waiting = offered**threads / math.factorial(threads)
    empty = 1 / (sum(offered**j / math.factorial(j) for j in range(threads)) + waiting / (1 - load))
    return load * waiting * empty / (1 - load) ** 2 + offered
