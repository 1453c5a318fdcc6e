"""``controlmq run`` as a service: it stops, reconnects and fails, and loses nothing handled."""

from __future__ import annotations

import json
import signal
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controlmq.clients.pika import dispatching
from controlmq.clients.pika.service import Service
from controlmq.clients.pika.wrap import wrap
from controlmq.clients.stopping import Stop
from controlmq.controllers import Limits
from controlmq.errors import ControlmqError
from controlmq.loop import Sample, Step
from tests.live.handled import assert_empty, left_in
from tests.live.processes import Notes, command, ended, running, wait_for
from tests.testbed import Broker, wait_until
from tests.testbed.node import free_ports
from tests.testbed.proxy import proxied
from tests.testbed.publishing import (
    DeclareQueue,
    QueueKind,
    connected,
    declare_queue,
    fill,
    process_until,
)

NOWHERE = "amqp://guest:guest@127.0.0.1:1/%2F"


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path)


# Stopping


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_no_handled_message_goes_back_when_a_pool_stops(
    broker: Broker, queue_name: str, notes: Notes, asked: signal.Signals
) -> None:
    fill(broker.parameters, queue_name, 400)
    words = ["run", "--queue", queue_name, "--prefetch", "8", "--workers", "8"]
    handler = notes.handler("time.sleep(0.1 + 0.03 * (int(body) % 8))")
    with running(
        command(*words, "--handler", handler, url=broker.url, cwd=notes.folder)
    ) as process:
        wait_for(process, lambda: len(notes.handled) >= 16, "some are handled")
        code, errors = ended(process, asked)
    assert code == 0, errors
    assert sorted(notes.begun) == sorted(notes.handled)
    assert sorted(notes.handled + left_in(broker, queue_name)) == list(range(400))


@pytest.mark.parametrize("workers", ["1", "3"])
def test_heartbeats_go_on_while_long_handlers_finish(
    broker: Broker, queue_name: str, notes: Notes, workers: str
) -> None:
    fill(broker.parameters, queue_name, 20)
    words = ["run", "--queue", queue_name, "--prefetch", workers, "--workers", workers]
    # The broker closes a connection that is silent for two heartbeats.
    url, handler = f"{broker.url}?heartbeat=1", notes.handler("time.sleep(5)")
    with running(command(*words, "--handler", handler, url=url, cwd=notes.folder)) as process:
        wait_for(process, lambda: len(notes.begun) == int(workers), "handlers are at work")
        code, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert sorted(notes.handled) == sorted(notes.begun)
    assert sorted(notes.handled + left_in(broker, queue_name)) == list(range(20))


