"""Tables in Markdown, and where on a page of the docs they go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_section(page: str, name: str, section: str) -> str:
    """The page with this text between its marks ``name: begin`` and ``name: end``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended):
        raise SystemExit(f"the page has no {begin} ... {end}: put these marks where it belongs.")
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"


def put(page: str, name: str, section: str) -> None:
    """Write this text between the marks of a page of the docs."""
    path = DOCS / page
    path.write_text(with_section(path.read_text(), name, section))
