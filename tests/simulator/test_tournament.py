"""The tournament: every law plays, peers are tuned, and the page says who won."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from controlmq.cli.main import main
from controlmq.experiments.tournament import NOTES, tuning, verdict
from controlmq.loop import Controller, Sample
from simulator.studies.tournament import METRICS, TABLES, Trial, peers, run_trial
from simulator.studies.tournament.entries import find
from simulator.studies.tournament.plan import HELD_OUT_DRAW, NAMED, Plan, best_variants, table_of
from simulator.studies.tournament.plants import DRAWN, Phase, TrialConsumer, named_ceilings
from simulator.studies.tournament.trials import by_phase, judge, mean_at_least
from simulator.studies.tournament.vector import LAWS, SERVICES, in_flight

PLAN = Plan(tuning=1, held_out=2, seeds=1, messages=500)


@pytest.mark.parametrize("table", TABLES)
def test_every_law_plays(table: str) -> None:
    (drawn,) = PLAN.plants(table, 1, 5)
    plant = replace(drawn, phases=tuple(replace(each, samples=15) for each in drawn.phases))
    for entry in TABLES[table]:
        found = run_trial(Trial(table, entry.name, plant, 1))
        assert found.keys() == METRICS[table].keys(), entry.name


def test_phases_that_a_sleep_makes_alike_stay_apart() -> None:
    """Work of 1 and of 2 ms both become 1/300 s below a ceiling of 300/s."""
    (plant,) = [each for each in named_ceilings(10) if each.name == "work x2 and back"]
    found = run_trial(Trial("at_most", "sleep in the handler", plant, 1))
    assert found.keys() == METRICS["at_most"].keys()


def test_a_sleep_makes_up_for_quick_messages_only() -> None:
    """Against the mean of draws: work of 2 ms in the mean, and at least 3 ms a message."""
    draw = random.Random(1)
    sd = math.sqrt(math.log1p(0.5**2))
    taken = [
        max(draw.lognormvariate(math.log(0.002) - sd**2 / 2, sd), 0.003) for _ in range(100_000)
    ]
    spread = TrialConsumer("spread", (), "lognormal", 0.5)
    assert mean_at_least(spread, 0.002, 0.003) == pytest.approx(statistics.fmean(taken), rel=0.01)
    taken = [max(draw.expovariate(1 / 0.002), 0.003) for _ in range(100_000)]
    random_work = TrialConsumer("random", (), "exponential")
    assert mean_at_least(random_work, 0.002, 0.003) == pytest.approx(
        statistics.fmean(taken), rel=0.01
    )
    assert mean_at_least(TrialConsumer("steady", ()), 0.002, 0.003) == 0.003


def test_no_law_is_to_blame_for_the_first_sample() -> None:
    phase = Phase(3, 0.01, 0.001, goal=100.0)
    rates = [Sample(k, float(k), 1.0, 1.0, rate) for k, rate in enumerate((250, 120, 90))]
    assert judge("at_most", [(phase, rates)], [1000.0])["over"] == pytest.approx(20.0)


def drawn_trials(plan: Plan) -> list[Trial]:
    """Those of the least prefetch on plants drawn at random."""
    return [trial for trial in plan.trials("least", {}) if trial.plant.name.startswith(DRAWN)]


def test_ours_leads_where_it_is_tried() -> None:
    trials = [trial for trial in drawn_trials(PLAN) if trial.entry in ("least", "fixed 10")]
    rows = table_of("least", trials, [run_trial(trial) for trial in trials])
    assert [row.entry.name for row in rows] == ["least", "fixed 10"]


VERDICTS = {
    "Ours wins: least, before fixed 10 (users), by 2.00": ((3.0, 3.0, 3.0), (0.0, 0.0)),
    "Ours is first: least, before fixed 10 (users), by 0.67": ((1.0, 3.0, 1.0), (9.0, 9.0)),
    "**Ours is not first**: fixed 10 (users) is before least, by 0.50": (
        (0.5, 0.5, 0.5),
        (9.0, 9.0),
    ),
}
"""Costs of the peer on three drawn plants, where ours costs 1, and on two named ones, where it
costs 5."""


@pytest.mark.parametrize("said", VERDICTS)
def test_plants_that_no_law_was_tried_on_decide_who_wins(said: str) -> None:
    on_drawn, on_named = VERDICTS[said]
    names = [*(f"{DRAWN} 1.{k}" for k in range(3)), "stairs", "jitter"]
    plants = [TrialConsumer(name, ()) for name in names]
    costs = {"least": (1.0,) * 3 + (5.0,) * 2, "fixed 10": on_drawn + on_named}
    trials = [Trial("least", law, plant, 1) for law in costs for plant in plants]
    found = [{"lost": each, "buffered": 0.0} for law in costs.values() for each in law]
    sentence, *others = verdict("least", table_of("least", trials, found)).split(". ")
    assert sentence.startswith(said)
    assert "over the 3 plants drawn at random" in sentence
    assert sentence.endswith("that may be chance") == said.startswith("Ours is first")
    assert others[0].startswith("Over all 5 plants ")


@pytest.mark.parametrize("table", NOTES)
def test_notes_that_every_run_prints_name_no_plant_of_one_run(table: str) -> None:
    assert not [plant.name for plant in NAMED[table]() if f"*{plant.name}*" in NOTES[table]]


def test_seeds_of_one_plant_are_one_observation() -> None:
    """Intervals by Student's t over plants: 1 and 3, whose half-width is 12.71 times 1."""
    plan = Plan(tuning=1, held_out=2, seeds=2, messages=500)
    trials = [trial for trial in drawn_trials(plan) if trial.entry == "least"]
    found = [{"lost": lost, "buffered": 0.0} for lost in (0.5, 1.5, 2.0, 4.0)]
    (row,) = table_of("least", trials, found)
    assert [metrics["lost"] for metrics in row.by_plant.values()] == [1.0, 3.0]
    assert row.cost == row.means["lost"]
    assert row.cost.mean == 2.0
    assert row.cost.high - row.cost.mean == pytest.approx(12.7062, abs=1e-4)


