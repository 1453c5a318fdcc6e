"""A simulated AMQP broker and its clients, driven by the same loop as a live consumer."""

from simulator.broker import Broker, Link, Queue
from simulator.consumers import Consumer, Send
from simulator.duration import Duration, Size
from simulator.metrics import Meter, Metrics
from simulator.plant import SimulatedConsumer, plants
from simulator.recording import Recording
from simulator.routing import Binding, Exchange
from simulator.rules import Rule
from simulator.scenario import Scenario
from simulator.scenario_file import load_scenario, parse_scenario, shipped_scenarios
from simulator.simulation import ConsumerTotals, Counts, Simulation
from simulator.workload import Change, Message, Publishers

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
