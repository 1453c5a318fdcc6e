"""The live view in a real browser, of a consumer on a real broker.

Screenshots go to the folder in ``CONTROLMQ_SCREENSHOTS``, if that is set, for people to look at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from controlmq.observe.dashboard import Dashboard
from controlmq.observe.registry import Registry
from controlmq.observe.serving import LOOPBACK, Server, serve
from tests.observe.running import Running
from tests.testbed import Broker, Proxy
from tests.testbed.browser import Browser, browser
from tests.testbed.node import free_ports
from tests.testbed.proxy import proxied
from tests.testbed.publishing import fill

TOKEN = "a-token-that-is-long-enough"

SIZES = [(1280, 900), (375, 800)]
"""Width and height of a desk's screen and of a phone's."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@contextmanager
def serving(registry: Registry, token: str | None = None) -> Iterator[Server]:
    view = Dashboard(registry, token)
    server = serve("dashboard", view.routes, LOOPBACK, 0, allow_remote=False)
    assert server is not None
    try:
        yield server
    finally:
        server.close()


def kept(name: str) -> Path | None:
    folder = os.environ.get("CONTROLMQ_SCREENSHOTS")
    return Path(folder) / f"{name}.png" if folder else None


def fact(consumer: str, name: str) -> str:
    """JavaScript for what the page says of a consumer."""
    return (
        f"document.querySelector('[data-consumer=\"{consumer}\"] [data-fact={name}]').textContent"
    )


