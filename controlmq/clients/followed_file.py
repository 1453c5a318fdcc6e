"""Follows a model or controller file, so that a new identification reaches the consumer."""

from __future__ import annotations

import logging
import os

from controlmq.controllers.resolve import ResolvedController
from controlmq.errors import ControlmqError

log = logging.getLogger("controlmq")


class FollowedFile:
    """The file that a controller comes from, and whether it was written since.

    A missing or invalid file is logged once, and the controller in force goes on until the
    file changes again.
    """

    def __init__(
        self, path: str | os.PathLike[str], controller: ResolvedController, interval: float
    ) -> None:
        self.path = path
        self._controller = controller
        self._interval = interval
        self._seen = self._state()

    def changed(self) -> ResolvedController | None:
        """The controller of the file, if the file was written since the last look."""
        state = self._state()
        if state == self._seen:
            return None
        self._seen = state
        try:
            controller = self._controller.read_again()
            controller.check_interval(self._interval)
        except ControlmqError as error:
            log.error("%s; the controller in force goes on", str(error).rstrip("."))
            return None
        log.info("the controller follows %s, which has changed", self.path)
        return controller

    def _state(self) -> tuple[int, int, int] | None:
        """What changes when a file is written or replaced; None while there is no file."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
