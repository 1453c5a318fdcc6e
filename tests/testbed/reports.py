"""What a report lets its reader explore."""

from __future__ import annotations

import json
import re
from typing import Any


def explorable(page: str) -> list[list[dict[str, Any]]]:
    """The panels of each figure of a page, with their numbers."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)
    return [json.loads(each) for each in found]


def series_of(panel: dict[str, Any], name: str) -> dict[str, Any]:
    """The series of that name."""
    (found,) = (each for each in panel["series"] if each["name"] == name)
    return dict(found)