def test_light_tuning_takes_the_variant_with_the_lowest_cost() -> None:
    trials = list(PLAN.tuning_trials("buffer_time"))
    found = [{"error": float(k), "lost": 0.0} for k in range(len(trials), 0, -1)]
    best = best_variants(trials, found)
    assert best == {"codel": {"interval_samples": 0.3}, "hpa": {"tolerance": 0.02}}


@pytest.mark.parametrize("name", ["pi, published poles", "pid, published poles"])
def test_published_laws_are_tuned_by_the_poles_that_they_are_given(name: str) -> None:
    """On a quiet consumer each placement starts on its own way, and all end at the goal."""
    plant = TrialConsumer("quiet", (Phase(30, 0.0115, 0.001, goal=400.0),))
    ways = []
    for chosen in find("rate", name).variants:
        (samples,) = (samples for _, samples in by_phase(plant, find_law(name, plant, chosen), 1))
        ways.append([sample.rate for sample in samples])
    assert len(ways) == 3
    assert len({tuple(way[:8]) for way in ways}) == 3
    assert [way[-1] for way in ways] == pytest.approx([400.0] * 3, rel=0.02)


def find_law(name: str, plant: TrialConsumer, chosen: Mapping[str, float]) -> Controller:
    """A fresh law of the table of rates, as light tuning makes it."""
    return find("rate", name).make(plant, **chosen)


def test_a_peer_may_go_as_far_as_ours_where_tuning_chooses_so() -> None:
    assert {"most": 1000.0} in find("rate", "hpa").variants
    assert peers.hpa()(sample(80.0, 100), 400.0) == 100.0
    assert peers.hpa(most=1000.0)(sample(80.0, 100), 400.0) == 320.0
    assert "whole prefetches from 1 to 100" in tuning(Plan())
    assert "any from 0.1 to 1,000" in tuning(Plan())


def test_the_plan_knows_by_how_many_trials_a_law_is_tuned() -> None:
    plan = Plan(tuning=3)
    for table, entries in TABLES.items():
        trials = [trial.entry for trial in plan.tuning_trials(table)]
        assert {entry.name: plan.tuned_with(entry) for entry in entries} == {
            entry.name: trials.count(entry.name) for entry in entries
        }
        assert not any(plan.tuned_with(entry) for entry in entries if entry.ours)


ROOT = Path(__file__).parents[2]


