"""A URL as a person or a log may see it: no secret in it is ever shown."""

from __future__ import annotations

import re

SCHEMES = ("amqp", "amqps", "http", "https", "sc")
"""Schemes that are shown. Before any other ``://`` may stand whatever the user mixed up."""

HIDDEN = "(not shown)"

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"
_NO_CREDENTIALS = re.compile(rf"{_HOST}(?=[:/?#;]|$)")
_AFTER_CREDENTIALS = re.compile(rf"{_HOST}(?::[0-9]+)?(?:/[^?#;]*)?(?=[?#;]|$)")


def shown(url: str) -> str:
    """``url`` without user, password and options.

    Where it has no ``@``, the host may have been forgotten: what looks like a port and a path can
    be a password then, so only the first word is shown. A password may hold any character if it
    was not quoted, so the last ``@`` counts; but one behind a ``?`` or a ``#`` may belong to an
    option, and nothing of such a URL is shown.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        return HIDDEN
    credentials, at, place = rest.rpartition("@")
    if re.search("[?#]", credentials):
        return f"{scheme}://{HIDDEN}"
    found = (_AFTER_CREDENTIALS if at else _NO_CREDENTIALS).match(place)
    return f"{scheme}://{found[0] if found else HIDDEN}"
