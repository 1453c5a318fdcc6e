"""Replay worlds of members that share a rate: ``python -m tests.sharing SEED ...``."""

from __future__ import annotations

import sys

from tests.sharing.world import World


def main() -> None:
    for seed in sys.argv[1:]:
        world = World(int(seed)).run()
        handed_over = sum(len(each.times) for each in world.processes)
        print(
            f"{seed}: {len(world.processes)} processes, {world.records} records, "
            f"{handed_over} hand-overs in {world.now:.1f} s"
        )


if __name__ == "__main__":
    main()
