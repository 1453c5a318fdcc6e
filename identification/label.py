"""What a group is called."""

from __future__ import annotations

import re
from typing import Any


def label(key: tuple[Any, ...]) -> str:
    """A group's name, from the values of its columns; no two groups have the same."""
    if len(key) == 1:
        return str(key[0])
    words = (str(value) for value in key)
    return " ".join(
        word if word and not re.search(r"[\s'\"]", word) else repr(word) for word in words
    )
