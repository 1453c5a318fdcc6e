"""What a run shows while it runs."""

from __future__ import annotations

import json

import pytest

from controlmq.cli import specjms_progress as watching
from controlmq.cli.main import main
from simulator import Duration, Simulation
from simulator.studies.specjms import Phases, Topology, run, vertical, workload
from simulator.studies.specjms.progress import Progress, noted_progress, simulated_progress
from simulator.studies.specjms.report import progress_table
from tests.simulator.specjms.published import SHORT

QUICK = ["specjms", "--warm-up", "2", "--duration", "5", "--drain", "2", "--interactions", "3"]


@pytest.mark.parametrize("time", [0.0, 30.0, 100.0, 700.0, 1100.0, 1150.0])
def test_what_is_expected_so_far_is_what_drivers_plan(time: float) -> None:
    phases = Phases(warm_up=100.0, measurement=1000.0, drain=50.0)
    starts = sum(start <= time for start in phases.times(Duration(0.05), "any"))
    assert 20 * phases.at_full_rate(time) == pytest.approx(starts, abs=1)


def test_a_simulated_run_counts_what_is_expected_at_any_time() -> None:
    built = workload(vertical(45), SHORT)
    looks: list[Progress] = []
    done = run(built, watch=lambda simulation: looks.append(simulated_progress(built, simulation)))
    assert [look.time for look in looks] == [float(second) for second in range(1, 33)]
    for look in looks:
        for number in built.drivers:
            # Two drivers at most are out of step by one start each, and few messages on their way.
            drivers = len(built.drivers[number])
            counted, wanted = look.counted(number), look.expected(number)
            assert counted[0] == pytest.approx(wanted[0], abs=drivers)
            assert counted == pytest.approx(wanted, abs=10 * drivers)
    begin, end = looks[1], looks[21]
    assert (begin.time, end.time) == (SHORT.warm_up, SHORT.end)
    for number in built.drivers:
        before, after = begin.counted(number), end.counted(number)
        assert after[0] - before[0] == done.started[number]
        assert (after[1] - before[1], after[2] - before[2]) == done.counted(number)


def test_looking_does_not_change_a_run() -> None:
    built = workload(vertical(45), Phases(1.0, 3.0, 1.0))
    watched, alone = Simulation(built.scenario, seed=1), Simulation(built.scenario, seed=1)
    run(built, simulation=watched, watch=lambda simulation: None)
    alone.run_until(5.0)
    assert watched.state.latencies.tobytes() == alone.state.latencies.tobytes()


def test_what_live_clients_count_is_summed_up_by_interaction() -> None:
    orders = Topology("orders", 2, 1, 1, 1, 1, 1.0, (1.0, 0, 0, 0, 0, 0, 0))
    built = workload(orders, Phases(warm_up=1.0, measurement=20.0, drain=1.0))
    sent = {
        ("order@SM1", "DC1.order"): 5,
        ("order@SM2", "DC1.order"): 4,
        ("orderConf", "SM1.orderConf"): 5,
    }
    received = {("DC1.order", "order@SM1"): 5, ("DC1.order", "order@SM2"): 3}
    progress = noted_progress(built, 5.5, sent, received)
    assert progress.counted(1) == (9, 14, 8)
    assert progress.expected(1) == pytest.approx((10.0, 60.0, 60.0))
    assert str(progress_table(progress).title).endswith("6 of 21 s, measurement")


def test_a_terminal_shows_the_table_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(watching, "REDRAW_EVERY_SECONDS", 0.0)
    assert main([*QUICK, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["passed"]
    for phase in ("1 of 7 s, warm-up", "4 of 7 s, measurement", "7 of 7 s, drain"):
        assert phase in said.err
    assert "expected" in said.err


def test_ctrl_c_takes_the_table_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)

    def interrupted(watch: watching.Watch, progress: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.Watch, "look", interrupted)
    assert main(QUICK) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("stopped.\n")
    assert said.err.rindex("\x1b[?25h") > said.err.rindex("\x1b[?25l")  # the cursor is back
