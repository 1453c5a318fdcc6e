"""Replay worlds and print what happens in them: ``python -m tests.worlds SEED ...``."""

from __future__ import annotations

import sys

from tests.worlds.world import World


def main() -> None:
    for seed in sys.argv[1:]:
        world = World(int(seed))
        print(world.circumstances)
        world.trace = print
        world.run()
        print(
            f"{world.events} events, {world.broker.published} messages, "
            f"{world.requeued} requeued, {world.crashes} crashes, {world.duplicates} duplicates"
        )


if __name__ == "__main__":
    main()
