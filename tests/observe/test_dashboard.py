"""The live view's server: what it tells, to whom, and who may change a goal."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from controlmq.errors import InputError
from controlmq.observe import dashboard
from controlmq.observe.dashboard import Dashboard, new_token, page, serve_dashboard
from controlmq.observe.events import events
from controlmq.observe.registry import Registry
from controlmq.observe.serving import LOOPBACK, Server, serve
from controlmq.sample import STARVED_TOLERANCE_SHARE
from tests.observe.running import LIMITS, Running, failing

TOKEN = "0123456789abcdef"


class Page:
    """A browser's requests, and what a hostile one would send."""

    def __init__(self, server: Server) -> None:
        self.port = server.port

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)
        sent = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, sent, named)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def stream(self) -> Stream:
        return Stream(self.port)


class Stream:
    """Server-sent events, one by one."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
        self._connection.request("GET", "/stream")
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str, Any]:
        kind = ""
        while True:
            line = self.answer.readline().decode().strip()
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))

    def until(self, wanted: str) -> Any:
        while True:
            kind, content = self.next()
            if kind == wanted:
                return content

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def shown(registry: Registry) -> Iterator[Page]:
    """Pages of a dashboard on which goals may be changed."""
    view = Dashboard(registry, TOKEN)
    server = serve("dashboard", view.routes, LOOPBACK, 0, allow_remote=False)
    assert server is not None
    yield Page(server)
    server.close()


def test_a_page_is_told_all_that_is_known_and_then_every_sample(
    registry: Registry, shown: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "LOOK_EVERY_SECONDS", 0.05)
    running = Running(registry, "orders", "shop")
    first, second = running.sample(30), running.sample(20)
    stream = shown.stream()
    try:
        assert stream.answer.headers["Content-Type"] == "text/event-stream"
        told = stream.until("all")
        (consumer,) = told["consumers"]
        assert (consumer["queue"], consumer["consumer"], consumer["running"]) == (
            "orders",
            "shop",
            True,
        )
        assert [each["rate"] for each in consumer["samples"]] == [first.rate, second.rate]
        assert told["goals_may_change"] is True
        third = running.sample(10)
        news = stream.until("sample")
        assert (news["consumer"], news["sample"]["rate"]) == ("shop", third.rate)
        assert news["sample"]["received"] == 60
        running.running = False
        assert stream.until("running") == []
    finally:
        stream.close()


def test_a_consumer_that_starts_later_comes_to_an_open_page(
    registry: Registry, shown: Page
) -> None:
    stream = shown.stream()
    try:
        assert stream.until("all")["consumers"] == []
        Running(registry, "late").sample()
        assert stream.until("sample")["queue"] == "late"
    finally:
        stream.close()


def test_only_ten_minutes_are_kept(registry: Registry) -> None:
    view = Dashboard(registry)
    running = Running(registry)
    for _ in range(700):
        running.sample(1)
    (consumer,) = view.state()["consumers"]
    assert len(consumer["samples"]) == 601
    assert consumer["samples"][-1]["samples"] == 700


def test_a_reader_that_fell_behind_is_told_everything_again(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "MOST_NEWS", 3)
    view = Dashboard(registry)
    running = Running(registry)
    messages = (part for part in view._messages() if not part.startswith(b"event: running"))
    assert next(messages).startswith(b"retry")
    assert b'"consumers": []' in next(messages)
    for _ in range(5):
        running.sample(1)
    assert next(messages).startswith(b"event: all")
    running.sample(1)
    assert next(messages).startswith(b"event: sample")


def test_there_is_an_end_to_the_pages_open_at_once(
    registry: Registry, shown: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "MOST_STREAMS", 1)
    stream = shown.stream()
    stream.until("all")
    status, sentence = shown.ask("GET", "/stream")
    assert (status, sentence) == (503, "1 pages are open already; close one of them.\n")
    stream.close()


def test_events_say_what_changed(registry: Registry) -> None:
    running = Running(registry)
    first = running.sample()
    assert events(None, first) == []
    running.goal = 120.0
    goal = running.sample()
    assert [each.text for each in events(first, goal)] == ["the goal is rate 120"]
    running.loop.controller = lambda sample, goal: LIMITS.high
    limit = running.sample()
    assert [each.kind for each in events(goal, limit)] == ["limit", "model"]
    running.loop.controller = failing
    assert "the controller failed, the prefetch stays" in [
        each.text for each in events(limit, running.sample())
    ]
    dry = running.sample(0)
    assert {"dry", "frozen"} <= {each.kind for each in events(limit, dry)}
    assert {"messages come again", "the law moves again"} <= {
        each.text for each in events(dry, limit)
    }


def test_a_goal_is_changed_by_those_who_have_the_token(registry: Registry, shown: Page) -> None:
    running = Running(registry, "orders", "shop")
    running.sample()
    asked = {"queue": "orders", "consumer": "shop", "goal": 250}
    refused = [
        shown.ask("POST", "/goal", asked),
        shown.ask("POST", "/goal", asked, Authorization="Bearer nearly"),
        shown.ask("POST", "/goal", asked, Authorization=f"Bearer {TOKEN}x"),
    ]
    assert refused == [(401, "the token is missing or wrong; the start printed it.\n")] * 3
    assert running.goal == 100
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert shown.ask("POST", "/goal", asked, **right) == (200, '{"goal": 250}')
    assert running.sample().goals == {"rate": 250.0}
    running.at_most = 300.0
    wrong = (
        *((-1, "above 0"), ("many", "give a number"), (True, "give a number")),
        (400, "at_most is 300/s"),
    )
    for goal, why in wrong:
        status, sentence = shown.ask("POST", "/goal", asked | {"goal": goal}, **right)
        assert (status, why in sentence) == (400, True)
    assert shown.ask("POST", "/goal", [1], **right)[0] == 400
    assert shown.ask("POST", "/goal", asked | {"queue": "other"}, **right)[0] == 404
    assert running.goal == 250


def test_without_a_token_at_start_no_goal_is_changed(registry: Registry) -> None:
    view = Dashboard(registry)
    server = serve("dashboard", view.routes, LOOPBACK, 0, allow_remote=False)
    assert server is not None
    running = Running(registry)
    running.sample()
    try:
        asked = {"queue": "orders", "consumer": "orders", "goal": 250}
        status, sentence = Page(server).ask("POST", "/goal", asked, Authorization="Bearer ")
        assert status == 403
        assert sentence == "goals cannot be changed here; allow it when the consumer starts.\n"
    finally:
        server.close()
    assert running.goal == 100


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.example"},
    ],
    ids=["origin", "port", "null", "cross-site", "rebound name"],
)
@pytest.mark.parametrize("path", ["/", "/stream", "/consumers"])
def test_pages_of_other_sites_are_refused(shown: Page, headers: dict[str, str], path: str) -> None:
    status, sentence = shown.ask("GET", path, **headers)
    assert (status, sentence) == (
        403,
        "this is served to its own pages, not to another site's.\n",
    )


def test_its_own_page_is_not_refused(shown: Page) -> None:
    own = f"http://127.0.0.1:{shown.port}"
    assert shown.ask("GET", "/consumers", Origin=own, Sec_Fetch_Site="same-origin")[0] == 200
    assert shown.ask("GET", "/", Host=f"localhost:{shown.port}")[0] == 200


def test_what_is_not_there_is_one_sentence(shown: Page) -> None:
    status, sentence = shown.ask("GET", "/etc/passwd")
    assert status == 404
    assert sentence == "/etc/passwd is not served here; there is /, /consumers, /goal, /stream.\n"
    assert shown.ask("GET", "/goal")[0] == 405
    assert shown.ask("POST", "/goal", "x" * 20_000)[0] == 413


def test_the_page_calls_a_queue_dry_from_where_a_sample_does() -> None:
    assert f"STARVED_TOLERANCE_SHARE = {STARVED_TOLERANCE_SHARE};" in page().decode()


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = page().decode()
    assert "http://" not in text
    assert "https://" not in text
    assert "import(" not in text
    assert text.count("src=") == 0


@pytest.mark.parametrize("token", ["", "short", "x" * 129])
def test_a_token_of_the_wrong_length_is_refused(token: str) -> None:
    with pytest.raises(InputError, match=f"has {len(token)} characters; give 16 to 128"):
        serve_dashboard(0, token=token)


def test_one_line_serves_the_page_and_closing_it_ends_all() -> None:
    threads = threading.active_count()
    server = serve_dashboard(0, token=new_token())
    assert server is not None
    assert Page(server).ask("GET", "/")[0] == 200
    server.close()
    with pytest.raises(ConnectionRefusedError):
        Page(server).ask("GET", "/")
    assert threading.active_count() <= threads + 1, "a request may still end"
