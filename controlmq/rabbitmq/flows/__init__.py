"""Message flows on a live broker: locations that send on time, receive, and answer."""

from controlmq.rabbitmq.flows.notes import Notes
from controlmq.rabbitmq.flows.plan import Driver, Location, Outgoing, Plan, Receiver
from controlmq.rabbitmq.flows.run import run_flows

__all__ = ["Driver", "Location", "Notes", "Outgoing", "Plan", "Receiver", "run_flows"]
