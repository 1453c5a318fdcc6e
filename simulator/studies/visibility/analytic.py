"""The time a message takes through two thread pools, the second with retransmission, in theory.

Li, Cui and Ma, "Modeling Message Queueing Services with Reliability Guarantee" (2015). Senders
bring messages to the broker, and the broker's threads send them on. A share ``1 - q`` of what
these send is lost, and is sent again after the visibility timeout. Each pool is an M/M/n queue::

    L1 = lambda              L2 = lambda / q              rho_i = L_i / (n_i mu_i)
    S_i = 1 / (sum over j < n_i of (n_i rho_i)^j / j!  +  (n_i rho_i)^n_i / (n_i! (1 - rho_i)))
    N_i = rho_i (n_i rho_i)^n_i S_i / (n_i! (1 - rho_i)^2)  +  n_i rho_i
    W = (N_1 + N_2) / lambda

``W`` is the time in both pools. The time that a lost message is invisible is not part of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controlmq.checks import above_zero
from controlmq.errors import InputError
from simulator.scenario import checks


@dataclass(frozen=True)
class TwoPools:
    """The ``rate`` in messages/second, and the threads of each pool and their speed.

    Speeds are in messages/second of one thread. ``arrives`` is the probability ``q`` that a message
    from the broker reaches the receiver.
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
        """The share of time that the threads of each pool are busy."""
        return (
            self.rate / (self.sender_threads * self.sender_speed),
            self.rate / self.arrives / (self.broker_threads * self.broker_speed),
        )

    @property
    def in_system(self) -> tuple[float, float]:
        """The mean number of messages in each pool, waiting and being sent."""
        first, second = self.loads
        if max(first, second) >= 1:
            raise InputError(
                f"the pools are busy {100 * first:.0f} % and {100 * second:.0f} % of the time and "
                "never settle; give more threads or fewer messages."
            )
        return in_pool(self.sender_threads, first), in_pool(self.broker_threads, second)

    @property
    def time(self) -> float:
        """``W``: the mean number of seconds that a message is in both pools."""
        return sum(self.in_system) / self.rate


def in_pool(threads: int, load: float) -> float:
    """The mean number of messages in an M/M/n queue."""
    offered = threads * load
    waiting = offered**threads / math.factorial(threads)
    empty = 1 / (sum(offered**j / math.factorial(j) for j in range(threads)) + waiting / (1 - load))
    return load * waiting * empty / (1 - load) ** 2 + offered
