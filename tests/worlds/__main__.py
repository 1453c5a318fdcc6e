"""Replay worlds and print what happens in them: ``python -m tests.worlds SEED ...``.

``bounded:SEED`` is the world of that seed whose rate is bounded.
"""

from __future__ import annotations

import sys

from tests.worlds.bounded import bounded_world
from tests.worlds.world import World


def main() -> None:
    for name in sys.argv[1:]:
        kind, _, seed = name.rpartition(":")
        world = bounded_world(int(seed)) if kind == "bounded" else World(int(seed))
        print(world.circumstances)
        world.trace = print
        world.run()
        print(
            f"{world.events} events, {world.broker.published} messages, "
            f"{world.requeued} requeued, {world.crashes} crashes, {world.duplicates} duplicates"
        )


if __name__ == "__main__":
    main()
