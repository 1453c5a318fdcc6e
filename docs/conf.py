"""How Sphinx makes the site: ``make docs``.

The pages are Markdown that also reads well in a repository viewer, so nothing in them is meant for
Sphinx alone. What Sphinx needs besides is added while it reads a page: the navigation, from the
lists of the index page, and the parts of reference pages that are made from the code. The option
``-E`` makes it read every page each time, because the code may have changed and the page has not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

import from_code  # noqa: E402
import navigation  # noqa: E402

import controlmq  # noqa: E402

project = "controlmq"
copyright = "the controlmq authors"
version = release = controlmq.__version__

# The source folder is the root of the repository, so that links between its pages are what they are
# in a viewer.
root_doc = navigation.INDEX
include_patterns = ["*.md", "docs/*.md", "examples/**/*.md"]
exclude_patterns = [".*", "site", "build", "demo-report", "tests", "benchmarks", "README.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]

myst_heading_anchors = 4
myst_links_external_new_tab = False
highlight_language = "sh"
smartquotes = False  # options begin with two hyphens

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False

html_theme = "furo"
html_title = f"controlmq {release}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_extra_path = ["index.html"]
html_copy_source = False
html_use_index = False  # search finds names, too
html_domain_indices = False
html_show_sphinx = False
templates_path: list[str] = []


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to a page what Sphinx needs and a viewer does not show."""
    source[0] = from_code.filled(source[0])
    if page == root_doc:
        source[0] = navigation.with_navigation(source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _read)
