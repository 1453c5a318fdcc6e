"""Any scenario can be written down and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator import load_scenario, parse_scenario, shipped_scenarios
from simulator.scenario.toml_text import scenario_text

GALLERY = sorted((Path(__file__).parents[2] / "examples" / "simulator").glob("*.toml"))


@pytest.mark.parametrize("name", [*shipped_scenarios(), *GALLERY], ids=str)
def test_what_is_written_reads_back_as_the_same(name: str | Path) -> None:
    scenario = load_scenario(name)
    assert parse_scenario(scenario_text(scenario)) == scenario


def test_every_kind_of_value_is_written() -> None:
    scenario = parse_scenario(
        """
        name = 'a "quoted" name'
        sample_interval = 0.5
        [[publishers]]
        name = "p"
        every = { distribution = "replay", values = [0.1, 0.2] }
        exchange = "e"
        messages = [
            {type = "t", probability = 0.25, size = { mean = 9, sd = 1, distribution = "normal" } },
            { routing_key = "c", probability = 0.75, persistent = true, headers = { "x y" = 1 } },
        ]
        schedule = [{ at = 1.0, factor = 2.0 }]
        [[exchanges]]
        name = "e"
        kind = "topic"
        [[bindings]]
        exchange = "e"
        queue = "q"
        routing_key = "#"
        [[queues]]
        name = "q"
        dead_letter_exchange = ""
        dead_letter_routing_key = "q"
        [[consumers]]
        name = "c"
        queue = "q"
        work = 1e-5
        [broker]
        cores = 2
        deliver = 1e-05
        """
    )
    assert parse_scenario(scenario_text(scenario, "one line\n\nand another")) == scenario
