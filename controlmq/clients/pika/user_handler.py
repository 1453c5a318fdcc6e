"""A user's handler: what it is, and where it comes from."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika

from controlmq.errors import InputError

Handler = Callable[[bytes, pika.BasicProperties], object]
"""What a user writes: takes a message's body and properties, returns when it is handled."""


def load_handler(name: str) -> Handler:
    """The function that ``module:function`` names; the current folder is searched too."""
    module_name, _, function = name.partition(":")
    if not module_name or not function:
        raise InputError(f"the handler {name!r} has no function; give module:function.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in function.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot load the handler {name!r}: {error}.") from None
    if not callable(found):
        raise InputError(f"the handler {name!r} is not a function but a {type(found).__name__}.")
    handler: Handler = found
    return handler


def work_of(seconds: float) -> Handler:
    """A handler that waits this long for each message and drops it."""

    def work(body: bytes, properties: pika.BasicProperties) -> None:
        time.sleep(seconds)

    return work
