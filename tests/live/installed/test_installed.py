"""The wheel in an empty environment, without the source in sight.

What an extra brings is linked from the environment of the tests; `make try-extras` installs each
of them for real and runs its commands.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlmq.cli.main import COMMANDS
from controlmq.extras import EXTRAS
from tests.live.handled import assert_empty
from tests.live.installed.environment import (
    PACKAGES,
    ROOT,
    Environment,
    brought_by,
    built,
    with_wheel,
)
from tests.testbed import Broker, Proxy
from tests.testbed.management import wait_until
from tests.testbed.node import free_ports
from tests.testbed.proxy import proxied
from tests.testbed.publishing import fill

pytestmark = pytest.mark.slow

WITHOUT_EXTRAS = {
    "demo": ("", "identification,simulation,design,reports"),
    "run": ("--queue q --work 0.1 --goal 5 --trace t", "recording"),
    "top": ("--once 1", ""),
    "collect": ("--queue q --work 0.1 --levels 1 10 --trace t", "recording,reports"),
    "ingest": ("samples.csv --out t", "identification"),
    "identify": ("t", "identification"),
    "design": ("--a 0.1 --b 50", "design"),
    "simulate": ("--levels 1 10", "simulation"),
    "tune": ("rosa --goal 400 --out tuned", "identification,simulation,reports"),
    "tournament": ("--out t", "identification,simulation,reports"),
    "schedule": ("t --out schedule.json", "identification"),
    "follow": ("t --out models", "identification"),
    "load": ("--queue q --rate 10", "reports"),
    "calibrate": ("", "simulation"),
    "specjms": ("", "simulation"),
}
"""Arguments for each command, and the extras it asks for in an environment that has none."""

ENTRIES = {
    "import simulator": "simulation",
    "import identification": "identification",
    "from identification.session import session": "identification",
    "from controlmq.clients.aio_pika import adapt": "aio-pika",
    "from controlmq.experiments.drawing import svg": "reports",
    "import controlmq; controlmq.TraceWriter('traces')": "recording",
    "import controlmq; controlmq.read_transitions('traces')": "recording",
    "import controlmq; controlmq.serve_metrics(9999)": "metrics",
    "import controlmq; controlmq.expose_metrics()": "metrics",
    "from controlmq.observe.otel import export_metrics; export_metrics()": "opentelemetry",
    "from controlmq import ArxModel, design_controller; "
    "design_controller(ArxModel(0.1, 50.0, 0.0, 1.0, (0.0, 10.0)))": "design",
}
"""What a program may call, and the extra that it needs."""

WITH_EXTRA = {
    "recording": """
from controlmq import TraceWriter, Transition, read_transitions
with TraceWriter("recorded") as write:
    write(Transition("group", "trace", 0, 1.0, 1.0, 2.0, 100.0, 110.0, True))
