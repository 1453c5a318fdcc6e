"""A warning, once, about a version of a client library that was never tested."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import PackageNotFoundError, version

log = logging.getLogger("controlmq")


@cache
def warn_if_untested(distribution: str, *tested: str) -> None:
    """Log a warning unless the installed version begins with one of those ``tested``."""
    try:
        installed = version(distribution)
    except PackageNotFoundError:
        return
    if not any(f"{installed}.".startswith(f"{each}.") for each in tested):
        log.warning(
            "%s %s was never tested with controlmq; %s was: if consumers misbehave, install that",
            distribution,
            installed,
            " or ".join(tested),
        )
