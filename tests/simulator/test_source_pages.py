"""Every source document has its page, with the claim, a command, what differs and misprints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "published-control-loop",
    "amqp-simulation",
    "specjms",
    "visibility-timeout",
    "clustered-queue",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_claim_a_command_what_differs_and_misprints(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    headings, bodies = re.findall(r"^## (.+)$", text, re.MULTILINE), text.split("\n## ")[1:]
    sections = dict(zip(headings, bodies, strict=True))
    assert "The claim" in sections
    assert re.search(r"^    (controlmq|python) ", text, re.MULTILINE), "no command to run"
    assert any(heading.startswith("What differs") for heading in headings)
    (misprints,) = (sections[heading] for heading in headings if "isprints" in heading)
    # "- Equation 8 prints p where ...", "- The unit is printed as ...", "No misprints were found".
    told = misprints.partition("\n")[2]
    assert re.search(r"\bprint(s|ed)\b|\b[Nn]o misprints?\b", told), "names no misprint"
