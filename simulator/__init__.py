"""A simulated AMQP broker and its clients, driven by the same loop as a live consumer."""

from controlmq.extras import check

# Before the imports below: they would fail without naming the extra.
check({"simulation": ["numba", "numpy"]}, "simulator")

from simulator.meter import Meter
from simulator.metrics import Metrics
from simulator.plant import SimulatedConsumer, plants
from simulator.recording import Recording
from simulator.scenario.broker import Broker
from simulator.scenario.changes import Change
from simulator.scenario.consumers import Consumer
from simulator.scenario.distributions import Duration, Size
from simulator.scenario.exchanges import Binding, Exchange
from simulator.scenario.links import Link
from simulator.scenario.messages import Message, Send
from simulator.scenario.publishers import Publishers
from simulator.scenario.queues import Queue
from simulator.scenario.resources import Resource
from simulator.scenario.rules import Rule
from simulator.scenario.scenario import Scenario
from simulator.scenario.toml_file import load_scenario, parse_scenario, shipped_scenarios
from simulator.simulation import ConsumerTotals, Counts, Simulation

__all__ = [
    "Binding",
    "Broker",
    "Change",
    "Consumer",
    "ConsumerTotals",
    "Counts",
    "Duration",
    "Exchange",
    "Link",
    "Message",
    "Meter",
    "Metrics",
    "Publishers",
    "Queue",
    "Recording",
    "Resource",
    "Rule",
    "Scenario",
    "Send",
    "SimulatedConsumer",
    "Simulation",
    "Size",
    "load_scenario",
    "parse_scenario",
    "plants",
    "shipped_scenarios",
]
