"""A simulated AMQP broker and its clients, driven by the same loop as a live consumer."""

from simulator.duration import Duration
from simulator.plant import SimulatedConsumer
from simulator.scenario import Consumer, Link, Publishers, Queue, Scenario
from simulator.scenario_file import load_scenario, parse_scenario, shipped_scenarios
from simulator.simulation import ConsumerTotals, Counts, Simulation

__all__ = [
    "Consumer",
    "ConsumerTotals",
    "Counts",
    "Duration",
    "Link",
    "Publishers",
    "Queue",
    "Scenario",
    "SimulatedConsumer",
    "Simulation",
    "load_scenario",
    "parse_scenario",
    "shipped_scenarios",
]
