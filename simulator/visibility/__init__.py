"""Message queueing with a visibility timeout: the analytic model, and the simulation beside it."""

from simulator.visibility.analytic import TwoPools
from simulator.visibility.simulated import Measured, measure, scenario

__all__ = ["Measured", "TwoPools", "measure", "scenario"]