class Consumer:
    """``controlmq run`` in a process of its own, with a dashboard."""

    def __init__(self, url: str, queue: str, port: int, *words: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "controlmq.cli.main", "run", "--queue", queue),
                *("--url", url, "--work", "0.001", "--interval", "0.25", "--json"),
                *("--dashboard", str(port), *words),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"CONTROLMQ_DASHBOARD_TOKEN": TOKEN},
        )

    def step(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate(timeout=60)
        return dict(json.loads(line))

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()


def test_the_page_shows_what_the_consumer_did(
    broker: Broker, proxy: Proxy, queue_name: str, chromium: Browser
) -> None:
    fill(broker.parameters, queue_name, 20_000)
    (port,) = free_ports(1)
    url = proxied(broker.url, proxy)
    with Consumer(url, queue_name, port, "--goal", "200") as consumer:
        steps = [consumer.step() for _ in range(4)]
        chromium.open(f"http://127.0.0.1:{port}/")
        steps += [consumer.step() for _ in range(16)]
        last = steps[-1]["time"]
        samples = "[...controlmq.consumers.values()][0].samples"
        chromium.until(f"{samples}.length && {samples}.at(-1).time >= {last}")
        shown = {each["time"]: each for each in chromium.value(samples)}
        for step in steps:
            sample = shown[step["time"]]
            assert sample["rate"] == step["rate"]
            assert sample["goals"] == {"rate": step["goal"]} == {"rate": 200}
            assert sample["prefetch"] == step["next_prefetch"]
            assert sample["held"] == step["held"]
        # The words on the page are those of the sample that it has drawn last.
        said = chromium.value(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done("
            f"[{samples}.at(-1).rate, {fact(queue_name, 'rate')}, {fact(queue_name, 'goal')},"
            "document.querySelector('canvas').ariaLabel || document.querySelector('canvas')"
            ".getAttribute('aria-label')]))))"
        )
        assert float(said[1]) == pytest.approx(said[0], rel=0.01)
        assert said[2] == "200"
        assert said[3].startswith("Rate: rate ")
        # The consumer is started again: the page goes on by itself.
        consumer.stop()
        chromium.until(
            "document.getElementById('connection').textContent.includes('not connected')"
        )
        with Consumer(url, queue_name, port, "--goal", "150") as again:
            first = again.step()
            chromium.until(f"{samples}.at(-1).time >= {first['time']}")
            chromium.until("document.getElementById('connection').textContent.includes('live')")
            times = {each["time"] for each in chromium.value(samples)}
            assert {steps[-1]["time"], first["time"]} <= times
            chromium.until(f"{fact(queue_name, 'goal')} === '150'")


def test_a_goal_is_changed_on_the_page_with_the_token_only(
    broker: Broker, queue_name: str, chromium: Browser
) -> None:
    fill(broker.parameters, queue_name, 30_000)
    (port,) = free_ports(1)
    words = ("--goal", "100", "--allow-goal-changes")
    with Consumer(broker.url, queue_name, port, *words) as consumer:
        assert consumer.step()["goal"] == 100
        chromium.open(f"http://127.0.0.1:{port}/")
        chromium.until("document.querySelector('form') && !document.querySelector('form').hidden")

        def submit(token: str) -> str:
            chromium.value(
                "(() => { const form = document.querySelector('form');"
                "form.elements.goal.value = 120;"
                f"form.elements.token.value = {token!r}; form.querySelector('output').value = '';"
                "form.requestSubmit(); })()"
            )
            said: str = chromium.until("document.querySelector('form output').value")
            return said

        assert "token is missing or wrong" in submit("not-the-token-at-all")
        assert consumer.step()["goal"] == 100
        assert submit(TOKEN) == "The goal is changed."
        goals = [consumer.step()["goal"] for _ in range(3)]
        assert goals[-1] == 120
        chromium.until(f"{fact(queue_name, 'goal')} === '120'")


def test_another_origin_gets_nothing(chromium: Browser) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>another site</p>")

        def log_message(self, format: str, *words: object) -> None:
            pass

    registry = Registry()
    running = Running(registry)
    running.sample()
    other = ThreadingHTTPServer((LOOPBACK, 0), Elsewhere)
    thread = Thread(target=other.serve_forever)
    thread.start()
    try:
        with serving(registry, TOKEN) as server:
            chromium.open(f"http://127.0.0.1:{other.server_port}/")
            read = f"fetch('{server.url}/consumers').then(answer => answer.text(), () => 'refused')"
            assert chromium.value(read) == "refused"
            chromium.value(
                f"fetch('{server.url}/goal', {{method: 'POST', mode: 'no-cors', body: "
                "JSON.stringify({queue: 'orders', consumer: 'orders', goal: 5})})"
                ".then(() => 1, () => 1)"
            )
            streamed = (
                f"new Promise(done => {{ const source = new EventSource('{server.url}/stream');"
                "source.onopen = () => done('open'); source.onerror = () => done('refused'); })"
            )
            assert chromium.value(streamed) == "refused"
            assert running.goal == 100
    finally:
        other.shutdown()
        other.server_close()
        thread.join()


def many_samples(registry: Registry) -> list[Running]:
    """Two consumers over seven minutes: one settles, runs dry and goes on; one is at its limit."""
    start = time.time() - 420
    first = Running(registry, "orders", start=start)
    second = Running(registry, "invoices", "invoices in the evening", goal=400, start=start)
    for number in range(420):
        rate = 100 - 60 * 0.97**number + 4 * ((number * 7919) % 13 - 6) / 6
        first.sample(0 if 250 <= number < 280 else int(rate))
        second.sample(90 + number % 5)
    return [first, second]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desk", "phone"])
def test_the_page_fits_every_screen(chromium: Browser, scheme: str, size: tuple[int, int]) -> None:
    registry = Registry()
    width, height = size
    with serving(registry, TOKEN) as server:
        many_samples(registry)
        chromium.show_as(width, height, scheme)
        chromium.open(f"{server.url}/")
        chromium.until("controlmq.consumers.size === 2 && controlmq.drawn() > 1")
        assert chromium.value("document.documentElement.scrollWidth") <= width
        assert chromium.value("document.querySelectorAll('section.consumer').length") == 2
        ground = chromium.value("getComputedStyle(document.body).backgroundColor")
        red = int(ground.partition("(")[2].partition(",")[0])
        assert (red < 60) == (scheme == "dark")
        # Every chart has been drawn on, in the colours of the scheme.
        assert chromium.value(
            "[...document.querySelectorAll('canvas')].every(canvas => new Uint32Array(canvas"
            ".getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer)"
            ".some(each => each))"
        )
        path = kept(f"dashboard-{scheme}-{width}")
        if path is not None:
            chromium.screenshot(path)


def test_a_thousand_samples_later_memory_and_redraws_are_as_before(chromium: Browser) -> None:
    registry = Registry()
    running = Running(registry)
    chromium.show_as(1280, 900, "light")
    with serving(registry) as server:
        for _ in range(700):
            running.sample(20)
        chromium.open(f"{server.url}/")
        samples = "[...controlmq.consumers.values()][0].samples"
        chromium.until(f"controlmq.consumers.size && {samples}.length > 600")

        def measured() -> tuple[float, float]:
            """Bytes of the page's objects, and the least milliseconds of some redraws."""
            redraws = []
            for _ in range(10):
                drawn = chromium.value("controlmq.drawn()")
                chromium.value("dispatchEvent(new Event('resize'))")
                chromium.until(f"controlmq.drawn() > {drawn}")
                redraws.append(float(chromium.value("controlmq.redrawMs()")))
            chromium.value("gc()")
            memory = chromium.value("performance.memory.usedJSHeapSize")
            return float(memory), min(redraws)

        memory, redraw = measured()
        for number in range(1000):
            running.sample(20 + number % 3)
        chromium.until(f"{samples}.at(-1).samples === 1700")
        later_memory, later_redraw = measured()
        assert chromium.value(f"{samples}.length") == 601
        assert chromium.value("document.querySelectorAll('*').length") < 500
        assert later_memory < 1.3 * memory + 500_000
        # Not a question of speed: twice the samples would take twice as long.
        assert later_redraw < 2 * redraw + 5
