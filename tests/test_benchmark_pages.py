"""Benchmarks say in their tables what was checked, and whether a goal was met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__
from benchmarks import (
    celery_prefetch,
    client_conformance,
    client_cost,
    fault_campaign,
    fleet_bound,
    import_time,
    leader_failures,
    live_page,
    live_peers,
    rolling_restarts,
    soak,
)
from benchmarks.__main__ import unmet
from benchmarks.measure import at_least, at_most, beside, spread, verdict
from simulator.studies.tournament.entries import TABLES
from tests.faults.kinds import BY_NAME
from tests.pages import ROOT


@pytest.mark.parametrize(
    ("results", "missed"),
    [
        ({"soak": {"met": True, "each": [{"met": True}]}, "tuning": {"ratio": 3}}, []),
        ({"soak": {"met": False}}, ["soak"]),
        ({"soak": {"parts": {"classic": {"met": False}}}}, ["soak, parts, classic"]),
        ({"soak": {"each": [{"met": True}, {"met": False}]}}, ["soak, each 1"]),
        (
            {"soak": {"met": {"interaction 1": True, "interaction 2": False}}},
            ["soak: interaction 2"],
        ),
    ],
    ids=str,
)
def test_benchmarks_name_every_result_that_is_not_what_was_wanted(
    results: dict[str, Any], missed: list[str]
) -> None:
    assert list(unmet(results)) == missed


def test_a_benchmark_whose_goal_is_not_met_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "import_time"])
    for met in (True, False):
        monkeypatch.setattr(import_time, "run", lambda met=met: {"met": met})
        assert benchmarks.__main__.main() == int(not met)
    assert "not met: import_time." in capsys.readouterr().err


TRIAL = {"client": "taskiq", "trial": "stall", "duplicates": 0, "bound": 0, "failures": []}
GOAL = {"client": "taskiq", "trial": "rate", "deviation": 0.004, "allowed": 0.01, "failures": []}


def row(table: str, begin: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {begin} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_of_clients_says_in_how_many_trials_the_bound_was_checked() -> None:
    results: list[dict[str, Any]] = [
        {**TRIAL, "queue": "classic"},
        {**TRIAL, "queue": "quorum", "bound_checked": True},
    ]
    assert row(client_conformance.table(results), "taskiq") == ["taskiq", "2", "1 of 2"]


def test_the_table_of_clients_marks_goals_that_the_consumer_judged_itself() -> None:
    sensed = client_conformance.table([GOAL])
    assert row(sensed, "taskiq")[1] == "+0.40 % \\*"
    assert sensed.endswith(client_conformance.SENSED_NOTE)
    stamped = client_conformance.table([{**GOAL, "judged_by": "hand-overs"}])
    assert row(stamped, "taskiq")[1] == "+0.40 %"
    assert client_conformance.SENSED_NOTE not in stamped


def test_a_trial_that_only_raised_is_a_failed_one() -> None:
    result = {"client": "taskiq", "trial": "stall", "failures": ["OSError: no broker"]}
    assert row(client_conformance.table([result]), "taskiq")[1] == "0 of 1"


def test_unchecked_results_are_done_again_where_that_is_asked_for(tmp_path: Any) -> None:
    state = client_conformance.State(tmp_path / "state.jsonl")
    what = {"client": "taskiq", "trial": "stall", "queue": "classic", "broker": "3.10"}
    state.add({**what, "failures": [], "seconds": 1.0})
    assert client_conformance.State(tmp_path / "state.jsonl").has(what)
    assert not client_conformance.State(tmp_path / "state.jsonl", unchecked=True).has(what)
    state.add({**what, "failures": [], "seconds": 1.0, "bound_checked": True})
    assert client_conformance.State(tmp_path / "state.jsonl", unchecked=True).has(what)


def test_the_table_of_costs_has_every_client_and_how_often_it_was_measured() -> None:
    ratios = [0.9, 1.0, 1.2]
    own = {
        "bare_seconds_per_message": spread([1e-4] * 3),
        "controlmq_seconds_per_message": spread([1.1e-4] * 3),
        "ratios": spread(ratios),
    }
    cost = {"microseconds_plain": 550.0, "microseconds_adapted": 560.0, "ratios": ratios}
    found = [
        {"client_cost": {"Dramatiq": own, "met": True}},
        [{"celery": "5.6.3", "cpu, solo": cost}],
    ]
    table = client_cost.table(found)
    ratio = "1.00 (0.90 to 1.20)"
    assert row(table, "Dramatiq") == ["Dramatiq", "100", "110", ratio, "1.05: met", "3"]
    assert row(table, "Celery 5.6.3, solo")[1:] == ["550", "560", ratio, "1.05: met", "3"]
    cost["ratios"] = [1.06, 1.06, 1.06]
    assert row(client_cost.table(found), "Celery 5.6.3, solo")[4] == "1.05: not met"


def test_the_table_of_hoarding_has_a_column_for_each_way() -> None:
    ways = {
        name: {"split": [10 - at, 6 + at], "seconds": 7.5}
        for at, name in enumerate(celery_prefetch.WAYS)
    }
    found = {"celery": "5.6.3", "broker": "4.3.6", "hoarding": {"4": ways}}
    cells = row(celery_prefetch.hoarding_page([found]), "multiplier 4, Celery 5.6.3 on 4.3.6")
    assert cells[1:] == ["10 and 6 in 7.5 s", "9 and 7 in 7.5 s", "8 and 8 in 7.5 s"]
    assert celery_prefetch.hoarding_page([{"celery": "5.6.3", "broker": "4.3.6"}]) == ""


def celery_results(case: str, adapted: Any, kind: str = "classic") -> dict[str, Any]:
    """The results of one case, whose plain worker did something else."""
    return {
        "celery": "5.6.3",
        "broker": "4.3.6",
        kind: {case: {"plain": "a sentence", "adapted": adapted}},
    }


@pytest.mark.parametrize(
    ("case", "good", "bad"),
    [
        ("pool_grow", [4, 12], [4, 4]),
        ("autoscale", [6, 12, 3], [6, 12, 12]),
        ("behind_8", 5.0, 5.1),
        ("native_delay_600", 0.1, float("inf")),
        ("three_queues", 4, 12),
    ],
)
def test_an_adapted_worker_does_what_was_asked_or_not(case: str, good: Any, bad: Any) -> None:
    assert celery_prefetch.met(celery_results(case, good)) == {f"{case}, classic": True}
    for wrong in (bad, "the worker has ended"):
        assert celery_prefetch.met(celery_results(case, wrong)) == {f"{case}, classic": False}
    page = celery_prefetch.page([celery_results(case, good), celery_results(case, bad, "quorum")])
    assert "Of 2 measurements with `adapt(app)`, 1 are as they have to be" in page


def hoarding_ways(*split: int) -> dict[str, Any]:
    return {
        name: {"split": [*split] if name == celery_prefetch.OURS else [12, 4], "seconds": 9.0}
        for name in celery_prefetch.WAYS
    }


@pytest.mark.parametrize(
    ("first", "second", "good"), [(8, 8, True), (9, 7, True), (10, 6, False), (12, 4, False)]
)
def test_nobody_hoards_where_the_second_worker_is_ready(
    first: int, second: int, good: bool
) -> None:
    results = {
        "celery": "5.6.3",
        "broker": "4.3.6",
        "hoarding": {"8": hoarding_ways(first, second), "4, started": hoarding_ways(12, 4)},
    }
    assert celery_prefetch.met(results) == {"hoarding, 8": good}
    page = celery_prefetch.hoarding_page([results])
    assert f"{int(good)} of 1 splits" in page
    assert "| multiplier 4, the second one started then, Celery 5.6.3 on 4.3.6 | 12 and 4" in page


FAULT: dict[str, Any] = {
    "fault": "connection cut",
    "queue": "quorum",
    "broker": "4.3",
    "version": "4.3.6",
    "client": "blocking",
    "commit": "v1",
    "seed": 0,
}
GOOD: dict[str, Any] = {
    **FAULT,
    "handled": 300,
    "lost": 0,
    "requeued": 0,
    "duplicates": 7,
    "bound": 9,
    "pause_seconds": 0.5,
    "failures": [],
}
RAISED: dict[str, Any] = {**FAULT, "seed": 1, "failures": ["OSError: no broker"]}


def test_a_trial_of_the_campaign_without_a_verdict_is_failed_and_in_no_other_column() -> None:
    cells = row(fault_campaign.table([GOOD, RAISED]), "connection cut")
    expected = ["2", "1 (1 without a verdict)", "300", "0", "0", "7 (9)", "0", "0.50, 0.50"]
    assert cells[1:] == expected
    assert row(fault_campaign.table([RAISED]), "connection cut")[1:3] == [
        "1",
        "1 (1 without a verdict)",
    ]


def test_the_page_of_a_campaign_names_faults_that_have_not_run() -> None:
    missing = fault_campaign.table([GOOD]).rpartition("Not run yet: ")[2]
    assert "leader lost" in missing
    assert "connection cut" not in missing
    every = [{**GOOD, "fault": name} for name in BY_NAME]
    assert "Not run yet" not in fault_campaign.table(every)


def test_a_campaign_does_failed_trials_again_where_asked_and_its_page_says_so(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state.jsonl"
    campaign = fault_campaign.Campaign(state)
    campaign.add(GOOD)
    campaign.add(RAISED)
    cell = fault_campaign.Cell("connection cut", "quorum", "4.3")
    assert fault_campaign.Campaign(state).missing([cell], 2) == []
    again = fault_campaign.Campaign(state, again=True)
    assert again.missing([cell], 2) == [(cell, 1)]
    again.add({**GOOD, "seed": 1})
    assert again.missing([cell], 2) == []
    campaign = fault_campaign.Campaign(state)
    page = fault_campaign.table(campaign.results, campaign.repeated)
    assert row(page, "connection cut")[1:3] == ["2", "0"]
    assert page.endswith("- connection cut, quorum, 4.3.6, blocking: OSError: no broker")


def rates(*rates: float, since: float = 0.0) -> list[tuple[float, float]]:
    return [(since + 1 + number, rate) for number, rate in enumerate(rates, start=1)]


@pytest.mark.parametrize(
    ("samples", "until"),
    [
        (rates(200, 200, 200, 200, 200), 6),
        (rates(20, 100, 200, 195, 205, 190, 210), 8),
        (rates(100, 100, 300, 300, 200), None),
        (rates(175, 175, 175, 175, 175), None),
        (rates(200, 200, 200, 200), None),
        (rates(200, 200) + rates(200, 200, 200, since=20.0), None),
        (rates(200, 200) + rates(200, 200, 200, 200, 200, since=20.0), 26),
    ],
    ids=str,
)
def test_a_consumer_is_back_at_its_goal_with_the_last_of_samples_that_are_all_near_it(
    samples: list[tuple[float, float]], until: int | None
) -> None:
    assert leader_failures.samples_until_goal(samples, 0.0) == until


LEADER: dict[str, Any] = {
    "rabbitmq": "3.10.8",
    "goal": 200.0,
    "published": 5000,
    "lost": 0,
    "handled_again": 3,
    "exit_code": 0,
    "samples_until_goal": [12, 30],
    "failures": [
        {"kind": "kill", "consumer_connected_to_it": True, "samples_until_goal": 12},
        {"kind": "stop", "consumer_connected_to_it": True, "samples_until_goal": 30},
    ],
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"lost": 1},
        {"exit_code": 1},
        {"samples_until_goal": [12, 31]},
        {"samples_until_goal": [12, None]},
        {"samples_until_goal": []},
    ],
    ids=str,
)
def test_failures_of_leaders_meet_their_goal_where_all_of_it_holds(wrong: dict[str, Any]) -> None:
    assert leader_failures.met(LEADER)
    assert not leader_failures.met({**LEADER, **wrong})


def test_the_table_of_failed_leaders_has_a_row_for_each_way() -> None:
    never = {"kind": "kill", "consumer_connected_to_it": True, "samples_until_goal": None}
    table = leader_failures.table({**LEADER, "failures": [*LEADER["failures"], never]})
    assert row(table, "killed | the leader's")[2:] == ["2", "12, 12", "1"]
    assert row(table, "stopped | the leader's")[2:] == ["1", "30, 30", "0"]


def test_the_table_of_rolling_restarts_compares_with_bare_pika() -> None:
    ways = {"bare": 0.4, "wrapped": 0.2}
    found = {
        "rabbitmq": "3.10.8",
        "runs": 2,
        "restarts": 50,
        "dropped": dict.fromkeys(ways, 0),
        "handled_twice": dict.fromkeys(ways, 0),
        "mean_returns": ways,
        "mean_returns_by_run": {how: spread([mean, mean + 0.1]) for how, mean in ways.items()},
        "most_returns": {"bare": 4, "wrapped": 2},
        "met": True,
    }
    cells = row(rolling_restarts.table(found), "wrapped, prefetch 20")
    assert cells[1:] == ["0", "0", "0.20 (0.20 to 0.30)", "2"]


SOAK: dict[str, Any] = {
    "rabbitmq": "3.10.8",
    "queue": "classic",
    "messages": 10_000_000,
    "connections": 101,
    "changes": 60_000,
    "lost": 0,
    "requeued": 0,
    "duplicates": 10,
    "duplicates_bound": 2000,
    "memory_first_tenth_mb": 40.0,
    "memory_last_tenth_mb": 41.0,
    "memory_change_percent": 2.5,
    "messages_per_second": 3500.0,
}


@pytest.mark.parametrize(
    "wrong",
    [{"lost": 1}, {"requeued": 1}, {"duplicates": 2001}, {"memory_change_percent": -6.0}],
    ids=str,
)
def test_a_soak_meets_its_goal_where_all_of_it_holds(wrong: dict[str, Any]) -> None:
    assert soak.met(SOAK)
    assert soak.table(SOAK).endswith(": met.")
    assert not soak.met({**SOAK, **wrong})
    assert soak.table({**SOAK, **wrong}).endswith(": not met.")


FLEET: dict[str, Any] = {
    "rabbitmq": "3.10.8",
    "members": 4,
    "rate": 100.0,
    "seconds": 600.0,
    "most_in_1_s": 104,
    "most_in_10_s": 1000,
    "rate_when_all_are_well": {"least": 99.0, "mean": 99.4},
    "slowest_take_over_seconds": 4.6,
    "killed": 17,
    "stopped": 4,
    "added": 17,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"most_in_1_s": 106},
        {"most_in_10_s": 1011},
        {"rate_when_all_are_well": {"least": 96.9, "mean": 99.4}},
        {"slowest_take_over_seconds": 10.1},
    ],
    ids=str,
)
def test_a_fleet_meets_its_goal_where_all_of_it_holds(wrong: dict[str, Any]) -> None:
    assert fleet_bound.met(FLEET)
    assert not fleet_bound.met({**FLEET, **wrong})


def test_the_row_of_a_fleet_says_what_happened_to_it() -> None:
    cells = row(fleet_bound.table(FLEET), "600 s: 17 killed, 4 stopped, 17 added")
    assert cells[1:] == ["104", "1000", "99.4/s, 99.0/s", "4.6 s at most"]


def test_a_part_meets_its_goal_where_every_figure_of_it_does() -> None:
    good = [at_most("lost", 1.2, 1.2), at_least("kept", 99, 99), beside("seen", 7)]
    assert verdict(*good)["met"]
    assert not verdict(*good, at_most("lost", 1.3, 1.2))["met"]
    assert not verdict(*good, at_least("kept", float("nan"), 99))["met"]


def test_the_page_of_goals_has_what_was_asked_and_whether_it_is_met() -> None:
    figures = (
        at_most("lost, %", 1.0649, 1.2),
        at_least("kept, %", 98.04, 99.0),
        beside("ours, theirs", "1; 2"),
    )
    table = live_page.asked({"least": verdict(*figures)})
    assert row(table, "lost, %")[1:] == ["1.065", "at most 1.2", "yes"]
    assert row(table, "kept, %")[1:] == ["98.04", "at least 99", "**no**"]
    assert row(table, "ours, theirs")[1:] == ["1; 2", "", ""]


def test_the_page_of_a_bound_says_which_share_is_judged() -> None:
    run = {
        "burst": 20.0,
        "handlers": "inline",
        "seconds": 300.0,
        "most_allowed": {"1": 420.0},
        "most_handed_over": {"1": 419},
        "most_started": {"1": 421},
        "share_of_bound_and_capacity": 0.984,
        "share_of_bound": 0.964,
        "waiting_mean": 1.14,
    }
    said, table = live_page.bound({"default": {**run, **verdict(at_least("share", 98.4, 98))}})
    assert "Judged is the share of the rate while the network forwards" in said
    columns = row(table, "run")
    assert "asked for: at least 98" in columns[2]
    assert "not judged" in columns[3]
    cells = row(table, "burst 20, inline, 5 min")
    assert cells[1:] == ["419 of 420 (421)", "98.4", "96.4", "1.14", "yes"]


def test_the_page_of_peers_says_which_laws_are_before_ours() -> None:
    costs = {"envoy": 5.0, "least": 5.5, "fixed 1": 90.0}
    rows = [{"law": law, "ours": law == "least", "cost": cost} for law, cost in costs.items()]
    before = live_peers.before_ours(rows)
    assert before == {"envoy": 0.5}
    played = {"columns": {}, "rows": rows, "before_ours": before}
    assert live_page.others({"least": played})[-1] == "**Before ours: envoy by 0.50.**"
    played["before_ours"] = {}
    assert live_page.others({"least": played})[-1] == "No law is before ours."


def test_the_page_of_goals_has_the_peers_that_are_measured() -> None:
    page = (ROOT / "docs/goals.md").read_text(encoding="utf-8")
    section = page.partition("<!-- live_peers: begin -->")[2]
    section = section.partition("<!-- live_peers: end -->")[0]
    for table, laws in live_peers.TABLES.items():
        part = section.partition(f"### {live_page.TITLES[table]}\n")[2].partition("###")[0]
        names = [line.split("|")[1].strip(" *") for line in part.splitlines() if "|" in line]
        assert sorted(names[2:]) == sorted(laws), table


@pytest.mark.parametrize(
    ("table", "title"),
    [
        ("rate", "A rate to hold"),
        ("at_most", "A ceiling"),
        ("buffer_time", "A time in the buffer"),
        ("least", "The least prefetch that loses no throughput"),
    ],
)
def test_peers_on_a_real_broker_are_the_strongest_of_the_tournament(table: str, title: str) -> None:
    page = (ROOT / "docs/tournament.md").read_text(encoding="utf-8")
    rows = page.partition(f"## {title}\n")[2].partition("\n## ")[0].splitlines()
    sources = {entry.source for entry in TABLES[table]} - {"controlmq", "users"}
    best: dict[str, str] = {}
    for line in rows:
        name, source = ([cell.strip() for cell in line.split("|")] + ["", ""])[1:3]
        if source in sources:
            best.setdefault(name.partition(" (")[0], name)
    strongest = set(list(best.values())[:3])
    assert strongest
    peers = set(live_peers.TABLES[table]) - {
        table.replace("_", " "),
        "goal",
        "sleep in the handler",
    }
    assert peers - set(live_peers.FIXED) == strongest
