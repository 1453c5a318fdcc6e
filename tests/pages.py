"""The pages of the repository and the code blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")])

EXCERPT = "excerpt"
"""Marks a block that cannot run as it stands."""

NEEDS_A_BROKER = "needs a broker"
"""Marks a program that consumes the queue "orders" of a broker at amqp://localhost."""

RUN_BY = "run by "
"""Begins the mark of a block that a test of its own runs; the path of its file follows."""


@dataclass(frozen=True)
class Block:
    """A code block of a page: its language, its text, and the comment before it, if any.

    An indented block is shell, as is a fenced one of language "sh".
    """

    page: Path
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks in their order."""
    mark = ""
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            language = token.info.strip() if token.type == "fence" else "sh"
            assert token.map is not None
            yield Block(page, token.map[0] + 1, language, token.content, mark)
        comment = re.fullmatch(r"<!-- (.+) -->\s*", token.content)
        mark = comment[1] if token.type == "html_block" and comment else ""


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
