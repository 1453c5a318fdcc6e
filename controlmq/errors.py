"""The exceptions controlmq raises for its user."""

from __future__ import annotations


class ControlmqError(Exception):
    """Something that the user can fix; the message says what, in one sentence.

    The command line prints the message alone; a traceback would add nothing.
    """


class InputError(ControlmqError, ValueError):
    """A value, a file or an option is not one controlmq can use."""
