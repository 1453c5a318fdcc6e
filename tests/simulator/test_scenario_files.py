"""A scenario file is read exactly or refused in one sentence."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq.errors import InputError
from controlmq.goals import Goals
from simulator import (
    Duration,
    Scenario,
    SimulatedConsumer,
    Simulation,
    load_scenario,
    parse_scenario,
    shipped_scenarios,
)
from simulator.plant import adapting
from simulator.scenario.toml_file import scenario_from
from simulator.scenario.toml_text import scenario_text
from tests.simulator.scenarios import ROSA

TEXT = (resources.files("simulator.scenario") / "shipped" / "rosa.toml").read_text(encoding="utf-8")
KEYS = ["name", "queue", "count", "every", "message_size", "max_length", "overflow", "link"]
KEYS += ["exchange", "routing_key", "messages", "persistent", "confirms", "schedule", "priorities"]
KEYS += ["message_ttl", "delivery_limit", "dead_letter_exchange", "dead_letter_routing_key"]
KEYS += ["dispatch", "durable", "write_before_delivery", "acknowledge", "ack_batch", "failure"]
KEYS += ["ack_multiple", "on_failure", "crash_every", "restart", "work_schedule", "sends"]
KEYS += ["handlers", "work", "overhead", "prefetch", "round_trip", "jitter", "bytes_per_second"]


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


def test_the_published_experiment_is_shipped_as_published() -> None:
    publishers, consumer = ROSA.publishers[0], ROSA.consumers[0]
    assert shipped_scenarios() == ["rosa", "rosa-noisy"]
    assert ROSA.sample_interval == 10.0
    assert publishers.count == 25
    assert publishers.every == Duration(0.010, "normal", 0.001)
    assert publishers.message_size == 256
    assert (consumer.handlers, consumer.work, consumer.overhead) == (2, Duration(0.001), 0.000127)
    assert ROSA.links[0].round_trip == 0.011373


def test_a_copied_file_is_the_same_scenario(tmp_path: Path) -> None:
    copy = tmp_path / "mine.toml"
    copy.write_text(TEXT, encoding="utf-8")
    assert load_scenario(copy) == load_scenario(str(copy)) == ROSA


def test_a_bare_number_is_a_deterministic_duration() -> None:
    text = changed('{ distribution = "deterministic", mean = 0.001 }', "0.001")
    assert parse_scenario(text) == ROSA


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("count = 25", "cuont = 25", "'cuont' is not a key here; give one of name,"),
        ("count = 25", "count = 0", "count is 0; give a whole number from 1"),
        ("count = 25", "count = 2.5", "count is 2.5; give a whole number"),
        ("count = 25", "count = true", "count is True; give a whole number"),
        ("sample_interval = 10.0", "sample_interval = 0", "sample_interval is 0; give"),
        ("sample_interval = 10.0", "sample_interval = nan", "sample_interval is nan; give"),
        ("sample_interval = 10.0", 'sample_interval = "10"', "sample_interval is '10'; give"),
        ("sample_interval = 10.0", "", "'sample_interval' is missing"),
        ("sd = 0.001", "sd = -1", "sd is -1; give 0 or more"),
        ("sd = 0.001", "sd = 1.0", "allows up to 0.0025, a lognormal one more"),
        (", sd = 0.001", "", "sd is missing; a normal duration needs one"),
        ("mean = 0.010", "mean = inf", "mean is inf; give a finite number"),
        ('{ distribution = "normal", mean = 0.010, sd = 0.001 }', "1e-9", "at least 1e-06"),
        ('"normal"', '"uniform"', "distribution is 'uniform'; give one of deterministic"),
        ("handlers = 2", "handlers = 0", "consumers 1: handlers is 0"),
        ("prefetch = 1", "prefetch = 65536", "AMQP allows at most 65535"),
        ("max_length = 10000", "max_length = 0", "max_length is 0"),
        ('"drop-head"', '"drop"', "overflow is 'drop'; give one of drop-head, reject-publish"),
        ('link = "network"', 'link = "lan"', "link of 'consumer' is 'lan'; give one of 'network'"),
        ("round_trip = 0.011373", "round_trip = -1", "links 1: round_trip is -1"),
        ("[[links]]", "[links]", "links is {'name': 'network'"),
        ("[[queues]]", "[[queue]]", "'queue' is not a key here"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(old: str, new: str, told: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_scenario(changed(old, new), source="mine.toml")
    message = str(refusal.value)
    assert message.startswith("mine.toml")
    assert told in message
    assert "\n" not in message


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(InputError, match=r"no scenario 'rossa'; .* rosa, rosa-noisy"):
        load_scenario("rossa")


def test_a_folder_is_not_a_scenario(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the scenario"):
        load_scenario(tmp_path)


def test_two_entities_of_one_kind_need_two_names() -> None:
    with pytest.raises(InputError, match="consumers has two entries named 'consumer'; rename"):
        replace(ROSA, consumers=[ROSA.consumers[0], ROSA.consumers[0]])


def test_several_consumers_need_a_choice() -> None:
    both = [ROSA.consumers[0], replace(ROSA.consumers[0], name="second")]
    with pytest.raises(InputError, match="name the one to drive: 'consumer', 'second'"):
        SimulatedConsumer(replace(ROSA, consumers=both))
    with pytest.raises(InputError, match="there is no consumer 'third'"):
        SimulatedConsumer(replace(ROSA, consumers=both), consumer="third")


@pytest.mark.parametrize("seed", [1.5, "1", None, True])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InputError, match="seed is"):
        Simulation(ROSA, seed)


@given(st.text(), st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_any_text_is_a_scenario_or_an_input_error(text: str, start: int, end: int) -> None:
    for candidate in (text, TEXT[: min(start, end)] + text + TEXT[max(start, end) :]):
        with suppress(InputError):
            assert isinstance(parse_scenario(candidate), Scenario)


scalars = (
    st.integers()
    | st.floats()
    | st.booleans()
    | st.text(max_size=5)
    | st.none()
    | st.dates()
    | st.sampled_from(["work", "network", "drop-head", "normal", 10**400, -0.0, 5e-324])
)
values = scalars | st.lists(scalars, max_size=2)
words = ["mean", "sd", "distribution", "values", "file", "at", "factor", "over", "size", "on"]
words += ["routing_key", "probability", "headers", "type"]
values |= st.lists(st.dictionaries(st.sampled_from(words), values, max_size=4), max_size=2)
values |= st.dictionaries(st.sampled_from(words), values, max_size=4)
values |= st.dictionaries(st.sampled_from(["mean", "sd", "distribution"]), values, max_size=3)


@given(
    st.sampled_from(["publishers", "queues", "consumers", "links"]), st.sampled_from(KEYS), values
)
def test_any_value_of_any_key_is_used_or_an_input_error(kind: str, key: str, value: object) -> None:
    content = tomllib.loads(TEXT)
    content[kind][0][key] = value
    try:
        scenario = scenario_from(content)
    except InputError:
        return
    if all(group.count <= 1000 for group in scenario.publishers):
        plant = SimulatedConsumer(scenario)
        plant.interval = 0.02
        plant.observe()


def test_a_consumer_has_goals_in_the_words_of_python() -> None:
    text = """
        name = "goals"
        sample_interval = 1.0
        [[publishers]]
        name = "many"
        queue = "work"
        every = 0.001
        [[queues]]
        name = "work"
        max_length = 1000
        [[links]]
        name = "link"
        round_trip = 0.011
        [[consumers]]
        name = "bounded"
        queue = "work"
        work = 0.002
        link = "link"
        goals = { at_most = "6000/minute" }
        [[consumers]]
        name = "least"
        queue = "work"
        work = 0.01
        link = "link"
        goals = {}
    """
    scenario = parse_scenario(text)
    assert [each.goals for each in scenario.consumers] == [Goals(at_most=100.0), Goals()]
    assert parse_scenario(scenario_text(scenario)) == scenario
    loops = adapting(Simulation(scenario, 1))
    for _ in range(20):
        last = {name: loop.step().sample for name, loop in loops.items()}
    assert last["bounded"].rate == pytest.approx(100, rel=0.02)
    assert last["least"].rate == pytest.approx(100, rel=0.03)
    assert last["least"].prefetch < 4
    with pytest.raises(InputError, match="goals: at_most is '5/fortnight'"):
        parse_scenario(text.replace("6000/minute", "5/fortnight"))