assert read_transitions("recorded").num_rows == 1
""",
    "design": "import sys; from controlmq.cli.main import main; "
    "sys.exit(main(['design', '--a', '0.1', '--b', '50']))",
    "identification": "from identification import identify; from identification import session, "
    "continuous, diagnosis, ingest, parallel; import controlmq.cli.output as o; o.console()",
    "simulation": "from simulator import load_scenario; load_scenario('rosa-noisy'); "
    "import simulator.studies.specjms; import controlmq.cli.output as o; o.console()",
    "reports": "from controlmq.experiments.drawing import one_plot, svg; svg(one_plot(2, 2)[0]); "
    "import controlmq.cli.output as o; o.console()",
    "metrics": "import controlmq; controlmq.expose_metrics(); controlmq.serve_metrics(0)",
    "opentelemetry": "from controlmq.observe.otel import export_metrics; export_metrics()",
    "aio-pika": "from controlmq.clients.aio_pika import adapt, adaptive; adaptive(goal=5)",
    "celery": "from celery import Celery; from controlmq.clients.celery import adapt; "
    "adapt(Celery(broker='amqp://localhost'), at_most=5)",
    "dramatiq": "from controlmq.clients.dramatiq import AdaptiveRabbitmqBroker as Broker; "
    "Broker(url='amqp://localhost', at_most=5)",
    "faststream": "from faststream.rabbit import RabbitBroker; "
    "from controlmq.clients.faststream import adapt; adapt(RabbitBroker(), at_most=5)",
    "taskiq": "from taskiq_aio_pika import AioPikaBroker; from controlmq.clients.aio_pika import "
    "adaptive; AioPikaBroker('amqp://localhost', connection_class=adaptive(at_most=5))",
}
"""A program for each extra that uses all it brings, short of what needs Java or a compiler."""


@dataclass(frozen=True)
class Release:
    wheel: Path
    archive: Path
    environment: Environment


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("release")
    wheel, archive = built(folder / "dist")
    return Release(wheel, archive, with_wheel(wheel, folder))


def test_the_wheel_has_the_packages_and_nothing_else(release: Release) -> None:
    sources = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(release.wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    assert names == sources
    kinds = {Path(name).suffix for name in names}
    assert kinds >= {".css", ".html", ".js", ".json", ".py", ".toml", ".typed", ".yml"}


def test_the_source_archive_has_what_tests_and_documentation_need(release: Release) -> None:
    with tarfile.open(release.archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    assert names >= {
        *("pyproject.toml", "constraints.txt", "Makefile", "LICENSE", "CHANGELOG.md"),
        *("docs/README.md", "examples/blocking.py", "tests/conftest.py", "tools/need"),
    }
    assert not any("__pycache__" in name or name.startswith(".") for name in names)


def test_the_base_brings_pika_alone(release: Release) -> None:
    environment = release.environment
    listed = json.loads(environment.run("-m", "pip", "list", "--format", "json").stdout)
    names = {each["name"] for each in listed} - {"pip", "setuptools", "wheel"}
    assert names == {"controlmq", "pika"}
    code = "import controlmq; print(controlmq.__version__, controlmq.__file__)"
    done = environment.run("-I", "-W", "error", "-c", code)
    version, file = done.stdout.split()
    assert version in release.wheel.name
    assert Path(file).is_relative_to(environment.folder)
    said = environment.command("--version").stdout
    assert said == f"controlmq {version}\n"


def test_there_are_arguments_for_every_command() -> None:
    names = [command.__name__.rpartition(".")[2] for command in COMMANDS]
    assert sorted(WITHOUT_EXTRAS) == sorted(names)


@pytest.mark.parametrize("command", WITHOUT_EXTRAS)
def test_a_command_without_its_extras_names_them(release: Release, command: str) -> None:
    words, extras = WITHOUT_EXTRAS[command]
    done = release.environment.command(command, *words.split())
    assert done.returncode != 0
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("controlmq: ")
    if extras:
        assert sentence.endswith(f"run: pip install 'controlmq[{extras}]'")
    else:
        assert "pip install" not in sentence
    assert release.environment.command(command, "--help").returncode == 0


@pytest.mark.parametrize("option", ["--metrics-port 9999", "--trace t"])
def test_an_option_without_its_extra_names_it(release: Release, option: str) -> None:
    done = release.environment.command("run", "--queue=q", "--work=0.1", *option.split())
    (sentence,) = done.stderr.splitlines()
    extra = "metrics" if "metrics" in option else "recording"
    assert sentence.endswith(f"run: pip install 'controlmq[{extra}]'")


def test_an_entry_without_its_extra_names_it(release: Release) -> None:
    code = f"""
import json
from controlmq.errors import ControlmqError
said = {{}}
for entry in {[*ENTRIES]!r}:
    try:
        exec(entry)
    except ControlmqError as error:
        said[entry] = str(error)
