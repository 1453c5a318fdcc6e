"""Tables in Markdown, and where on a page of the docs they go."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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


def write_down(
    name: str, page: str, section: str, make: Callable[[Any], str], description: str | None
) -> int:
    """The command line of a benchmark that writes what a run has printed into a page."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--page", type=Path, required=True, metavar="FILE", help="what a run has printed"
    )
    found = json.loads(parser.parse_args().page.read_text())[name]
    put(page, section, make(found))
    return 0
