"""``controlmq specjms``: the SPECjms2007 workload on a simulated or live broker, with its audit."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from controlmq.cli.arguments import add_seed, count, number, option
from controlmq.cli.output import console, print_json, progress_bar, say
from controlmq.cli.specjms_progress import Watch, watched
from controlmq.errors import InputError
from controlmq.extras import Needs, needs

if TYPE_CHECKING:
    from simulator.studies.specjms import Run, Workload

SUMMARY = "run the SPECjms2007 workload on a simulated or live broker"
NEEDS: Needs = needs("simulation")

TEACHING = """\
Seven interactions between supermarkets, distribution centres, suppliers and headquarters. The
vertical topology has a fixed number of them and gets busier with BASE; the horizontal one has
more of them; a TOML file may describe one of your own: simulator/studies/specjms/freeform.py shows
one. The audit says whether the broker kept up; the exit code is 1 if it did not. A terminal shows
what is counted, beside what is expected, while it runs.

Without --url the broker is simulated. With it the same messages go through a real one, between
clients on this machine, a process for each kind of location: give a BASE that they can take, or
some --interactions alone. The queues are deleted afterwards, after Ctrl-C too. The URL is pika's.

examples:
  controlmq specjms --topology vertical --base 45 --duration 300
  controlmq specjms --topology horizontal --base 20 --pacing exponential --json
  controlmq specjms --topology vertical --search --duration 20
  controlmq specjms --base 45 --central
  controlmq specjms --topology my-chain.toml
  controlmq specjms --url amqp://host --base 2 --duration 60 --interactions 1 3
"""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    option(parser, "--url URL", "a live broker, as pika takes it (default: simulate one)")
    meaning = "vertical, horizontal, or a TOML file with one of your own"
    option(parser, "--topology KIND|FILE", meaning, default="vertical")
    option(parser, "--base BASE", "the size of the workload", number, 45.0)
    meaning = "some of 1 to 7 (default all that the topology has)"
    option(parser, "--interactions NUMBER...", meaning, count)
    option(parser, "--duration SECONDS", "time that is measured", number, 300.0)
    option(parser, "--warm-up SECONDS", "time before what is measured", number, 10.0)
    meaning = "time after what is measured; a live run ends as soon as every message has arrived"
    option(parser, "--drain SECONDS", meaning, number, 30.0)
    option(
        parser,
        "--pacing PACING",
        "deterministic or exponential: times between the starts",
        default="deterministic",
    )
    option(parser, "--cores CORES", "cores of the simulated broker (default 8)", int)
    option(parser, "--central", "jms2009-PS: every message on one topic")
    option(parser, "--search", "find the largest BASE that passes, from --base on")
    add_seed(parser)


def run(arguments: Namespace) -> int:
    """One run with its report, or the search; 0 if the audit passes."""
    if arguments.url is not None and arguments.cores is not None:
        raise InputError("--cores is of a simulated broker; leave it out, or leave out --url.")
    if arguments.search:
        if arguments.topology.endswith(".toml"):
            raise InputError("a topology of your own has no BASE to search; leave out --search.")
        return _search(arguments)
    with watched() as watch:
        done = _run_at(arguments, arguments.base, watch)
    return _show(done, arguments.json)


def _run_at(arguments: Namespace, base: float, watch: Watch | None = None) -> Run:
    workload = _workload(arguments, base)
    if arguments.url is None:
        return _simulated(arguments, workload, watch)
    return _live(arguments, workload, watch)


def _simulated(arguments: Namespace, workload: Workload, watch: Watch | None) -> Run:
    from simulator.studies import specjms
    from simulator.studies.specjms.progress import simulated_progress

    if watch is None:
        return specjms.run(workload, arguments.seed)
    return specjms.run(
        workload,
        arguments.seed,
        watch=lambda simulation: watch.look(lambda: simulated_progress(workload, simulation)),
    )


def _live(arguments: Namespace, workload: Workload, watch: Watch | None) -> Run:
    from controlmq.experiments.live_specjms import run_live
    from simulator.studies.specjms.progress import noted_progress

    if watch is None:
        return run_live(arguments.url, workload, arguments.seed)
    watch.show(noted_progress(workload, 0.0, {}, {}))
    return run_live(
        arguments.url, workload, arguments.seed, lambda progress: watch.look(lambda: progress)
    )


def _workload(arguments: Namespace, base: float) -> Workload:
    from simulator.studies import specjms
    from simulator.studies.specjms.build import ASSUMED_BROKER
    from simulator.studies.specjms.options import central

    types = central() if arguments.central else None
    if arguments.topology.endswith(".toml"):
        topology, own = specjms.load_freeform(arguments.topology)
        types = (types or {}) | own
    else:
        topology = specjms.scaled(arguments.topology, base)
    if arguments.interactions is not None:
        topology = topology.only(arguments.interactions)
    cores = ASSUMED_BROKER.cores if arguments.cores is None else arguments.cores
    return specjms.workload(
        topology,
        specjms.Phases(arguments.warm_up, arguments.duration, arguments.drain),
        specjms.Deployment(broker=replace(ASSUMED_BROKER, cores=cores)),
        pacing=arguments.pacing,
        types=types,
    )


def _show(done: Run, as_json: bool) -> int:
    from simulator.studies.specjms import audit, report
    from simulator.studies.specjms.report import audit_table, destination_table, run_table

    findings = audit(done)
    passed = all(finding.passed for finding in findings)
    if as_json:
        print_json(report(done))
        return 0 if passed else 1
    view = console()
    view.print(run_table(done))
    view.print(destination_table(done))
    view.print(audit_table(findings))
    say(view, ("PASS" if passed else "FAIL") + _busy(done))
    return 0 if passed else 1


def _busy(done: Run) -> str:
    """How busy a simulated broker was."""
    if done.core_utilisation is None or done.disk_utilisation is None:
        return ""
    cores, disk = 100 * done.core_utilisation, 100 * done.disk_utilisation
    return f"; cores busy {cores:.1f} %, disk {disk:.1f} %"


def _search(arguments: Namespace) -> int:
    from simulator.studies.specjms import largest_base

    trials = []
    with progress_bar("trying BASE", total=None) as update:
        start = max(1, round(arguments.base))
        for trial in largest_base(lambda base: _run_at(arguments, float(base)), start):
            trials.append(trial)
            update(description=f"BASE {trial.base}")
    largest = max((trial.base for trial in trials if trial.passed), default=None)
    if arguments.json:
        tried = [{"base": trial.base, "failed": list(trial.failed)} for trial in trials]
        print_json({"largest_base": largest, "trials": tried})
        return 0
    view = console()
    for trial in trials:
        say(view, f"BASE {trial.base:6d}  {'PASS' if trial.passed else ', '.join(trial.failed)}")
    say(view, f"largest BASE that passes: {largest}")
    return 0