print(json.dumps(said))
"""
    done = release.environment.run("-I", "-c", code)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for entry, extra in ENTRIES.items():
        assert said[entry].endswith(f"; run: pip install 'controlmq[{extra}]'"), entry
        assert len(said[entry].splitlines()) == 1


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_is_used_of_it(release: Release, extra: str, tmp_path: Path) -> None:
    beside = brought_by(extra, release.wheel, tmp_path / "brought")
    modules = "; ".join(f"import {module}" for module in EXTRAS[extra])
    done = release.environment.run("-c", f"{modules}\n{WITH_EXTRA[extra]}", beside=beside)
    assert done.returncode == 0, done.stderr[-3000:]


BLOCKING = """
import controlmq, pika
channel = pika.BlockingConnection(pika.URLParameters({url!r})).channel()
controlmq.wrap(channel, {goal})
def on_message(channel, method, properties, body):
    channel.basic_ack(method.delivery_tag)
    channel.stop_consuming()
channel.basic_consume({queue!r}, on_message)
channel.start_consuming()
channel.connection.close()
"""

ASYNCHRONOUS = """
import controlmq, pika
def on_open(channel):
    controlmq.wrap(channel, {goal})
    channel.basic_consume({queue!r}, on_message)
def on_message(channel, method, properties, body):
    channel.basic_ack(method.delivery_tag)
    channel.connection.close()
