"""Message flows on a live broker: locations that send on time, receive, and answer."""

from controlmq.measure.flows.notes import Notes
from controlmq.measure.flows.plan import Driver, Location, Outgoing, Plan, Receiver
from controlmq.measure.flows.processes import run_flows

__all__ = ["Driver", "Location", "Notes", "Outgoing", "Plan", "Receiver", "run_flows"]
