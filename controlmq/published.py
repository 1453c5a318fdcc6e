"""What Rosa & Cavalcanti 2022 published of their consumer: workload, model, placements, results."""

from __future__ import annotations

from controlmq.gains import Gains

SOURCE = "Rosa & Cavalcanti 2022"

PUBLISHERS = 25
PUBLISH_EVERY_SECONDS = 0.010
PUBLISH_EVERY_SD_SECONDS = 0.001
MESSAGE_BYTES = 256
"""Table 1: the workload."""

A, B = 0.2631, 59.73
PREFETCH_RANGE = (1.0, 22.0)
"""The model that the gains come from, and the prefetches of the ramp that it was fitted to."""

R2_TRAIN, R2_TEST = 0.80, 0.82

STATIC_LINE_GAIN, STATIC_LINE_OFFSET = 81.06, -28.94
"""Messages/second per message, and messages/second: a line without dynamics whose ramp, fitted
without offset, gives the published model."""

POLYNOMIALS = {"pi": (1.0, -1.0, 0.36), "pid": (1.0, -0.7, -0.063, 0.11)}
"""The closed loops that were placed, highest power of z first."""

PI_GAINS = Gains(kp=-0.0016, ki=0.0060)

GOAL = 400.0
"""Messages/second."""

CLOSED_LOOPS = {
    "p": {"mean": 414.37, "sd": 216.09},
    "pi": {"mean": 397.19, "sd": 95.12},
    "pid": {"mean": 385.52, "sd": 196.03},
}
"""Messages/second that each law held at the goal."""