connection = pika.SelectConnection(
    pika.URLParameters({url!r}),
    on_open_callback=lambda connection: connection.channel(on_open_callback=on_open),
    on_close_callback=lambda connection, reason: connection.ioloop.stop(),
)
connection.ioloop.start()
"""


@pytest.mark.parametrize("program", [BLOCKING, ASYNCHRONOUS], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("goal", ["", "goal=200", 'at_most="5/minute"', "buffer_time=0.1"])
def test_every_goal_works_with_pika_alone(
    release: Release, broker: Broker, queue_name: str, goal: str, program: str
) -> None:
    fill(broker.parameters, queue_name, 1)
    written = program.format(url=broker.url, queue=queue_name, goal=goal)
    done = release.environment.run("-c", written)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_empty(broker, queue_name)


@pytest.mark.parametrize("goal", ["", "--goal 200", "--at-most 5/minute", "--buffer-time 100ms"])
def test_every_goal_of_the_command_works_with_pika_alone(
    release: Release, broker: Broker, queue_name: str, goal: str
) -> None:
    fill(broker.parameters, queue_name, 1)
    words = ["--url", broker.url, "--queue", queue_name, "--work", "0.001", *goal.split()]
    done = release.environment.command("run", *words, "--interval", "0.5", "--samples", "2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert_empty(broker, queue_name)


def test_the_first_example_of_the_readme_settles(
    release: Release, broker: Broker, proxy: Proxy, queue_name: str
) -> None:
    """Through a network of 11 ms, where prefetch 1 would starve it."""
    first = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    assert "controlmq.wrap(" in first
    fill(broker.parameters, queue_name, 60_000)
    (port,) = free_ports(1)
    # What it does is read from outside, through the page that it serves.
    url = proxied(broker.url, proxy)
    before = f"import controlmq; controlmq.serve_dashboard({port}); url = {url!r}\n"
    program = before + first.replace('"orders"', repr(queue_name))
    process = subprocess.Popen(
        [release.environment.python, "-I", "-c", program],
        cwd=release.environment.folder,
        env=release.environment.variables(),
        stderr=subprocess.PIPE,
        text=True,
    )
    samples: list[dict[str, Any]] = []

    def settled() -> bool:
        assert process.poll() is None, process.communicate()[1]
        samples[:] = _samples(port)
        last = [each["prefetch"] for each in samples[-5:]]
        return len(samples) >= 8 and max(last) - min(last) <= 0.2 * max(last)

    try:
        wait_until(settled, "the prefetch stays where it is")
        # It has found that it needs more than 1, and lost nothing by having no more.
        assert samples[-1]["prefetch"] > 3 > samples[0]["measured_prefetch"]
        assert samples[-1]["rate"] > 3 * samples[0]["rate"]
        view = broker.management.wait_for_queue(
            queue_name, lambda view: view.messages_ready < 58_000, "messages are acknowledged"
        )
        assert view.messages_ready > 0
    finally:
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in error


def _samples(port: int) -> list[dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/consumers", timeout=10) as answer:
            consumers = json.load(answer)["consumers"]
    except OSError:
        return []
    return list(consumers[0]["samples"]) if consumers else []


PROGRAM = '''
"""What a typed program of a user may look like."""

from collections.abc import Sequence

import pika  # type: ignore[import-untyped]

import controlmq
from controlmq import (
    ArxModel,
    ControlmqError,
    Gains,
    Limits,
    Loop,
    PI,
    Profile,
    Sample,
    Schedule,
    Step,
    TraceWriter,
    Transition,
    Tuning,
    WorkerPool,
    design_controller,
)
from controlmq.clients.pika import Consumer
from controlmq.controllers import OpenLoop, build, controller_from, ramp
from controlmq.observe.otel import export_metrics
from controlmq.performance import Performance, performance


class MyConsumer:
    """A plant: the loop can observe and actuate it."""

    prefetch = 1.0
    number = 0

    def observe(self) -> Sample:
        self.number += 1
        return Sample(self.number, float(self.number), 1.0, self.prefetch, 75)

    def actuate(self, prefetch: float) -> None:
        self.prefetch = prefetch


def rates(goal: float, tuning: Tuning) -> Sequence[float]:
    loop = Loop(MyConsumer(), build(tuning), goal=goal)
    return [step.sample.rate for step in loop.run(30)]


def on_step(step: Step) -> None:
    print(step.sample.rate, step.goal)


model = ArxModel(0.1, 60.0, 0.0, 1.0, (0.0, 20.0))
gains: Gains = Gains(kp=0.01, ki=0.02)
law = PI(gains, Limits(1, 20))
try:
    tuning: Tuning = design_controller(model, "pi", settling_samples=8).tuning
except ControlmqError as error:
    raise SystemExit(str(error)) from None
judged: Performance = performance(rates(450, tuning), goal=450)
plan = OpenLoop(ramp(1, 10, 2))
with TraceWriter("traces") as writer:
    writer(Transition("group", "trace", 0, 1.0, 1.0, 2.0, 100.0, 110.0, True))
places: list[float] = [profile.at["work"] for profile in Schedule.load("schedule.json").profiles]
channel = pika.BlockingConnection().channel()
for goals in (
    controlmq.wrap(channel),
    controlmq.wrap(channel, goal=200, controller=law, on_step=on_step, record=print),
    controlmq.wrap(channel, goal={"orders": "200/s"}, at_most="5/minute", buffer_time="100 ms"),
    controlmq.wrap(channel, goal=200, controller="model.json", handlers=WorkerPool(4)),
):
    controlmq.unwrap(goals)
server = controlmq.serve_dashboard(15680)
controlmq.serve_metrics(9000)
export_metrics()
'''
# What is wrong in it must be found: types that are Any would let it pass.
WRONG = """
import controlmq

controlmq.ArxModel("a", 60.0, 0.0, 1.0, (0.0, 20.0))
controlmq.Limits(low="none")
controlmq.serve_dashboard("15680")
controlmq.wrap(None, window="sometimes")
controlmq.nothing
"""


def test_type_hints_hold_from_outside(release: Release) -> None:
    """``mypy --strict``, which follows the hints into the installed packages."""
    folder = release.environment.folder
    (folder / "program.py").write_text(PROGRAM)
    (folder / "wrong.py").write_text(WRONG)
    mypy = [
        *(
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-incremental",
            "--config-file",
            "/dev/null",
        ),
        *("--python-executable", str(release.environment.python), "program.py", "wrong.py"),
    ]
    done = subprocess.run(
        mypy, cwd=folder, env=release.environment.variables(), capture_output=True, text=True
    )
    complaints = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line for line in complaints if not line.startswith("wrong.py")] == []
    assert sorted({int(line.split(":")[1]) for line in complaints}) == [4, 5, 6, 7, 8]
