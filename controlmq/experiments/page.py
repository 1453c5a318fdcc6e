"""An HTML page that holds everything it shows: style, tables, pictures, numbers to explore."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from controlmq.experiments.explorable import resource

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #222; --soft: #555; --rule: #ddd;
        --strong: #888; --shade: #f3f3f3; --mark: #b2182b; --focus: #0060a0; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171b; --ink: #e6e8eb; --soft: #a6afba; --rule: #353c45; --strong: #7b8591;
          --shade: #22272e; --mark: #f08a8a; --focus: #6cb8f0; }
}
body { font: 16px/1.55 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: var(--ink); background: var(--ground); overflow-wrap: break-word; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--rule); text-align: right; }
th:first-child, td:first-child { text-align: left; min-width: 6rem; }
thead th { border-bottom: 2px solid var(--strong); }
figure { margin: 1rem 0; min-width: 0; } .picture svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .92rem; }
.pair { display: flex; flex-wrap: wrap; gap: 1.5rem; }
code { background: var(--shade); padding: .1rem .3rem; border-radius: 3px; }
@media (prefers-color-scheme: dark) {
  .picture svg { background: #fff; border-radius: 6px; } /* its ink is dark */
}
"""


def page(title: str, sections: Sequence[str]) -> str:
    """The whole document; ``sections`` are HTML."""
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{title_element(title)}\n<style>{STYLE}{resource('explorable.css')}</style>\n</head>\n"
        f"<body>\n{body}\n<script>\n{resource('explorable.js')}</script>\n</body>\n</html>\n"
    )


def title_element(title: str) -> str:
    """The line that identifies a page with this title."""
    return f"<title>{escape(title)}</title>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, which are escaped."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    rows_of_cells = f"<thead>{line(head, 'th')}</thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table>\n{rows_of_cells}\n</table></div>'
