"""Ctrl-C at one line of our code after the other."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import controlmq

OURS = str(Path(inspect.getfile(controlmq)).parent)


def interrupted_at(
    number: int, call: Callable[[], object], by: signal.Signals = signal.SIGINT
) -> bool:
    """Call a function and press Ctrl-C before it runs this line of controlmq, counted from 0.

    Or send another signal. Returns whether it has run as many. Whether a KeyboardInterrupt followed
    is nobody's business here: it may have been held back and come at a later line.
    """
    left = number

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                signal.raise_signal(by)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left < 0
