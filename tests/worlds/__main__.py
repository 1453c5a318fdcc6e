"""Replay worlds and print what happens in them: ``python -m tests.worlds SEED ...``.

``bounded:SEED`` is the world of that seed whose rate is bounded, ``kept:SEED`` the one whose broker
keeps the messages of a lane.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.worlds.bounded import bounded_world
from tests.worlds.kept import kept_world
from tests.worlds.world import World

WORLDS: dict[str, Callable[[int], World]] = {
    "": World,
    "bounded": bounded_world,
    "kept": kept_world,
}


def main() -> None:
    for name in sys.argv[1:]:
        kind, _, seed = name.rpartition(":")
        world = WORLDS[kind](int(seed))
        print(world.circumstances)
        world.trace = print
        world.run()
        print(
            f"{world.events} events, {world.broker.published} messages, "
            f"{world.requeued} requeued, {world.crashes} crashes, {world.duplicates} duplicates"
        )


if __name__ == "__main__":
    main()
