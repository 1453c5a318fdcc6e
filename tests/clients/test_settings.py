"""Settings of a wrapped channel: how long acks may be held where the broker has a timeout."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlmq.clients import settings
from controlmq.clients.settings import settings_from


@pytest.fixture(autouse=True)
def nothing_is_logged_yet() -> Iterator[None]:
    settings._warn_of_long_hold.cache_clear()
    yield
    settings._warn_of_long_hold.cache_clear()


def test_acks_are_held_for_half_of_the_consumers_own_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = settings_from(max_hold=7200.0)
    assert given.within_timeout({"x-consumer-timeout": 3_000}).max_hold == 1.5
    assert given.within_timeout({"x-consumer-timeout": 36_000_000}).max_hold == 7200.0
    assert caplog.records == []


def test_a_hold_longer_than_the_usual_timeout_allows_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = settings_from(max_hold=7200.0)
    for _ in range(2):
        assert given.within_timeout(None).max_hold == 7200.0
    (said,) = [record.getMessage() for record in caplog.records]
    assert all(number in said for number in ("7200 s", "1800 s", "900 s"))


def test_a_hold_that_leaves_time_to_handle_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    settings_from(max_hold=900.0).within_timeout({})
    assert caplog.records == []
