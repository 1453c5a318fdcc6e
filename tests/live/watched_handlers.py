"""Runs a program of aio-pika that notes each message whose handler has begun, and takes its time.

``watched_handlers.py NOTES PROGRAM ARGUMENTS...``; handlers use ``message.process()``, and sleep.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from typing import Any

from aio_pika import IncomingMessage

NOTES = sys.argv[1]
sys.argv = sys.argv[2:]
LEAST_SECONDS = 0.2

sleep, process = asyncio.sleep, IncomingMessage.process


def longer(seconds: float, *given: Any) -> Any:
    """So that handlers are at work at every moment."""
    return sleep(max(seconds, LEAST_SECONDS), *given)


def noted(message: Any, *given: Any, **options: Any) -> Any:
    """Write down which message is handled."""
    with open(NOTES, "a") as notes:
        notes.write(f"{int(message.body)}\n")
    return process(message, *given, **options)


asyncio.sleep = longer
IncomingMessage.process = noted
runpy.run_path(sys.argv[0], run_name="__main__")
