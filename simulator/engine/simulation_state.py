"""The state of a simulation at an instant, as arrays with one row per entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from simulator.engine import rows
from simulator.engine.draws import SOURCE
from simulator.engine.messages import LINE, MESSAGE
from simulator.engine.tables import Tables
from simulator.engine.timers import TIMER

FLOAT, WHOLE = np.dtype(np.float64), np.dtype(np.int64)


class SimulationState(Tables):
    """The arrays that the engine works on."""

    ROWS: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "clock": rows.CLOCK,
        "timers": TIMER,
        "slots": rows.SLOT,
        "pool": MESSAGE,
        "lines": LINE,
        "sources": SOURCE,
        "replayed": FLOAT,  # values of all replays
        "publishers": rows.PUBLISHER,
        "choices": rows.CHOICE,
        "phases": rows.PHASE,
        "ports": rows.PORT,
        "queues": rows.QUEUE,
        "consumers": rows.CONSUMER,
        "handlers": rows.HANDLER,
        "resources": rows.RESOURCE,
        "sends": rows.SEND_ROW,
        "processes": rows.PROCESS,
        "kinds": rows.KIND,
        "routes": rows.ROUTE_ROW,
        "targets": WHOLE,  # queues of all routes
        "dead": WHOLE,  # route of dead letters, by queue and kind
        "costs": rows.COST,  # by job
        "pairs": WHOLE,  # type of each row of latencies by queue and type
        "latencies": rows.LATENCY,
        "bins": WHOLE,  # messages by row of latencies and bin
    }

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> npt.NDArray[Any]:
            """One of the arrays."""
