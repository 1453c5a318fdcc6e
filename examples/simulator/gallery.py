"""Run the scenarios beside this file and draw them: ``python examples/simulator/gallery.py``.

Pictures go to this folder, or to the one given.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from simulator import Recording, Simulation, load_scenario

HERE = Path(__file__).parent
SECONDS = 120.0


def record(path: Path) -> Recording:
    """Two minutes of a scenario, a reading every second."""
    recording = Recording(Simulation(load_scenario(path), seed=1), interval=1.0)
    recording.run_until(SECONDS)
    return recording


def main(folder: Path = HERE) -> None:
    """Draw every scenario and print what happened in it."""
    console = Console()
    for path in sorted(HERE.glob("*.toml")):
        recording = record(path)
        recording.plot(folder / f"{path.stem}.svg")
        console.print(*recording.tables())


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
