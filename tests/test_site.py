"""The documentation site: built without a warning, whole, and usable without a network."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from controlmq.cli.main import COMMANDS
from controlmq.observe.metrics import METRICS
from tests.pages import ROOT
from tests.testbed.browser import browser

pytestmark = pytest.mark.slow

INDEX = "docs/README.html"


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and where it can be linked to."""

    links: list[tuple[str, str]] = field(default_factory=list)
    """Target and text of each link."""
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append((given["href"], ""))
        elif tag == "form":
            self.links.append((given["action"], ""))
        elif tag == "link" and given["href"] != "#":
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])

    def handle_data(self, data: str) -> None:
        if self.links:
            target, text = self.links[-1]
            self.links[-1] = target, text + data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it, elsewhere."""
    folder = tmp_path_factory.mktemp("site")
    recipe = re.search(r"^docs:.*\n\t(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    program, *words, target = shlex.split(recipe[1].replace("$(BIN)/python", sys.executable))
    assert target == "site"
    assert "-W" in words
    done = subprocess.run(
        [program, *words, "-d", str(folder / "read"), str(folder / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Every page by its path in the site."""
    found = {}
    for path in site.rglob("*.html"):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        found[str(path.relative_to(site))] = page
    return found


def internal(site: Path, pages: dict[str, Page], name: str) -> Iterator[tuple[str, str]]:
    """The files of the site that a page links to, with the anchor asked for."""
    for link, _ in pages[name].links:
        target = urlsplit(link)
        if not target.scheme:
            path = (site / name).parent / unquote(target.path) if target.path else site / name
            yield str(path.resolve().relative_to(site.resolve())), unquote(target.fragment)


def test_every_page_is_reached_from_the_index(site: Path, pages: dict[str, Page]) -> None:
    reached, next_ = set(), ["index.html"]
    while next_:
        name = next_.pop()
        if name in pages and name not in reached:
            reached.add(name)
            next_ += [target for target, _ in internal(site, pages, name)]
    assert {*pages} - reached == set()


def test_every_internal_link_works(site: Path, pages: dict[str, Page]) -> None:
    broken = [
        (name, target, anchor)
        for name in pages
        for target, anchor in internal(site, pages, name)
        if not (site / target).is_file()
        or (anchor and target in pages and anchor not in pages[target].anchors)
    ]
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        for load in page.loads:
            target = urlsplit(load)
            assert not target.scheme or target.scheme == "data", (name, load)
            assert not target.netloc, (name, load)
            assert target.scheme or ((site / name).parent / target.path).is_file(), (name, load)
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.findall(r"url\(\s*['\"]?(?:https?:)?//|@import", text), sheet


QUESTIONS = {
    "How do I cap a rate?": "at_most=",
    "Why is my consumer starved?": "the queue had none to give",
    "What does frozen mean?": "The law stands still",
    "How do I use it with my client?": "connection_class=adaptive",
    "Is anything lost if it dies?": "the broker delivers",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_newcomers_question_is_one_click_from_the_index(
    question: str, site: Path, pages: dict[str, Page]
) -> None:
    (target,) = {link for link, text in pages[INDEX].links if text.strip().startswith(question)}
    page, _, anchor = target.partition("#")
    text = (site / "docs" / page).read_text(encoding="utf-8")
    answer = text[text.index(f'id="{anchor}"') :] if anchor else text
    assert QUESTIONS[question] in re.sub(r"<[^>]+>|\n", lambda tag: " " * (tag[0] == "\n"), answer)


def test_the_reference_is_made_from_the_code(site: Path) -> None:
    def text_of(page: str) -> str:
        return (site / "docs" / page).read_text(encoding="utf-8")

    commands, metrics = text_of("commands.html"), text_of("metrics.html")
    for command in COMMANDS:
        assert f">controlmq {command.__name__.rpartition('.')[2]}<" in commands
    assert "--metrics-port" in commands
    for metric in METRICS:
        assert metric.exposed_name in metrics
    words = text_of("scenario-words.html")
    assert all(word in words for word in ("spread_acks", "dead_letter_exchange", "jitter"))
    assert 'id="controlmq.wrap"' in text_of("api.html")
    assert 'id="simulator.SimulatedConsumer"' in text_of("api-simulator.html")
    assert 'id="identification.identify"' in text_of("api-identification.html")


def test_search_works_from_the_file_system(site: Path) -> None:
    with browser() as page:
        page.open(f"{(site / 'search.html').as_uri()}?q=hoarding")
        page.until("document.querySelectorAll('#search-results li a').length > 0")
        found = page.value(
            "[...document.querySelectorAll('#search-results li a')].map(a => a.href)"
        )
    assert any(link.split("?")[0].endswith("stop-hoarding.html") for link in found)
