"""Every source document has its page, and what the pages tell to run is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmarks.__main__ import names
from controlmq.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = (
    "published-control-loop",
    "amqp-simulation",
    "specjms",
    "visibility-timeout",
    "clustered-queue",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_its_source_and_what_exists(page: str) -> None:
    path = ROOT / "docs" / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    for benchmark in re.findall(r"python -m benchmarks (\w+)", text):
        assert benchmark in names()
    for program in re.findall(r"python (examples/\S+\.py)", text):
        assert (ROOT / program).exists()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (path.parent / link).exists(), link


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


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_understood(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for line in re.findall(r"^    controlmq (.+)$", text, re.MULTILINE):
        with pytest.raises(SystemExit) as stopped:
            main([*shlex.split(line), "--help"])
        assert stopped.value.code == 0
    capsys.readouterr()