def test_the_plants_of_the_page_are_those_that_are_played_without_a_seed() -> None:
    page = (ROOT / "docs/tournament.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"controlmq tournament --plants .*", page)
    assert f"--draw {HELD_OUT_DRAW} " in command


def test_only_the_plants_of_the_page_are_said_to_be_new_to_all_laws() -> None:
    assert "no law had been tried on them" in tuning(Plan())
    assert "is not known" in tuning(Plan(draw=HELD_OUT_DRAW + 1))


def sample(
    prefetch: float,
    rate: int,
    time: float = 0.1,
    *,
    waited: float = 0.0,
    busy: float = 1.0,
    number: int = 1,
) -> Sample:
    return Sample(
        number,
        float(number),
        1.0,
        prefetch,
        rate,
        handler_time=time,
        buffer_time=waited,
        busy=busy,
    )


Played = Sequence[tuple[Sample, float]]
"""Samples, and the prefetch that is expected after each."""

PEERS: dict[str, tuple[Controller, float, Played]] = {
    # 200/s is below the goal, 450/s above it.
    "on-off": (peers.on_off(), 400, [(sample(10, 200), 100), (sample(100, 450), 1)]),
    # 150/s are out of the band of 100/s, 50/s within it.
    "on-off, dead zone": (
        peers.on_off_dead_zone(),
        400,
        [(sample(10, 350), 10), (sample(10, 250), 100), (sample(100, 550), 1)],
    ),
    # 50/s above the goal are within the band, so the side stays.
    "on-off, hysteresis": (
        peers.on_off_hysteresis(),
        400,
        [(sample(10, 450), 100), (sample(100, 550), 1), (sample(1, 350), 1)],
    ),
    # Errors of 2,000 and 1,000: -3.2 + 0.006 * 2,000 = 8.8; -1.6 + 0.006 * 3,000 = 16.4.
    "pid": (peers.pid(), 2500, [(sample(10, 500), 9), (sample(9, 1500), 16)]),
    # 8.8; then 50/s are within 100/s: the output stays, and the sum becomes 2,050; then
    # -0.0016 * 1,000 + 0.006 * 3,050 = 16.7.
    "dead-zone pid": (
        peers.pid(dead=100.0),
        2500,
        [(sample(10, 500), 9), (sample(9, 2450), 9), (sample(9, 1500), 17)],
    ),
    # -0.0016 * (0.5 * 2,500 - 500) + 0.006 * 2,000 = 10.8.
    "setpoint-weighted": (peers.pid(weight=0.5), 2500, [(sample(10, 500), 11)]),
    # The derivative is 0.5 * 2,000 = 1,000, and then 500 - 0.5 * 1,000 = 0:
    # -3.2 + 12 + 0.005 * 1,000 = 13.8, and 16.4.
    "smoothed derivative": (
        peers.pid(kd=0.005, smooth=0.5),
        2500,
        [(sample(10, 500), 14), (sample(14, 1500), 16)],
    ),
    # Errors of 200/s and 300/s, whose sizes count in hundreds:
    # 2 * (-0.32 + 0.006 * 200) = 1.76; 3 * (-0.48 + 0.006 * 500) = 7.56.
    "error squared, full": (
        peers.error_squared_full(),
        400,
        [(sample(10, 200), 2), (sample(2, 100), 8)],
    ),
    # 20 * -3.2 + 12 is below the least prefetch; 2 * -0.32 + 0.006 * 2,200 = 12.56.
    "error squared, proportional": (
        peers.error_squared_proportional(),
        2500,
        [(sample(10, 500), 1), (sample(1, 2300), 13)],
    ),
    # 10 + (0.006 - 0.0016) * 2,000 = 18.8; 18.8 + 0.0016 * 1,000 + 0.006 * 1,000 = 26.4.
    "incremental": (peers.incremental(), 2500, [(sample(10, 500), 19), (sample(19, 1500), 26)]),
    # 2,000/s are above 625/s: 10 + 2 * 8.8 = 27.6.
    "gain scheduling": (peers.gain_scheduled(), 2500, [(sample(10, 500), 28)]),
    "hpa": (peers.hpa(), 400, [(sample(10, 200), 20), (sample(20, 0), 20)]),
    # Below 360/s: rising from 0 means one more, no longer rising twice as much. Above 440/s:
    # rising means half as much, falling one less; the half of 22 less one is 10.
    "astar": (
        peers.astar(),
        400,
        [
            (sample(10, 200), 11),
            (sample(11, 200), 22),
            (sample(22, 500), 11),
            (sample(11, 450), 10),
            (sample(10, 420), 10),
        ],
    ),
    # 1,100/s are six tenths of the way from 500 to 1,500, which stand for 1 and 2; 1,500/s too
    # many stand for -2, and whatever is above 3,000/s for -3.
    "fuzzy": (
        peers.fuzzy(),
        2000,
        [(sample(10, 900), 12), (sample(12, 3500), 10), (sample(10, 6000), 7)],
    ),
    # 400/s while busy for half of the time, and no estimate yet: 10 * 300 / 200. Then it is
    # 300/s - 0.2 * 0.5 * 300/s, as the next test has it.
    "spark": (
        peers.spark_rate(),
        300,
        [(sample(10, 200, busy=0.5), 15), (sample(15, 300, waited=0.5, number=2), 13.5)],
    ),
    # 0.1 s and 1.1 s: one more, and nine tenths of 25 without the rest; of 3 at least one less.
    "aimd": (
        peers.aimd(),
        1,
        [(sample(10, 200, 0.1), 11), (sample(25, 20, 1.1), 22), (sample(3, 3, 1.1), 2)],
    ),
    # The first sample sets W0 to 0.1 s. A queue of 0: 40 + 2 * 3. One of ceil(50 * 0.03) = 2: 51.
    # One of ceil(50 * 0.01 / 0.11) = 5: it stays. One of 60 * 0.5, above 6: 59. The last uses 2 of
    # its 60.
    "vegas": (
        peers.vegas(),
        1,
        [
            (sample(40, 400, 0.1), 40),
            (sample(40, 400, 0.1), 46),
            (sample(50, 480, 0.1 / 0.97), 51),
            (sample(50, 450, 0.11), 50),
            (sample(60, 300, 0.2), 59),
            (sample(60, 10, 0.2), 60),
        ],
    ),
    # 10 + 0.2 * 4 = 10.8, which is 11. The mean of 0.1 and 0.4 s is 0.25 s: 1.5 * 0.25 / 0.4 is
    # 0.9375, so 0.8 * 10.8 + 0.2 * (0.9375 * 10.8 + 4) = 11.465.
    "gradient2": (
        peers.gradient2(),
        1,
        [(sample(10, 100, 0.1), 11), (sample(11, 25, 0.4), 11), (sample(11, 100, 0.1), 12)],
    ),
    # The gradient is 1.25 at first: 12.5 + sqrt(12.5) = 16.04. Then 1.25 * 0.1 / 0.2 = 0.625:
    # 10 + sqrt(10) = 13.2.
    "envoy": (peers.envoy(), 1, [(sample(10, 200, 0.1), 16), (sample(16, 80, 0.2), 13)]),
    "fixed": (peers.fixed(10.0), 1, [(sample(3, 200), 10)]),
    # 20 ms are below 50 ms. Cuts of 1, sqrt(2) and sqrt(3) then: 19, 19 - 1.41, 18 - 1.73.
    "codel": (
        peers.codel(),
        0.05,
        [
            (sample(19, 200, waited=0.02), 20),
            (sample(20, 200, waited=0.06), 19),
            (sample(19, 200, waited=0.06), 18),
            (sample(18, 200, waited=0.06), 16),
        ],
    ),
    # 20 * 50 / 40; at most half at once; within a tenth of the goal it stays.
    "hpa on time": (
        peers.hpa_on_time(),
        0.05,
        [
            (sample(20, 200, waited=0.04), 25),
            (sample(24, 200, waited=0.5), 12),
            (sample(12, 200, waited=0.052), 12),
        ],
    ),
}


@pytest.mark.parametrize("name", PEERS)
def test_peers_are_their_formulas(name: str) -> None:
    """Each value is computed by hand from the published formula; the comments have the steps."""
    law, goal, played = PEERS[name]
    assert [law(seen, goal) for seen, _ in played] == [expected for _, expected in played]


def test_every_peer_is_among_them() -> None:
    laws = {entry.name for table in TABLES.values() for entry in table if not entry.ours}
    published = {name for name in laws if name == "p" or name.endswith("published poles")}
    users = {name for name in laws if name.startswith("fixed ")} | {"sleep in the handler"}
    assert laws - published - users <= PEERS.keys()


def test_incremental_laws_keep_the_fraction_that_rounding_takes_from_the_prefetch() -> None:
    law = peers.incremental()
    # 10 - 0.0016 * 50 + 0.006 * 50 = 10.22, then 0.3 more with each sample that stays there.
    assert [law(sample(10, 350, 0.1), 400) for _ in range(3)] == [10, 11, 11]
    assert law(sample(11, 400, 0.1), 400) == 11  # 10.82 + 0.0016 * 50 = 10.9


def test_gain_scheduling_has_one_last_error_for_both_gains() -> None:
    law = peers.gain_scheduled()
    # 250/s is above a quarter of the goal: 10 + 2 * (-0.0016 * 250 + 0.006 * 250) = 12.2.
    assert law(sample(10, 150, 0.1), 400) == 12
    # 50/s is not, and the error fell by 200/s: 12.2 + 0.0016 * 200 + 0.006 * 50 = 12.82. With a
    # last error of its own it would be 12.2 - 0.0016 * 50 + 0.006 * 50 = 12.42.
    assert law(sample(12, 350, 0.1), 400) == 13
    # 200/s is, and the error grew by 150/s: 12.82 + 2 * (-0.0016 * 150 + 0.006 * 200) = 14.74.
    assert law(sample(13, 200, 0.1), 400) == 15


SPARK_VARIANTS = {
    # The batches: 400/s processed, then 300/s processed after 0.5 s of waiting, so the error is
    # 100/s and what waits 150/s: 400 - 100 - 0.2 * 150 = 270/s.
    (): 15 * 270 / 300,
    # 400 - 0.5 * 100 - 0.2 * 150 = 320/s, above the goal.
    (("proportional", 0.5),): 15.0,
    # 400 - 100 - 150 = 150/s.
    (("integral", 1.0),): 7.5,
    # The error has grown by 100/s in a second: 400 - 100 - 30 - 0.1 * 100 = 260/s.
    (("derivative", 0.1),): 13.0,
    (("least", 280.0),): 14.0,
}


@pytest.mark.parametrize("chosen", SPARK_VARIANTS)
def test_spark_takes_the_lower_of_its_estimate_and_the_goal(
    chosen: tuple[tuple[str, float], ...],
) -> None:
    law = peers.spark_rate(**dict(chosen))
    first = Sample(1, 1.0, 1.0, 10.0, 200, busy=0.5)
    assert law(first, 300.0) == 15.0  # no estimate yet: 10 * 300 / 200
    second = Sample(2, 2.0, 1.0, 15.0, 300, busy=1.0, buffer_time=0.5)
    assert law(second, 300.0) == pytest.approx(SPARK_VARIANTS[chosen])


def test_spark_waits_for_a_batch_that_has_messages() -> None:
    law = peers.spark_rate()
    assert law(Sample(1, 1.0, 1.0, 10.0, 0, busy=0.0), 300.0) == 10.0
    assert law(Sample(2, 2.0, 1.0, 10.0, 200, busy=0.5), 300.0) == 15.0


def test_the_service_of_vector_slows_down_as_its_tests_say() -> None:
    """Their formula: 1 + scale (n - 1) + knee_exp^(n - knee_start) - 1 times the delay."""
    found = {service.name: service.factor(12) for service in SERVICES}
    assert found["shallow-knee"] == pytest.approx(1.1**2)
    assert found["slow-link"] == pytest.approx(12.0)
    assert found["constant-link"] == 1.0


@pytest.mark.parametrize("name", ["shallow-knee", "slow-link", "jittery-link-small"])
def test_protection_is_within_the_bands_of_vector(name: str) -> None:
    (service,) = [each for each in SERVICES if each.name == name]
    low, high = service.band
    assert low <= in_flight(service, LAWS["protect"]()) <= high


@pytest.mark.spark
@pytest.mark.slow
def test_the_page_comes_from_one_command(tmp_path: Path) -> None:
    words = ["--plants", "2", "--tuning", "1", "--seeds", "1", "--messages", "200"]
    assert main(["tournament", *words, "--out", str(tmp_path / "out"), "--json"]) == 0
    page = (tmp_path / "out" / "tournament.md").read_text()
    for table in TABLES:
        assert f"tournament-{table}.svg" in page
        assert (tmp_path / "out" / f"tournament-{table}.svg").stat().st_size > 1000
    verdicts = ("Ours wins", "Ours is first", "Ours is not first")
    assert sum(map(page.count, verdicts)) == len(TABLES)
