"""Goals as users write them: numbers and words, and one sentence for each mistake."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controlmq.cli.main import main
from controlmq.clients.settings import settings_from
from controlmq.consumer.bucket import Bucket
from controlmq.controllers import PI
from controlmq.controllers.resolve import default_tuning
from controlmq.errors import InputError
from controlmq.goals import LEAST_MESSAGES_PER_SECOND, MOST_BURST, Goals, GoalsByQueue
from controlmq.model import ArxModel

MODEL = ArxModel(a=0.1, b=70.0, c=0.0, interval=1.0, linear_range=(0.5, 9.0))


@pytest.mark.parametrize(
    ("given", "per_second"),
    [
        (400, 400.0),
        ("400", 400.0),
        ("400/s", 400.0),
        ("400 / second", 400.0),
        ("5/minute", 5 / 60),
        ("5 per minute", 5 / 60),
        ("3600/hour", 1.0),
        ("1e3/day", 1000 / 86400),
    ],
)
def test_a_rate_is_a_number_or_words(given: float | str, per_second: float) -> None:
    assert Goals(goal=given, at_most=given) == Goals(goal=per_second, at_most=per_second)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(0.1, 0.1), ("0.1", 0.1), ("100 ms", 0.1), ("100ms", 0.1), ("2 minutes", 120.0), ("5 s", 5.0)],
)
def test_a_time_is_a_number_or_words(given: float | str, seconds: float) -> None:
    assert Goals(buffer_time=given).buffer_time == pytest.approx(seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"goal": -1}, "goal is -1; give a number above 0."),
        ({"goal": 0}, "goal is 0; give a number above 0."),
        ({"goal": True}, "goal is True; give a number."),
        ({"goal": Decimal(3)}, "goal is Decimal('3'); give an int or a float."),
        ({"goal": float("nan")}, "goal is nan; give a finite number."),
        ({"at_most": "0/minute"}, "at_most is 0; give a number above 0."),
        ({"at_most": "-5/minute"}, "at_most is -5; give a number above 0."),
        (
            {"at_most": "1e-323/day"},
            "at_most is '1e-323/day'; give at least 1 message in 30 years.",
        ),
        (
            {"buffer_time": "1e308 d"},
            "buffer_time is '1e308 d', which is too large for a number; give less.",
        ),
        (
            {"buffer_time": "1e-320 us"},
            "buffer_time is '1e-320 us', which is too short to tell from 0; give more.",
        ),
        (
            {"goal": "1e308/us"},
            "goal is '1e308/us', which is too large for a number; give less.",
        ),
        ({"goal": 1e-300}, "goal is 1e-300; give at least 1 message in 30 years."),
        (
            {"at_most": "5/fortnight"},
            "at_most is '5/fortnight'; give messages per second, minute, hour or day, "
            "as in '5/minute'.",
        ),
        ({"goal": "many"}, "goal is 'many'; give a number, or a text as in '400/s'."),
        ({"goal": "100 ms"}, "goal is '100 ms'; give a number, or a text as in '400/s'."),
        (
            {"buffer_time": "5 parsecs"},
            "buffer_time is '5 parsecs'; give seconds, or a time such as '100 ms'.",
        ),
        (
            {"buffer_time": "400/s"},
            "buffer_time is '400/s'; give a number, or a text as in '100 ms'.",
        ),
        ({"at_most": 5, "burst": 0.5}, "burst is 0.5; give at least 1 message."),
        ({"at_most": 5, "burst": 1e308}, "burst is 1e+308; give at most 1e+09 messages."),
        (
            {"goal": 5, "burst": 2},
            "burst is for at_most, which is not given; give both, or no burst.",
        ),
        ({"buffer_time": 0}, "buffer_time is 0; give a number above 0."),
        ({"protect": 1}, "protect is 1; give True or False."),
        (
            {"goal": 400, "at_most": "300/s"},
            "goal is 400/s and at_most is 300/s, which never lets the goal be reached; give a "
            "goal up to at_most, or one of the two.",
        ),
    ],
)
def test_a_mistake_gets_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        Goals(**given)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("three", [np.int64(3), np.float32(3), Fraction(3)])
def test_a_goal_may_be_any_real_number(three: Any) -> None:
    goals = Goals(goal=three, at_most=three, burst=three, buffer_time=three)
    assert goals == Goals(goal=3.0, at_most=3.0, burst=3.0, buffer_time=3.0)
    assert type(goals.burst) is float


def test_the_largest_burst_at_the_slowest_rate_is_kept() -> None:
    goals = Goals(at_most=LEAST_MESSAGES_PER_SECOND, burst=MOST_BURST)
    bucket = Bucket(*goals.pace(controlled=False))  # type: ignore[arg-type] # both are there
    bucket.take(0.0)
    assert bucket.ready_at < 0


def test_each_goal_may_be_given_for_each_queue() -> None:
    goals = GoalsByQueue({"goal": {"orders": "60/minute"}, "at_most": 5, "buffer_time": None})
    assert goals.of("orders") == Goals(goal=1.0, at_most=5.0)
    assert goals.of("other") == Goals(at_most=5.0)
    assert GoalsByQueue().of("any") == Goals()


def test_a_mistake_for_one_queue_names_it() -> None:
    with pytest.raises(InputError, match="queue orders: goal is 9/s and at_most is 5/s"):
        GoalsByQueue({"goal": {"orders": 9}, "at_most": 5})


@pytest.mark.parametrize("key", [None, 1, b"orders"])
def test_a_queue_is_named_by_text(key: Any) -> None:
    for given in ({key: 3}, {"orders": 3, key: 3}):
        with pytest.raises(InputError) as refused:
            GoalsByQueue({"at_most": given})
        assert str(refused.value) == (
            f"at_most names the queue {key!r}; give the names of queues as text."
        )


def test_a_burst_is_that_of_the_ceiling() -> None:
    assert Goals(at_most=5, burst=2).pace(controlled=False) == (5.0, 2)
    assert Goals(goal=3, at_most=5, burst=2).pace(controlled=False) == (3.0, 2)
    assert Goals(at_most=5).pace(controlled=False) == (5.0, None)
    goals = GoalsByQueue({"at_most": {"orders": 5}, "burst": 1})
    assert goals.of("orders") == Goals(at_most=5, burst=1)
    assert goals.of("others") == Goals()


def test_a_goal_makes_up_for_a_tenth_of_a_second_or_five_messages() -> None:
    assert Goals(goal=400).pace(controlled=False) == (400.0, 40.0)
    assert Goals(goal=0.5).pace(controlled=False) == (0.5, 5.0)
    assert Goals(goal=0.5).pace(controlled=True) == (None, None)


def test_a_burst_for_a_queue_without_a_ceiling_is_refused() -> None:
    with pytest.raises(InputError, match="queue mail: burst is for at_most, which is not given"):
        GoalsByQueue({"at_most": {"orders": 5}, "burst": {"mail": 2}})
    goals = GoalsByQueue({"at_most": {"orders": 5, "mail": 3}, "burst": {"mail": 2}})
    assert goals.of("mail") == Goals(at_most=3, burst=2)
    assert goals.of("orders") == Goals(at_most=5)


def test_a_model_with_a_goal_is_a_controller_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    MODEL.save(path)
    for model in (MODEL, path, str(path)):
        controller = settings_from(400, model=model).controller
        assert controller is not None
        assert controller.model == MODEL
        law = controller.make()
        assert isinstance(law, PI)
        assert law.gains == default_tuning("pi", MODEL).gains


@pytest.mark.parametrize("given", [{}, {"at_most": 50}, {"prefetch": 20}])
def test_a_model_without_a_goal_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="a model is for holding a goal"):
        settings_from(model=MODEL, **given)


def test_the_command_refuses_a_model_without_a_goal(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--queue", "orders", "--work", "0", "--prefetch", "1", "--model", "m.json"]
    assert main(words) == 2
    assert "needs a goal; give --goal" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"shared": "orders"}, "give at_most and no goal"),
        ({"shared": "orders", "at_most": 100, "goal": 50}, "give at_most and no goal"),
        ({"shared": "", "at_most": 100}, "give a name"),
        ({"shared": "x" * 201, "at_most": 100}, "give a name"),
    ],
)
def test_a_shared_rate_needs_a_name_and_a_rate(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        settings_from(**given)


def test_limits_are_limits() -> None:
    with pytest.raises(
        InputError, match=r"limits is \(1, 50\); give controlmq.Limits\(low, high\)"
    ):
        settings_from(limits=(1, 50))  # type: ignore[arg-type]
