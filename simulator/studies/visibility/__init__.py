"""Message queueing with a visibility timeout: the analytic model and the simulation."""

from simulator.studies.visibility.analytic import TwoPools
from simulator.studies.visibility.simulated import Measured, measure, scenario

__all__ = ["Measured", "TwoPools", "measure", "scenario"]
