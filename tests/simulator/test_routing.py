"""Messages come to the queues that AMQP's exchanges bring them to, and no way leads nowhere."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq.errors import InputError
from simulator import (
    Binding,
    Consumer,
    Duration,
    Exchange,
    Message,
    Publishers,
    Queue,
    Scenario,
    Send,
    Simulation,
    parse_scenario,
)
from simulator.scenario.exchanges import topic_matches

NAMES = ("a", "b", "c")


def routed(
    exchange: Exchange, bindings: list[Binding], messages: list[Message], **queue: object
) -> Scenario:
    return Scenario(
        "routing",
        1.0,
        [Publishers("p", every=Duration(0.001), exchange=exchange.name, messages=messages)],
        [Queue(name, **queue) for name in NAMES],  # type: ignore[arg-type]
        [Consumer(f"of {name}", name, Duration(0.0001), prefetch=10) for name in NAMES],
        exchanges=[exchange],
        bindings=bindings,
    )


def received(scenario: Scenario) -> tuple[int, ...]:
    simulation = Simulation(scenario)
    simulation.run_until(10.0)
    return tuple(int(count) for count in simulation.state.queues["published"])


def keys(**shares: float) -> list[Message]:
    return [Message(key, probability=share) for key, share in shares.items()]


def test_a_direct_exchange_brings_each_consumer_its_key_alone() -> None:
    bindings = [Binding("x", "a", "red"), Binding("x", "b", "green"), Binding("x", "b", "blue")]
    counts = received(routed(Exchange("x"), bindings, keys(red=0.5, green=0.2, blue=0.3)))
    assert sum(counts) == pytest.approx(10_000, abs=1)
    assert counts[0] == pytest.approx(5000, rel=0.05)
    assert counts[2] == 0


def test_a_fanout_exchange_copies_to_every_queue_once() -> None:
    bindings = [Binding("x", name) for name in (*NAMES, "a")]
    counts = received(routed(Exchange("x", "fanout"), bindings, keys(any=1.0)))
    assert counts[0] == counts[1] == counts[2] == pytest.approx(10_000, abs=1)


def test_a_topic_exchange_matches_words() -> None:
    messages = [
        Message("order.eu", probability=0.25),
        Message("order.us.new", probability=0.25),
        Message("price", probability=0.5),
    ]
    bindings = [Binding("x", "a", "order.#"), Binding("x", "b", "*.eu"), Binding("x", "c", "#")]
    counts = received(routed(Exchange("x", "topic"), bindings, messages))
    assert counts[0] == pytest.approx(5000, rel=0.05)
    assert counts[1] == pytest.approx(2500, rel=0.1)
    assert counts[2] == pytest.approx(10_000, abs=1)


def test_a_headers_exchange_asks_for_all_or_any() -> None:
    messages = [
        Message("one", probability=0.5, headers={"kind": "log", "level": 3}),
        Message("two", probability=0.5, headers={"kind": "log", "level": 1, "x-ignored": 1}),
    ]
    bindings = [
        Binding("x", "a", headers={"kind": "log", "level": 3}),
        Binding("x", "b", headers={"kind": "metric", "level": 3}, match="any"),
        Binding("x", "c", headers={"kind": "log", "x-ignored": 2}),
    ]
    counts = received(routed(Exchange("x", "headers"), bindings, messages))
    assert counts[0] == counts[1] == pytest.approx(5000, rel=0.05)
    assert counts[2] == pytest.approx(10_000, abs=1)


words = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4)


@given(st.lists(st.sampled_from(["a", "b", "", "*", "#"]), min_size=1, max_size=5), words)
def test_topic_patterns_match_as_the_regular_expression_they_stand_for(
    pattern: list[str], key: list[str]
) -> None:
    # Every word ends in a dot here; "#" is any number of words, "*" exactly one.
    parts = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    expression = "".join(parts.get(part, re.escape(part) + r"\.") for part in pattern)
    expected = re.fullmatch(expression, "".join(word + "." for word in key)) is not None
    assert topic_matches(pattern, key) == expected


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bindings": []}, "'p' sends with key 'red' to exchange 'x' (direct) reaches no queue"),
        ({"bindings": [Binding("y", "a")]}, "exchange of 'bindings 1' is 'y'"),
        ({"bindings": [Binding("x", "d")]}, "queue of 'bindings 1' is 'd'"),
        ({"exchanges": []}, "exchange of 'bindings 1' is 'x'"),
        (
            {"publishers": [Publishers("p", "nowhere", Duration(1.0))]},
            "queue of 'p' is 'nowhere'; give one of 'a', 'b', 'c'",
        ),
        (
            {"queues": [Queue(name, dead_letter_exchange="x") for name in NAMES],
             "bindings": [Binding("x", "a", "red")],
             "publishers": [Publishers("p", "b", Duration(1.0))]},
            "'dead letters of b' sends with key 'b' to exchange 'x' (direct) reaches no queue",
        ),
        (
            {"consumers": [Consumer("c", "a", Duration(0.0), sends=[Send("nowhere")])]},
            "queue of 'c' is 'nowhere'",
        ),
        (
            {"consumers": [Consumer("c", "a", Duration(0.0), sends=[Send("b", on="blue")])]},
            "'c' sends on messages of type 'blue', but none reaches its queue 'a'",
        ),
    ],
)  # fmt: skip
def test_a_way_that_leads_nowhere_is_refused(change: dict[str, object], told: str) -> None:
    scenario = routed(Exchange("x"), [Binding("x", "a", "red")], keys(red=1.0))
    with pytest.raises(InputError) as refusal:
        replace(scenario, **change)  # type: ignore[arg-type]
    assert told in str(refusal.value)


def test_probabilities_add_up_to_one() -> None:
    with pytest.raises(InputError, match=r"add up to 0.9; give 1"):
        Publishers("p", every=Duration(1.0), messages=keys(a=0.5, b=0.4))


def test_a_file_says_the_same_as_python() -> None:
    text = """
    name = "routing"
    sample_interval = 1.0
    [[publishers]]
    name = "p"
    every = 0.001
    exchange = "x"
    messages = [
        { routing_key = "red", probability = 0.5, size = { mean = 9 } },
        { routing_key = "green", probability = 0.5 },
    ]
    [[exchanges]]
    name = "x"
    [[bindings]]
    exchange = "x"
    queue = "a"
    routing_key = "red"
    [[bindings]]
    exchange = "x"
    queue = "b"
    routing_key = "green"
    [[queues]]
    name = "a"
    [[queues]]
    name = "b"
    [[consumers]]
    name = "c"
    queue = "a"
    work = 0.001
    sends = [{ routing_key = "b", on = "red", type = "answer" }]
    """
    scenario = parse_scenario(text)
    assert scenario.message_paths().types == ["red", "green", "answer"]
    assert scenario.message_paths().pairs == [(0, 0), (1, 1), (1, 2)]
    with pytest.raises(InputError, match="publishers 1: messages 2: 'key' is not a key here"):
        parse_scenario(text.replace('routing_key = "green", p', 'key = "green", p'))
