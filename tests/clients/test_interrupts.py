"""Interrupts are held back for as long as an operation takes, and never for longer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count

import pytest

from controlmq.clients.interrupts import held_interrupts
from controlmq.clients.stopping import Stop, signals
from tests.clients.interrupting import interrupted_at


@pytest.fixture(autouse=True)
def handlers_are_as_before() -> Iterator[None]:
    """Those of Python, whatever other tests of this process have left."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    after = {number: signal.getsignal(number) for number in usual}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == usual


def test_an_interrupt_waits_for_the_end_of_the_operation() -> None:
    done: list[str] = []

    def operate() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        operate()
    assert done


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_end_an_operation_as_they_end_everything_else(second: signal.Signals) -> None:
    stop = Stop()
    done: list[str] = []

    def operate() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGTERM)
            assert not stop.wanted
            signal.raise_signal(second)
            done.append("all of it")

    with signals(stop), pytest.raises(KeyboardInterrupt):
        operate()
    assert not done
    assert stop.wanted


def test_after_a_second_signal_none_is_held_any_more() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with held_interrupts():
            for sent, passed in enumerate((0, 2, 3), start=1):
                signal.raise_signal(signal.SIGTERM)
                assert len(seen) == passed, f"after signal {sent}"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(seen) == 3


def test_an_operation_within_another_lets_nothing_through() -> None:
    done: list[str] = []

    def operate() -> None:
        with held_interrupts():
            with held_interrupts():
                signal.raise_signal(signal.SIGINT)
            done.append("the outer one, too")

    with pytest.raises(KeyboardInterrupt):
        operate()
    assert done


def test_a_handler_that_the_operation_sets_stays() -> None:
    def handler(number: int, frame: object) -> None:
        raise AssertionError(number)

    before = signal.getsignal(signal.SIGTERM)
    with held_interrupts():
        signal.signal(signal.SIGINT, handler)
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.getsignal(signal.SIGTERM) is before
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_interrupt_leaves_a_signal_without_its_handler(
    number: signal.Signals,
) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)

    def operate() -> None:
        with held_interrupts():
            pass

    def held(each: signal.Signals) -> None:
        done: list[str] = []
        with held_interrupts():
            signal.raise_signal(each)
            done.append("all of it")
        raise AssertionError(done)

    try:
        for line in count():
            more = interrupted_at(line, operate, by=number)
            for each in (signal.SIGINT, signal.SIGTERM):
                with pytest.raises(KeyboardInterrupt):
                    signal.raise_signal(each)
                with pytest.raises(KeyboardInterrupt):
                    held(each)
            if not more:
                return
    finally:
        signal.signal(signal.SIGTERM, before)
