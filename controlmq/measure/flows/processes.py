"""The processes of a run: they subscribe, start together, drain and send their notes."""

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
"""From sending the time of the start to the start."""

ANSWER_WITHIN_SECONDS = 60.0
"""How long a process may take to begin, to subscribe, or to send its notes."""

LOOK_EVERY_SECONDS = 0.1
"""Between two looks at what has not arrived yet."""

PROGRESS_EVERY_SECONDS = 1.0
"""Between two reports of progress; asking rarely disturbs the run little."""

Counts = tuple[Counter[Place], Counter[Place]]
Progress = Callable[[float, Counter[Place], Counter[Place]], None]


def run_flows(
    url: str, plan: Plan, progress: Progress | None = None, *, begin: float = 0.0
) -> Notes:
    """Run a plan on the broker at ``url``.

    It begins when all processes are ready, and not before ``begin`` on the clock of the notes.
    ``progress`` is called with the seconds passed and what was sent and received, as
    :meth:`Notes.counts` returns it; without it busy clients are not asked. Everything is deleted
    afterwards, whatever happens.
    """
    with destinations(url, plan) as waiting, _clients(url, plan) as clients:
        for client in clients:
            client.receive("ready", ANSWER_WITHIN_SECONDS)
        began = max(clock() + START_AFTER_SECONDS, begin)
        _send(clients, "start", began)

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
        _send(clients, "stop")
        return Notes.together(
            began, waiting, [each.receive("notes", ANSWER_WITHIN_SECONDS) for each in clients]
        )


class _Process:
    """A process with some of the locations, and the pipe to it."""

    def __init__(self, name: str, process: Any, pipe: Any) -> None:
        self.name, self.process, self.pipe = name, process, pipe

    def receive(self, word: str, seconds: float) -> Any:
        """The value that comes with ``word``, which must be the next message of the process."""
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
    """Keep Ctrl-C from processes that start inside the block; this process handles it."""
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


def _send(clients: list[_Process], word: str, value: Any = None) -> None:
    for client in clients:
        try:
            client.pipe.send((word, value))
        except OSError:
            client.receive(word, 0.0)  # its last message says why the pipe is closed


def _watch(clients: list[_Process], seconds: float) -> None:
    """Wait; a process that sends something before it is asked has failed."""
    pipes = {client.pipe: client for client in clients}
    for pipe in wait(list(pipes), seconds):
        pipes[pipe].receive("nothing", 0.0)


def _counted(clients: list[_Process]) -> Counts:
    """What all processes have sent and received, asked one after the other."""
    sent: Counter[Place] = Counter()
    received: Counter[Place] = Counter()
    _send(clients, "count")
    for client in clients:
        here, there = client.receive("counts", ANSWER_WITHIN_SECONDS)
        sent.update(here)
        received.update(there)
    return sent, received


def _drain(clients: list[_Process], plan: Plan, look: Callable[[], Counts]) -> None:
    """Until all is sent, and received by everyone addressed, or the time is over.

    Processes are asked one after the other; only two equal answers in a row hold for one instant.
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