def test_a_handler_longer_than_the_heartbeat_keeps_its_connection(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    fill(broker.parameters, queue_name, 2)
    words = ["run", "--queue", queue_name, "--prefetch", "1"]
    url, handler = f"{broker.url}?heartbeat=1", notes.handler("time.sleep(5)")
    with running(command(*words, "--handler", handler, url=url, cwd=notes.folder)) as process:
        wait_for(process, lambda: len(notes.handled) == 2, "both are handled")
        code, errors = ended(process, signal.SIGTERM)
    assert (code, errors) == (0, "")
    assert notes.handled == [0, 1]
    assert_empty(broker, queue_name)


def test_no_ack_outlives_its_time_while_a_handler_works_long(
    broker: Broker, queue_name: str
) -> None:
    fill(broker.parameters, queue_name, 25)
    stop = Stop()

    def handle(body: bytes, properties: Any) -> None:
        if int(body) == 24:
            broker.management.wait_for_queue(
                queue_name, lambda view: view.messages_unacknowledged == 1, "no ack is held"
            )
            stop.ask()

    service = Service(
        [broker.url],
        queue_name,
        handle,
        stop=stop,
        prefetch=3,
        limits=Limits(1, 20),
        window="single",
        max_hold=1,
        interval=60,
    )
    service.run()
    assert_empty(broker, queue_name)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_is_not_finished_within_the_grace_goes_back_and_the_exit_code_says_so(
    broker: Broker, queue_name: str, notes: Notes, workers: str
) -> None:
    fill(broker.parameters, queue_name, 5)
    words = ["run", "--queue", queue_name, "--prefetch", workers, "--workers", workers]
    words += ["--grace", "0.5", "--handler", notes.handler("time.sleep(1000)")]
    with running(command(*words, url=broker.url, cwd=notes.folder)) as process:
        wait_for(process, lambda: len(notes.begun) == int(workers), "handlers are at work")
        code, errors = ended(process, signal.SIGTERM)
    assert code == 75
    assert f"{workers} of the handlers were still at work after 0.5 s" in errors
    assert "Traceback" not in errors
    assert sorted(left_in(broker, queue_name)) == list(range(5))


def test_a_stop_does_not_wait_for_ever_for_a_broker_that_does_not_answer(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    fill(broker.parameters, queue_name, 50)
    words = ["run", "--queue", queue_name, "--prefetch", "3", "--grace", "0.5"]
    with broker.proxied() as proxy:
        url = f"{proxied(broker.url, proxy)}?heartbeat=0"
        handler = notes.handler("time.sleep(0.01)")
        with running(command(*words, "--handler", handler, url=url, cwd=notes.folder)) as process:
            wait_for(process, lambda: len(notes.handled) >= 10, "some are handled")
            proxy.stall()
            code, errors = ended(process, signal.SIGTERM)
    assert (code, "did not answer within 5.5 s" in errors) == (75, True), errors
    assert set(notes.handled) | set(left_in(broker, queue_name)) == set(range(50))


def test_a_stop_does_not_wait_for_ever_for_a_subscription_that_is_not_answered(
    broker: Broker, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, ended_by = Stop(), list[Exception]()

    def stalled(*_: Any) -> None:
        proxy.stall()
        stop.ask()

    def run() -> None:
        try:
            service.run()
        except ControlmqError as error:
            ended_by.append(error)

    with broker.proxied() as proxy:
        monkeypatch.setattr("controlmq.clients.pika.service.check_queue", stalled)
        url = f"{proxied(broker.url, proxy)}?heartbeat=0"
        service = Service([url], queue_name, print, stop=stop, grace=0, prefetch=1)
        threading.Thread(target=run, daemon=True).start()
        wait_until(lambda: ended_by, "it gives the connection up")
    assert "did not answer within 5 s" in str(ended_by[0])


def test_handlers_finish_when_it_stops_while_it_connects_again(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    fill(broker.parameters, queue_name, 1)
    (port,) = free_ports(1)
    words = ["run", "--queue", queue_name, "--prefetch", "1", "--health-port", str(port)]
    words += ["--handler", notes.handler("while not (folder / 'go').exists(): time.sleep(0.01)")]
    with broker.proxied() as proxy:
        url = proxied(broker.url, proxy)
        with running(command(*words, url=url, cwd=notes.folder)) as process:
            wait_for(process, lambda: notes.begun, "a handler is at work")
            proxy.close()
            wait_for(process, lambda: "connect" in answer(port), "the broker is missed")
            process.send_signal(signal.SIGTERM)
            wait_for(process, lambda: answer(port) == "stopping", "it is stopping")
            (notes.folder / "go").touch()
            code, errors = ended(process)
    assert (code, notes.handled) == (0, [0]), errors


def answer(port: int) -> str:
    """What the health port says."""
    found = answer_of(port)
    return found[1] if found is not None else ""


def test_a_second_signal_ends_it_at_once(broker: Broker, queue_name: str, notes: Notes) -> None:
    fill(broker.parameters, queue_name, 5)
    words = ["run", "--queue", queue_name, "--prefetch", "1"]
    words += ["--grace", "1000", "--handler", notes.handler("time.sleep(1000)")]
    with running(command(*words, url=broker.url, cwd=notes.folder)) as process:
        wait_for(process, lambda: notes.begun, "a handler is at work")
        broker.management.wait_for_queue(
            queue_name, lambda view: bool(view.consumers), "its consumer is known"
        )
        process.send_signal(signal.SIGTERM)
        broker.management.wait_for_queue(
            queue_name, lambda view: not view.consumers, "its consumer is cancelled"
        )
        code, errors = ended(process, signal.SIGTERM)
    assert (code, errors) == (130, "controlmq: stopped.\n")
    assert sorted(left_in(broker, queue_name)) == list(range(5))


# Connecting again


def test_the_first_url_that_answers_is_used(broker: Broker, queue_name: str, notes: Notes) -> None:
    fill(broker.parameters, queue_name, 10)
    words = ["run", "--queue", queue_name, "--prefetch", "2", "--handler", notes.handler()]
    urls = f"{NOWHERE} {broker.url}"
    with running(command(*words, url=urls, cwd=notes.folder)) as process:
        wait_for(process, lambda: len(notes.handled) == 10, "all are handled")
        assert ended(process, signal.SIGTERM)[0] == 0
    assert_empty(broker, queue_name)


def test_a_lost_connection_is_made_again(broker: Broker, queue_name: str, notes: Notes) -> None:
    fill(broker.parameters, queue_name, 600)
    words = ["run", "--queue", queue_name, "--prefetch", "5", "--workers", "5"]
    words += ["--handler", notes.handler("time.sleep(0.01)")]
    with broker.proxied() as proxy:
        urls = f"{NOWHERE} {proxied(broker.url, proxy)}"
        with running(command(*words, url=urls, cwd=notes.folder)) as process:
            for handled in (100, 200, 300):
                wait_for(process, lambda: len(notes.handled) > handled, "messages are handled")  # noqa: B023
                proxy.cut()
            wait_for(process, lambda: len(set(notes.handled)) == 600, "all are handled")
            code, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert errors.count("connected again, to amqp://127.0.0.1") == 3
    assert len(notes.handled) - 600 <= 3 * 5
    assert_empty(broker, queue_name)


def test_a_restarted_broker_is_found_again(disposable_broker: Broker, notes: Notes) -> None:
    broker = disposable_broker
    queue = declare_queue(broker.parameters)
    words = ["run", "--queue", queue, "--prefetch", "5", "--handler", notes.handler()]
    with running(command(*words, url=broker.url, cwd=notes.folder)) as process:
        fill(broker.parameters, queue, 50)
        wait_for(process, lambda: len(notes.handled) == 50, "all are handled")
        broker.stop()
        broker.restart()
        fill(broker.parameters, queue, 50, first=50)
        wait_for(process, lambda: len(set(notes.handled)) == 100, "those after it too")
        code, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert "trying again in" in errors
    assert_empty(broker, queue)


def test_a_queue_that_was_deleted_is_consumed_once_it_is_back(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    words = ["run", "--queue", queue_name, "--prefetch", "5", "--handler", notes.handler()]
    with running(command(*words, url=broker.url, cwd=notes.folder)) as process:
        fill(broker.parameters, queue_name, 50)
        wait_for(process, lambda: len(notes.handled) == 50, "all are handled")
        with connected(broker.parameters) as connection:
            channel = connection.channel()
            channel.queue_delete(queue_name)
            channel.queue_declare(queue_name, durable=True)
        fill(broker.parameters, queue_name, 50, first=50)
        wait_for(process, lambda: len(notes.handled) == 100, "those after it too")
        code, errors = ended(process, signal.SIGTERM)
    assert (code, "cancelled the consumer" in errors) == (0, True), errors


def test_after_a_refused_lane_there_is_a_single_subscription(
    broker: Broker, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    if broker.version < (4, 0):
        pytest.skip("RabbitMQ 3.10 has no limit of consumers per channel")
    broker = request.getfixturevalue("disposable_broker")
    queue = declare_queue(broker.parameters)
    fill(broker.parameters, queue, 400)
    limit = "application:set_env(rabbit, consumer_max_per_channel, 1)."
    broker.control("rabbitmqctl", "eval", limit)
    handled, stop, steps = Counter[int](), Stop(), list[Step]()
    service = Service(
        [broker.url],
        queue,
        lambda body, properties: handled.update([int(body)]),
        stop=stop,
        workers=3,
        goal=100,
        controller=lambda sample, goal: 2 + sample.number % 5,
        limits=Limits(1, 10),
        prefetch=2,
        interval=0.05,
        on_step=steps.append,
    )
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        wait_until(lambda: len(handled) == 400 and len(steps) > 20, "all are handled")
    finally:
        stop.ask()
        thread.join()
    assert_empty(broker, queue)
    assert sum("allows no further consumer" in each.message for each in caplog.records) == 1
    assert sum("trying again" in each.message for each in caplog.records) == 1
    assert max(step.prefetch for step in steps[-10:]) == 6


class Remembering:
    """A controller that asks for another prefetch at every sample, by what it remembers."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, sample: Sample, goal: float) -> float:
        self.calls += 1
        return 3 + 0.25 * (self.calls % 8)


def test_prefetch_and_controller_go_on_where_they_were(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 20_000)
    controller, stop, steps = Remembering(), Stop(), list[Step]()
    with broker.proxied() as proxy:
        service = Service(
            [proxied(broker.url, proxy)],
            queue_name,
            lambda body, properties: None,
            stop=stop,
            goal=100,
            controller=controller,
            prefetch=1,
            interval=0.1,
            on_step=steps.append,
        )
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            wait_until(lambda: len(steps) >= 5, "it has begun")
            proxy.cut()
            wait_until(lambda: len(steps) >= 15, "it goes on")
        finally:
            stop.ask()
            thread.join()
    again = [number for number, step in enumerate(steps) if step.sample.number == 1]
    assert len(again) == 2
    second = again[1]
    assert steps[0].sample.prefetch == 1
    assert steps[second].sample.prefetch == steps[second - 1].prefetch
    assert [step.prefetch for step in steps] == [
        3 + 0.25 * (call % 8) for call in range(1, len(steps) + 1)
    ]


# Handlers that fail


def dead_lettering(broker: Broker, queue: str) -> str:
    """Declare the queue again with a dead-letter queue behind it, whose name is returned."""
    dead = f"{queue}-dead"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    with connected(broker.parameters) as connection:
        channel = connection.channel()
        channel.queue_delete(queue)
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_declare(dead, durable=True, arguments={"x-expires": 600_000})
    return dead


def run_with_poison(broker: Broker, queue: str, notes: Notes, on_error: str, work: str) -> str:
    """Handle 20 messages in a service until each is handled or dead; what it logged."""
    dead = dead_lettering(broker, queue)
    fill(broker.parameters, queue, 20)
    words = ["run", "--queue", queue, "--prefetch", "4", "--on-error", on_error]
    words += ["--handler", notes.handler(work)]

    def over() -> bool:
        view = broker.management.queue(dead)
        return view is not None and len(set(notes.handled)) + view.messages_ready == 20

    with running(command(*words, url=broker.url, cwd=notes.folder)) as process:
        wait_for(process, over, "each is handled or dead")
        code, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert_empty(broker, queue)
    assert sorted(notes.handled + left_in(broker, dead)) == list(range(20))
    return errors


POISON = "assert int(body) != 7, 'no such order'"


def test_a_rejected_message_goes_to_the_dead_letter_exchange(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    errors = run_with_poison(broker, queue_name, notes, "reject", POISON)
    assert Counter(notes.begun)[7] == 1
    assert "no such order" in errors


def test_a_poison_message_is_tried_for_a_while_and_then_rejected(
    broker: Broker, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "REQUEUE_PAUSES_SECONDS", (0.02, 0.1))
    monkeypatch.setattr(dispatching, "LEAST_SECONDS_OF_ALL_TRIES", 0.3)
    dead = dead_lettering(broker, queue_name)
    fill(broker.parameters, queue_name, 20)
    begun: list[int] = []
    stop = Stop()

    def handle(body: bytes, properties: Any) -> None:
        begun.append(int(body))
        assert int(body) != 7, "no such order"

    service = Service(
        [broker.url], queue_name, handle, stop=stop, prefetch=4, workers=2, on_error="requeue"
    )
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        broker.management.wait_for_queue(dead, lambda view: view.messages_ready == 1, "7 is dead")
        wait_until(lambda: len(set(begun)) == 20, "the others went on")
    finally:
        stop.ask()
        thread.join()
    assert Counter(begun) == Counter(range(20)) + Counter({7: dispatching.MOST_TRIES - 1})
    assert_empty(broker, queue_name)
    assert left_in(broker, dead) == [7]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_others_are_handled_while_a_poison_message_waits_to_be_tried_again(
    broker: Broker, queue: DeclareQueue, kind: QueueKind
) -> None:
    name = queue(kind)
    fill(broker.parameters, name, 100)
    stop, handled, begun = Stop(), list[int](), list[int]()

    def handle(body: bytes, properties: Any) -> None:
        begun.append(int(body))
        assert int(body) != 7, "no such order"
        handled.append(int(body))

    service = Service([broker.url], name, handle, stop=stop, prefetch=1, on_error="requeue")
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        wait_until(lambda: len(handled) == 99, "all others are handled")
        wait_until(lambda: begun.count(7) >= 3, "it is tried again")
    finally:
        stop.ask()
        thread.join()
    assert sorted(handled) == [number for number in range(100) if number != 7]
    assert left_in(broker, name) == [7]


def test_nothing_is_rejected_while_what_is_behind_the_handler_is_away_for_a_while(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    away = "assert (folder / 'begun').stat().st_size > 16, 'the database is away'"
    errors = run_with_poison(broker, queue_name, notes, "requeue", away)
    assert sorted(notes.handled) == list(range(20))
    assert f"try 2 of {dispatching.MOST_TRIES}" in errors
    assert "dead-letter exchange" not in errors


def test_a_message_that_fails_once_is_handled_the_second_time(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    once = (
        "assert int(body) % 5 or (folder / 'begun').read_text().split().count(str(int(body))) > 1"
    )
    run_with_poison(broker, queue_name, notes, "requeue", once)
    assert sorted(notes.handled) == list(range(20))


# Health


def answer_of(port: int) -> tuple[int, str] | None:
    """What the health port says; None where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()
    except OSError:
        return None


def test_the_health_file_and_port_say_whether_it_consumes(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    file, (port,) = notes.folder / "healthy", free_ports(1)
    words = ["run", "--queue", queue_name, "--prefetch", "2", "--handler", notes.handler()]
    words += ["--health-file", str(file), "--health-port", str(port)]

    def healthy() -> bool:
        return answer_of(port) == (200, "ok") and file.exists()

    def troubled() -> bool:
        answer = answer_of(port)
        return answer is not None and answer[0] == 503 and not file.exists()

    with broker.proxied() as proxy:
        url = f"{proxied(broker.url, proxy)}?heartbeat=1"
        with running(command(*words, url=url, cwd=notes.folder)) as process:
            wait_for(process, healthy, "it is healthy")
            written = file.stat().st_mtime_ns
            wait_for(process, lambda: file.stat().st_mtime_ns > written, "the file is kept young")
            proxy.stall()
            wait_for(process, troubled, "the broker is missed")
            proxy.resume()
            wait_for(process, healthy, "it is healthy again")
            code, errors = ended(process, signal.SIGTERM)
    assert code == 0, errors
    assert not file.exists()
    assert answer_of(port) is None


@pytest.mark.parametrize(
    "words", [["--health-file", "/nowhere/healthy"], ["--health-port", "99999"]]
)
def test_health_that_cannot_be_told_is_refused(
    broker: Broker, queue_name: str, words: list[str]
) -> None:
    process = command(
        "run", "--queue", queue_name, "--prefetch", "1", "--work", "0", *words, url=broker.url
    )
    code, errors = ended(process)
    assert (code, len(errors.splitlines())) == (2, 1), errors
    assert words[1] in errors


# The kill switch


def test_a_file_turns_every_consumer_to_a_fixed_prefetch_and_back(
    broker: Broker, queue_name: str, notes: Notes
) -> None:
    fill(broker.parameters, queue_name, 20_000)
    switch = notes.folder / "off"
    words = ["run", "--queue", queue_name, "--goal", "200", "--interval", "0.1", "--json"]
    words += ["--work", "0.002", "--prefetch", "2"]
    process = command(*words, url=broker.url, CONTROLMQ_OFF_FILE=str(switch))
    lines: list[dict[str, Any]] = []

    def read_until(condition: Callable[[dict[str, Any]], bool], times: int) -> None:
        met = 0
        while met < times:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate()
            lines.append(json.loads(line))
            met = met + 1 if condition(lines[-1]) else 0

    with running(process):
        read_until(lambda line: line["prefetch"] != 2, 3)
        switch.write_text("9")
        read_until(lambda line: line["prefetch"] == 9 == line["next_prefetch"], 5)
        broker.management.wait_for_queue(
            queue_name, lambda view: view.prefetch == 9, "the broker sees prefetch 9"
        )
        read_until(lambda line: line["held"] == 0, 3)
        switch.unlink()
        # Not where it goes: a law that has arrived changes nothing for long.
        read_until(lambda line: line["next_prefetch"] != 9, 2)
        code, errors = ended(process, signal.SIGTERM)
    assert code == 0
    assert errors.splitlines() == [
        f"{switch} is set: consumers keep prefetch 9 and do not adapt",
        f"{switch} was removed: consumers adapt again",
    ]


def test_a_fixed_prefetch_comes_back_too(
    broker: Broker, queue_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.parameters, queue_name, 1000)
    switch = tmp_path / "off"
    monkeypatch.setenv("CONTROLMQ_OFF_FILE", str(switch))
    with connected(broker.parameters) as connection:
        channel = wrap(connection.channel(), prefetch=5, interval=0.05)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)

        tag = channel.basic_consume(queue_name, on_message)
        consumer = channel.adaptive_consumers[tag]
        switch.write_text("9")
        process_until(connection, lambda: consumer.prefetch == 9, "it is off")
        switch.write_text("3")
        process_until(connection, lambda: consumer.prefetch == 3, "it is off otherwise")
        switch.unlink()
        process_until(connection, lambda: consumer.prefetch == 5, "it is as it was")


def test_a_variable_starts_consumers_as_plain_ones(broker: Broker, queue_name: str) -> None:
    fill(broker.parameters, queue_name, 5_000)
    words = ["run", "--queue", queue_name, "--goal", "200", "--interval", "0.1", "--json"]
    with running(command(*words, "--work", "0.001", url=broker.url, CONTROLMQ_OFF="7")) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(10)]
        view = broker.management.wait_for_queue(
            queue_name, lambda view: bool(view.consumers), "it is subscribed"
        )
        code, errors = ended(process, signal.SIGTERM)
    assert code == 0
    assert [consumer.prefetch for consumer in view.consumers] == [7]
    assert {(line["prefetch"], line["next_prefetch"], line["held"]) for line in lines} == {
        (7, 7, 0)
    }
    assert "CONTROLMQ_OFF is set: consumers keep prefetch 7 and do not adapt" in errors
