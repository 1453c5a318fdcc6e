"""A run: processes that subscribe, start together, drain and tell what they noted."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any

from controlmq.clients.interrupts import held_interrupts
from controlmq.errors import ControlmqError
from controlmq.measure.flows.client import Client
from controlmq.measure.flows.destinations import destinations
from controlmq.measure.flows.notes import Notes, Place, clock
from controlmq.measure.flows.plan import Plan

START_AFTER_SECONDS = 0.1
"""Seconds from telling everybody when to start to the start."""

ANSWER_WITHIN_SECONDS = 60.0
"""Seconds for a process to begin, to subscribe, or to tell its notes."""

LOOK_EVERY_SECONDS = 0.1
"""Seconds between looks at what is still on its way."""

PROGRESS_EVERY_SECONDS = 1.0
"""Seconds between two words of how far a run is; a rare look disturbs it little."""

Counts = tuple[Counter[Place], Counter[Place]]
Progress = Callable[[float, Counter[Place], Counter[Place]], None]


def run_flows(
    url: str,
    plan: Plan,
    progress: Progress | None = None,
    *,
    begin: float = 0.0,
) -> Notes:
    """Run a plan on the broker at ``url``.

    It begins when everybody is ready, and not before ``begin`` on the clock of the notes.
    ``progress`` hears how many seconds have passed and, as :meth:`Notes.counts` has it, what was
    sent and received; only then are clients asked while they are busy. Everything is deleted
    afterwards, whatever happens.
    """
    with destinations(url, plan) as waiting, _clients(url, plan) as clients:
        for client in clients:
            client.hear("ready", ANSWER_WITHIN_SECONDS)
        began = max(clock() + START_AFTER_SECONDS, begin)
        _tell(clients, "start", began)

        def look() -> Counts:
            counts = _counted(clients)
            if progress is not None:
                progress(max(clock() - began, 0.0), *counts)
            return counts

        while (left := began + plan.seconds - clock()) > 0:
            _watch(clients, min(left, PROGRESS_EVERY_SECONDS))
            if progress is not None:
                look()
        _drain(clients, plan, look)
        _tell(clients, "stop")
        return Notes.together(
            began, waiting, [each.hear("notes", ANSWER_WITHIN_SECONDS) for each in clients]
        )


class _Process:
    """A process with some of the locations, and the pipe to it."""

    def __init__(self, name: str, process: Any, pipe: Any) -> None:
        self.name, self.process, self.pipe = name, process, pipe

    def hear(self, word: str, seconds: float) -> Any:
        """What the process says when it says ``word``, which must be next."""
        if not self.pipe.poll(seconds):
            raise ControlmqError(
                f"the process of {self.name} says nothing for {seconds:g} seconds; is the broker "
                "blocked by an alarm, or busy?"
            )
        try:
            said, value = self.pipe.recv()
        except (EOFError, OSError):
            raise ControlmqError(f"the process of {self.name} died; start again.") from None
        if said == "failed":
            raise ControlmqError(f"{value}; is the broker still there? Start again.")
        assert said == word, said
        return value


@contextmanager
def _clients(url: str, plan: Plan) -> Iterator[list[_Process]]:
    spawn = multiprocessing.get_context("spawn")
    # The first process would start it, and it lets interrupts through.
    resource_tracker.ensure_running()
    clients = []
    try:
        for name, locations in plan.processes.items():
            ours, theirs = spawn.Pipe()
            order = (theirs, url, plan, locations)
            process = spawn.Process(target=_serve, args=order, daemon=True, name=name)
            clients.append(_Process(name, process, ours))
            with held_interrupts(), _no_interrupt():
                process.start()
            theirs.close()
        yield clients
    finally:
        for client in clients:
            if client.process.pid is not None:
                client.process.terminate()
                client.process.join()
            client.pipe.close()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """A process begun meanwhile never hears of Ctrl-C, which is for the one that measures."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Any, url: str, plan: Plan, locations: Any) -> None:
    """What a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Client(url, plan, locations, pipe).run()


def _tell(clients: list[_Process], word: str, value: Any = None) -> None:
    for client in clients:
        try:
            client.pipe.send((word, value))
        except OSError:
            client.hear(word, 0.0)  # its last words say why it cannot be told any more


def _watch(clients: list[_Process], seconds: float) -> None:
    """Wait, unless a process has something to say: it can only be that it failed."""
    pipes = {client.pipe: client for client in clients}
    for pipe in wait(list(pipes), seconds):
        pipes[pipe].hear("nothing", 0.0)


def _counted(clients: list[_Process]) -> Counts:
    """What everybody has sent and received, asked one after the other."""
    sent: Counter[Place] = Counter()
    received: Counter[Place] = Counter()
    _tell(clients, "count")
    for client in clients:
        here, there = client.hear("counts", ANSWER_WITHIN_SECONDS)
        sent.update(here)
        received.update(there)
    return sent, received


def _drain(clients: list[_Process], plan: Plan, look: Callable[[], Counts]) -> None:
    """Until all is sent, and received by everyone addressed, or the time is over.

    Processes are asked one after the other; only two equal answers are one of an instant.
    """
    end = clock() + plan.drain
    planned = plan.planned
    before = None
    while clock() < end:
        now = sent, received = look()
        all_sent = all(sent[place] == count for place, count in planned.items())
        if now == before and all_sent and _everything_came(sent, received, plan):
            return
        before = now
        _watch(clients, LOOK_EVERY_SECONDS)


def _everything_came(sent: Counter[Place], received: Counter[Place], plan: Plan) -> bool:
    came: Counter[str] = Counter()
    for (queue, _), count in received.items():
        came[queue] += count
    return all(
        came[queue] == sum(sent[place] for place in places)
        for queue, places in plan.addressed.items()
    )
