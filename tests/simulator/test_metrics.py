"""Metrics say what theory says, and leave the run in the forms a user wants."""

from __future__ import annotations

import io
import math
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from controlmq.errors import InputError
from simulator import Duration, Meter, Recording, Rule, Simulation, load_scenario
from simulator.engine.latency_bins import BINS, bin_of, edges, quantile
from tests.simulator.scenarios import ROSA, one_queue, with_prefetch

GALLERY = Path(__file__).parents[2] / "examples" / "simulator"


@pytest.fixture
def words_in_pictures() -> Iterator[None]:
    """Pictures whose words can be read as text."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        yield


@given(st.floats(0, 2.0**20 - 1))
def test_a_latency_is_in_the_bin_whose_edges_are_around_it(seconds: float) -> None:
    limits = edges()
    place = bin_of(seconds)
    assert limits[place] <= seconds < limits[place + 1]
    assert place == 0 or limits[place + 1] / limits[place] <= 1 + 1 / 32


def test_percentiles_are_within_the_width_of_a_bin() -> None:
    values = np.random.default_rng(1).lognormal(-5, 1.5, 100_000)
    counts = np.bincount([bin_of(value) for value in values], minlength=BINS)
    for share in (0.01, 0.5, 0.9, 0.99, 0.999):
        assert quantile(counts, share) == pytest.approx(np.quantile(values, share), rel=0.02)
    assert math.isnan(quantile(np.zeros(BINS), 0.5))


@pytest.mark.slow
def test_waiting_in_an_m_m_1_queue_has_its_known_distribution() -> None:
    every, work = Duration(0.00125, "exponential"), Duration(0.001, "exponential")
    simulation = Simulation(one_queue(every, work, prefetch=1))
    meter = Meter(simulation)
    simulation.run_until(8000.0)
    queue = meter.read().queues["queue"]
    # P(wait > t) = rho exp(-(mu - lambda) t), rho = 0.8, mu - lambda = 200.
    assert queue.latency.mean == pytest.approx(0.8 / 200, rel=0.02)
    for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p999")):
        expected = math.log(0.8 / (1 - share)) / 200
        assert getattr(queue.latency, name) == pytest.approx(expected, rel=0.05), name
    # Little's law, with no approximation: what waits in the queue waits for its one handler.
    assert queue.mean_length == pytest.approx(queue.publish_rate * queue.latency.mean, rel=1e-3)


def test_a_reading_is_of_the_time_since_the_last() -> None:
    simulation = Simulation(with_prefetch(ROSA, 5))
    meter = Meter(simulation)
    simulation.run_until(10.0)
    first = meter.read()
    simulation.run_until(20.0)
    simulation.set_prefetch("consumer", 10)
    meter.read()
    simulation.run_until(30.0)
    second = meter.read()
    assert (first.time, first.interval, second.time) == (10.0, 10.0, 30.0)
    assert first.consumers["consumer"].arrival_rate == pytest.approx(400, rel=0.01)
    assert second.consumers["consumer"].arrival_rate == pytest.approx(800, rel=0.01)
    assert second.consumers["consumer"].in_flight == pytest.approx(10, rel=0.01)
    # Two handlers of 1.127 ms.
    utilisation = second.consumers["consumer"].utilisation
    assert utilisation == pytest.approx(800 * 0.001127 / 2, rel=0.01)
    queue = second.queues["work"]
    assert queue.publish_rate == pytest.approx(2500, rel=0.01)
    assert queue.drop_rate == pytest.approx(2500 - 800, rel=0.01)
    assert queue.memory == (queue.length + 10) * 256


@pytest.mark.usefixtures("words_in_pictures")
def test_a_recording_goes_to_parquet_tables_and_a_picture(tmp_path: Path) -> None:
    recording = Recording(Simulation(with_prefetch(ROSA, 5)), 2.0)
    recording.run_until(9.0)
    assert [row["time"] for row in recording.rows("queues")] == [2.0, 4.0, 6.0, 8.0]
    assert recording.simulation.now == 9.0
    paths = recording.to_parquet(tmp_path / "run")
    read = {path.stem: pq.read_table(path).to_pylist() for path in paths}
    assert set(read) == {"queues", "consumers", "publishers", "types", "chains", "broker"}
    assert read["consumers"][1]["arrival_rate"] == pytest.approx(400, rel=0.01)
    assert read["types"][-1]["p50"] > 0
    assert read["chains"] == []
    names = [field.name for field in pq.read_schema(tmp_path / "run" / "chains.parquet")]
    assert names == list(read["types"][0])
    text = shown(recording)
    assert "work" in text
    # Two handlers of 1.127 ms with prefetch 5 and 12.5 ms a round: 400 messages/second.
    assert re.search(r"consumer +5 +(399|400)\S* +5 ", text)
    recording.plot(tmp_path / "run.svg")
    recording.plot(tmp_path / "again.svg")
    drawn = (tmp_path / "run.svg").read_text()
    assert "<svg" in drawn
    assert "blocked (%)" not in drawn  # no publisher was
    assert (tmp_path / "again.svg").read_text() == drawn
    with pytest.raises(InputError, match="cannot draw to"):
        recording.plot(tmp_path / "run.nothing")
    with pytest.raises(InputError, match="kind is 'links'"):
        recording.rows("links")


def shown(recording: Recording) -> str:
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(*recording.tables())
    return console.export_text()


def test_a_recording_keeps_no_histograms() -> None:
    recording = Recording(Simulation(with_prefetch(ROSA, 5)), 0.1)
    tracemalloc.start()
    try:
        recording.run_until(10.0)  # the queue is full from 3 s on
        before, _ = tracemalloc.get_traced_memory()
        recording.run_until(20.0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A reading of one queue, type, consumer and group of publishers, and of the broker; the
    # bins of a latency alone have 10 kB.
    assert (after - before) / 100 < 6000


def test_tables_tell_what_a_scenario_has_more_to_say_of() -> None:
    recording = Recording(Simulation(load_scenario(GALLERY / "dead-letter-loop.toml"), 1), 1.0)
    recording.run_until(20.0)
    text = shown(recording)
    for words in ("dead-lettered/s", "rejected/s", "expired/s", "failed"):
        assert words in text
    for words in ("dropped/s", "crashes", "confirmed/s", "cores busy", "what rules did"):
        assert words not in text
    assert re.search(r"retry .* -  ?", text)  # nobody takes messages from it: no latency
    assert "nan" not in text
    assert "type" not in text  # one type a queue

    recording = Recording(Simulation(load_scenario(GALLERY / "fan-out.toml"), 1), 1.0)
    recording.run_until(2.0)
    text = shown(recording)
    for words in ("type", "to five", "4 cores"):
        assert words in text


@pytest.mark.usefixtures("words_in_pictures")
def test_a_picture_shows_blocked_publishers_where_there_are_any(tmp_path: Path) -> None:
    recording = Recording(Simulation(load_scenario(GALLERY / "flow-control.toml"), 1), 5.0)
    recording.run_until(60.0)
    recording.plot(tmp_path / "run.svg")
    assert "blocked (%)" in (tmp_path / "run.svg").read_text()


def test_many_changes_by_rules_are_cut_short() -> None:
    rule = Rule("often", "length", "work", "set-prefetch", "consumer", above=0, value=4.0)
    simulation = Simulation(replace(with_prefetch(ROSA, 5), rules=[rule]))
    recording = Recording(simulation, 10.0)
    recording.run_until(60.0)
    text = shown(recording)
    assert text.count("set-prefetch consumer 4") == 40
    assert f"{len(simulation.changes_by_rules) - 40} more" in text
    assert "what rules did" not in shown(recording)  # since it was last asked
