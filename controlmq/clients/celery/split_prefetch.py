"""How the one prefetch of a worker is split among its queues, by what they need.

RabbitMQ counts for each consumer by itself. Before version 4 Celery had one count for all queues of
a worker, and its settings still mean that: a number of messages for each process of the pool,
however many queues there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def split_prefetch(total: int, needs: Sequence[float]) -> list[int]:
    """The prefetch of each queue; ``needs`` has the number of messages that each could use.

    A queue that needs nothing keeps one slot, so that its next message is noticed, and takes none
    from the others for it. The others get the same, as far as they need it, and at least one.
    """
    wants = [min(math.ceil(need), total) if need != math.inf else total for need in needs]
    given = [0] * len(wants)
    left = total
    while left > 0:
        hungry = [at for at, want in enumerate(wants) if given[at] < want]
        if not hungry:
            break
        for at in sorted(hungry, key=lambda at: given[at])[:left]:
            given[at] += 1
        left = total - sum(given)
    return [max(1, each) for each in given]
