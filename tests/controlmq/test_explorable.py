"""A page to explore, in a real browser: values, curves that hide, a range that narrows.

Screenshots go to the folder in ``CONTROLMQ_SCREENSHOTS``, if that is set, for people to look at.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlmq.experiments.explorable import Mark, Panel, Series, figure
from controlmq.experiments.page import page
from tests.testbed.browser import Browser, browser

PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="100">'
    '<text y="20">as printed</text></svg>'
)

NUMBERS = range(60)
RATES = [400 - 390 * 0.8**k + 7 * math.sin(k) for k in NUMBERS]
PREFETCHES = [1 + 0.1234567 * k for k in NUMBERS]
SAMPLE = "sample"


def rates_and_prefetches() -> list[Panel]:
    rates = [
        Series("goal", "#009e73", NUMBERS, [400.0] * 60, "dashed"),
        Series("PI", "#0072b2", NUMBERS, RATES, labels=[f"number {k}" for k in NUMBERS]),
    ]
    prefetches = [Series("PI", "#0072b2", NUMBERS, PREFETCHES, "step")]
    candidates = [Series("<b>odd</b>", "#d55e00", [1.0, 2.0, 4.0], [3.0, math.nan, 9.0], "points")]
    groups = [Series("groups", "#0072b2", [0.5, 1.5, 2.5], [4, 0, 7], "bars", ["a, b", "", "c"])]
    return [
        Panel("Rate", SAMPLE, "rate (msg/s)", rates, [Mark(30, "slower work")]),
        Panel("Prefetch", SAMPLE, "prefetch", prefetches),
        Panel("Candidates", "effort", "error", candidates),
        Panel("Groups", "gain", "groups", groups),
    ]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def explored(chromium: Browser, tmp_path: Path) -> Browser:
    """The page, as a file."""
    made = figure(PICTURE, "Four panels.", rates_and_prefetches(), columns=2)
    (tmp_path / "page.html").write_text(page("To explore", [made]))
    chromium.show_as(1000, 900, "light")
    chromium.open((tmp_path / "page.html").as_uri())
    return chromium


def mouse(browser: Browser, kind: str, chart: int, share: float, height: float = 0.5) -> None:
    """Move, press or release the mouse at these shares of the width and height of a chart."""
    left, top, right, bottom = browser.value(
        f"(box => [box.left + 58, box.top + 26, box.right - 14, box.bottom - 40])"
        f"(document.querySelectorAll('.chart')[{chart}].getBoundingClientRect())"
    )
    buttons = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
    browser.do(
        "Input.dispatchMouseEvent",
        type=kind,
        x=left + share * (right - left),
        y=top + height * (bottom - top),
        **buttons,
    )


def tip(browser: Browser) -> str:
    """What is written beside the pointer."""
    return str(browser.until("document.querySelector('.tip:not([hidden])')?.innerText"))


def shown_range(browser: Browser, chart: int) -> list[float]:
    of = f"document.querySelectorAll('.chart')[{chart}].dataset"
    return [float(end) for end in browser.value(f"[{of}.from, {of}.to]")]


def click(browser: Browser, words: str) -> None:
    browser.value(
        "[...document.querySelectorAll('.tools button')]"
        f".find(each => each.textContent === {words!r}).click()"
    )


def press(browser: Browser, *keys: str) -> None:
    for key in keys:
        text = {"text": key} if len(key) == 1 else {}
        browser.do("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        browser.do("Input.dispatchKeyEvent", type="keyUp", key=key)


@pytest.mark.slow
def test_hovering_shows_the_values_that_the_data_has(explored: Browser) -> None:
    for share in (0.0, 0.3, 0.77, 1.0):
        mouse(explored, "mouseMoved", 0, share)
        heading, *after, goal, rate, label = tip(explored).splitlines()
        k = int(heading.removeprefix("sample: "))
        assert k == pytest.approx(-0.5 + share * 60, abs=1)
        assert goal == "goal 400"
        assert float(rate.removeprefix("PI ")) == pytest.approx(RATES[k], rel=1e-4)
        assert label == f"number {k}"
        assert after == (["after slower work"] if k >= 30 else [])
    mouse(explored, "mouseMoved", 1, 0.5)
    heading, prefetch = tip(explored).splitlines()
    k = int(heading.removeprefix("sample: "))
    assert float(prefetch.removeprefix("PI ")) == pytest.approx(PREFETCHES[k], rel=1e-4)


@pytest.mark.slow
def test_a_point_is_read_where_it_is_and_its_name_is_no_html(explored: Browser) -> None:
    mouse(explored, "mouseMoved", 2, 1.0, 0.1)
    assert tip(explored).splitlines() == ["effort: 4", "<b>odd</b> 9"]
    assert explored.value("document.querySelectorAll('.points circle').length") == 2
    mouse(explored, "mouseMoved", 3, 0.9)
    assert tip(explored).splitlines() == ["gain: 2.5", "groups 7", "c"]


@pytest.mark.slow
def test_the_legend_hides_a_curve_in_all_panels(explored: Browser) -> None:
    curves = "[...document.querySelectorAll('.series')].map(each => each.dataset.name)"
    assert explored.value(curves) == ["goal", "PI", "PI", "<b>odd</b>", "groups"]
    click(explored, "PI")
    assert explored.value(curves) == ["goal", "<b>odd</b>", "groups"]
    pressed = "[...document.querySelectorAll('.legend')].map(each => each.ariaPressed)"
    assert explored.value(pressed) == ["true", "false", "true", "true"]
    mouse(explored, "mouseMoved", 0, 0.5)
    assert "PI" not in tip(explored)
    click(explored, "PI")
    assert len(explored.value(curves)) == 5


@pytest.mark.slow
def test_dragging_narrows_the_range_of_panels_with_the_same_x(explored: Browser) -> None:
    assert [shown_range(explored, chart) for chart in (0, 1)] == [[-0.5, 59.5]] * 2
    effort = shown_range(explored, 2)
    mouse(explored, "mouseMoved", 0, 0.25)
    mouse(explored, "mousePressed", 0, 0.25)
    mouse(explored, "mouseMoved", 0, 0.4)
    mouse(explored, "mouseMoved", 0, 0.5)
    mouse(explored, "mouseReleased", 0, 0.5)
    for chart in (0, 1):
        assert shown_range(explored, chart) == pytest.approx([14.5, 29.5], abs=0.3)
    assert shown_range(explored, 2) == effort
    # The value under the pointer is of the narrow range.
    mouse(explored, "mouseMoved", 0, 0.5)
    assert 20 <= int(tip(explored).splitlines()[0].removeprefix("sample: ")) <= 24
    click(explored, "all")
    assert shown_range(explored, 0) == [-0.5, 59.5]
    click(explored, "+")
    assert shown_range(explored, 0) == pytest.approx([14.5, 44.5])
    click(explored, "\N{MINUS SIGN}")
    assert shown_range(explored, 1) == [-0.5, 59.5]


@pytest.mark.slow
def test_keys_do_what_the_mouse_does(explored: Browser) -> None:
    explored.value("document.querySelector('.chart').focus()")
    press(explored, "ArrowRight", "ArrowRight", "ArrowRight")
    assert tip(explored).splitlines()[0] == "sample: 2"
    said = str(explored.value("document.querySelector('.said').textContent"))
    assert said.startswith("sample: 2; goal 400; PI ")
    press(explored, "+")
    low, high = shown_range(explored, 0)
    assert (low, high - low) == (pytest.approx(0.75), pytest.approx(30))
    press(explored, "ArrowRight")
    assert tip(explored).splitlines()[0] == "sample: 3"
    press(explored, "0", "End")
    assert shown_range(explored, 0) == [-0.5, 59.5]
    assert tip(explored).splitlines()[0] == "sample: 59"
    press(explored, "Escape")
    explored.until("document.querySelector('.tip').hidden")


PICTURE_IS_SEEN = "document.querySelector('.picture').getBoundingClientRect().height > 0"


@pytest.mark.slow
def test_the_picture_is_there_without_scripts_on_paper_and_on_demand(explored: Browser) -> None:
    assert not explored.value(PICTURE_IS_SEEN)
    explored.do("Emulation.setEmulatedMedia", media="print")
    assert explored.value(PICTURE_IS_SEEN)
    explored.do("Emulation.setEmulatedMedia", media="")
    click(explored, "picture")
    assert explored.value(PICTURE_IS_SEEN)
    click(explored, "explore")
    assert not explored.value(PICTURE_IS_SEEN)
    explored.do("Emulation.setScriptExecutionDisabled", value=True)
    try:
        explored.do("Page.reload")
        explored.until("document.readyState === 'complete' && !document.querySelector('.tools')")
        assert explored.value(PICTURE_IS_SEEN)
    finally:
        explored.do("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_it_fits_every_screen(explored: Browser, scheme: str, width: int) -> None:
    explored.show_as(width, 900, scheme)
    explored.until(f"document.querySelector('.chart').getBoundingClientRect().width < {width}")
    assert explored.value("document.documentElement.scrollWidth") <= width
    mouse(explored, "mouseMoved", 0, 0.9)
    tip(explored)
    inside = "(box => box.left >= 0 && box.right <= innerWidth)"
    assert explored.value(f"{inside}(document.querySelector('.tip').getBoundingClientRect())")
    folder = os.environ.get("CONTROLMQ_SCREENSHOTS")
    if folder:
        explored.screenshot(Path(folder) / f"explorable-{scheme}-{width}.png")


def test_a_page_asks_for_nothing_from_elsewhere() -> None:
    made = page("To explore", [figure(PICTURE, "Four panels.", rates_and_prefetches())])
    without_names = made.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\((?!#)", without_names)


def test_a_name_cannot_end_the_script_that_holds_it() -> None:
    series = [Series("</script><script>alert(1)</script>", "#000000", [1.0], [2.0])]
    made = figure(PICTURE, "", [Panel("", "x", "y", series)])
    assert made.count("<script") == made.count("</script>") == 1
