"""The navigation of the site, made from the lists of the index page."""

from __future__ import annotations

import re

LISTED = r"^- \[([^\]]+)\]\(([^)#:]+)\.md\)"
"""An item of a list that begins with a link to a page: its title, and the page."""

INDEX = "docs/README"
"""The index page, as Sphinx names it."""


def with_navigation(index: str) -> str:
    """The index page with a hidden table of contents for each of its sections.

    Every list item that begins with a link to a page is an entry, under the heading above it; a
    page that is linked twice, under the last one. A page that is not listed is a warning of Sphinx.
    """
    tables = []
    last = {page: title for title, page in re.findall(LISTED, index, re.M)}
    for heading, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", index, re.M | re.S):
        entries = [each for each in re.findall(LISTED, section, re.M) if last[each[1]] == each[0]]
        if entries:
            lines = "\n".join(f"{title} <{page}>" for title, page in entries)
            tables.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{lines}\n```\n")
    return "\n".join([index, *tables])
