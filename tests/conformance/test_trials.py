"""What a trial allows to be handled twice when a connection is lost."""

from __future__ import annotations

from tests.conformance.drivers import BY_NAME, Driver
from tests.conformance.trials import OTHERS, handled_again, without_own_losses
from tests.faults.judging import Verdict
from tests.faults.record import Line

PREFORK = BY_NAME["Celery prefork"]
THREADS = BY_NAME["Celery threads"]


def handled(count: int, until: float) -> list[Line]:
    """That many messages, one after another, the last at ``until``."""
    lines = []
    for number in range(count):
        when = until - 0.005 * (count - number - 1)
        lines += [Line(when, "begun", number=number), Line(when, "handled", number=number)]
    return lines


def test_what_was_running_may_be_handled_again() -> None:
    lines = [*handled(50, 10.0), Line(10.1, "begun", number=50), Line(10.2, "lost")]
    assert handled_again(lines, 1, THREADS) == []
    assert handled_again(lines, 2, THREADS) == ["2 handled twice, and at most 1 were running"]


def test_each_process_of_a_pool_has_one_message_at_most_that_it_has_not_reported() -> None:
    lines = [*handled(100, 10.0), Line(10.1, "begun", number=100), Line(10.2, "lost")]
    assert handled_again(lines, PREFORK.handlers, PREFORK) == []
    assert handled_again(lines, PREFORK.handlers + 1, PREFORK) != []


def test_what_was_reported_long_before_is_not_allowed_for() -> None:
    lines = [*handled(100, 8.0), Line(10.0, "lost")]
    assert handled_again(lines, 0, PREFORK) == []
    assert handled_again(lines, 1, PREFORK) != []


def test_a_message_may_wait_behind_a_task_that_runs_through_two_losses() -> None:
    lines = [
        Line(10.0, "begun", number=7),
        Line(11.0, "lost"),
        Line(12.0, "lost"),
        Line(12.3, "late", number=7),
        Line(12.4, "begun", number=7),
        Line(12.5, "late", number=7),
        Line(12.6, "begun", number=7),
        Line(12.7, "handled", number=7),
    ]
    assert handled_again(lines, 2, PREFORK) == []
    assert handled_again(lines, 3, PREFORK) == ["3 handled twice, and at most 2 were running"]
    assert handled_again(lines, 2, THREADS) == ["2 handled twice, and at most 1 were running"]


def test_handlers_that_only_the_window_limits_all_count() -> None:
    begun = [Line(10.0, "begun", number=number) for number in range(18)]
    assert handled_again([*begun, Line(10.2, "lost")], 18, BY_NAME["aio-pika callbacks"]) == []


def test_a_kill_alone_may_lose_what_early_acks_have_promised() -> None:
    early = BY_NAME["Celery prefork, early acks"]
    trials = {trial.name: trial for trial in OTHERS}

    def lost(count: int, trial: str, driver: Driver = early) -> int:
        verdict = Verdict(400, count, 0, 0, 0, 0, 0.0)
        return without_own_losses(verdict, trials[trial], driver).lost

    assert lost(early.handlers, "kill -9") == 0
    assert lost(early.handlers + 1, "kill -9") == early.handlers + 1
    assert lost(1, "connection cut") == 1
    assert lost(1, "kill -9", PREFORK) == 1
