"""``controlmq specjms``: the SPECjms2007 workload on a simulated broker, with its audit."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from controlmq.cli.arguments import add_json, new_command, number, seed
from controlmq.errors import InputError

if TYPE_CHECKING:
    from controlmq.cli.arguments import Commands
    from simulator.specjms import Run

TEACHING = """\
Seven interactions between supermarkets, distribution centres, suppliers and headquarters. The
vertical topology has a fixed number of them and gets busier with BASE; the horizontal one has
more of them; a TOML file may describe one of your own, as simulator/specjms/freeform.py shows. The
audit says whether the broker kept up; the exit code is 1 if it did not.

examples:
  controlmq specjms --topology vertical --base 45 --duration 300
  controlmq specjms --topology horizontal --base 20 --pacing exponential --json
  controlmq specjms --topology vertical --search --duration 20
  controlmq specjms --base 45 --central
  controlmq specjms --topology my-chain.toml
"""


def add_to(commands: Commands) -> None:
    """Register the command."""
    parser = new_command(
        commands, "specjms", "run the SPECjms2007 workload on a simulated broker", TEACHING
    )
    parser.add_argument(
        "--topology",
        default="vertical",
        metavar="KIND|FILE",
        help="vertical (default), horizontal, or a TOML file with one of your own",
    )
    parser.add_argument(
        "--base", type=number, default=45.0, help="the size of the workload (default 45)"
    )
    parser.add_argument("--duration", type=number, default=300.0, help="seconds (default 300)")
    parser.add_argument("--warm-up", type=number, default=10.0, help="seconds (default 10)")
    parser.add_argument("--drain", type=number, default=30.0, help="seconds (default 30)")
    parser.add_argument("--pacing", default="deterministic", help="or exponential")
    parser.add_argument("--cores", type=int, help="of the broker (default 8)")
    parser.add_argument(
        "--central", action="store_true", help="jms2009-PS: every message on one topic"
    )
    parser.add_argument(
        "--search", action="store_true", help="find the largest BASE that passes, from --base on"
    )
    parser.add_argument("--seed", type=seed, default=1, help="same seed, same result (default 1)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """One run with its report, or the search; 0 if the audit passes."""
    if arguments.search:
        if arguments.topology.endswith(".toml"):
            raise InputError("a topology of your own has no BASE to search; leave out --search.")
        return _search(arguments)
    return _show(_run_at(arguments, arguments.base), arguments.json)


def _run_at(arguments: argparse.Namespace, base: float) -> Run:
    from simulator import specjms
    from simulator.specjms.build import MACHINE
    from simulator.specjms.options import central

    cores = MACHINE.cores if arguments.cores is None else arguments.cores
    types = central() if arguments.central else None
    if arguments.topology.endswith(".toml"):
        topology, own = specjms.load_freeform(arguments.topology)
        types = (types or {}) | own
    else:
        topology = specjms.scaled(arguments.topology, base)
    workload = specjms.workload(
        topology,
        specjms.Phases(arguments.warm_up, arguments.duration, arguments.drain),
        specjms.Deployment(broker=replace(MACHINE, cores=cores)),
        pacing=arguments.pacing,
        types=types,
    )
    return specjms.run(workload, seed=arguments.seed)


def _show(done: Run, as_json: bool) -> int:
    from controlmq.cli.output import console, print_json, say
    from simulator.specjms import audit, report
    from simulator.specjms.report import audit_table, destination_table, run_table

    findings = audit(done)
    passed = all(finding.passed for finding in findings)
    if as_json:
        print_json(report(done))
        return 0 if passed else 1
    view = console()
    view.print(run_table(done))
    view.print(destination_table(done))
    view.print(audit_table(findings))
    say(
        view,
        f"{'PASS' if passed else 'FAIL'}; cores busy {100 * done.core_utilisation:.1f} %, "
        f"disk {100 * done.disk_utilisation:.1f} %",
    )
    return 0 if passed else 1


def _search(arguments: argparse.Namespace) -> int:
    from rich.progress import Progress

    from controlmq.cli.output import console, print_json, say
    from simulator.specjms import largest_base

    trials = []
    with Progress(console=console(to_stderr=True), transient=True) as bar:
        task = bar.add_task("trying BASE", total=None)
        start = max(1, round(arguments.base))
        for trial in largest_base(lambda base: _run_at(arguments, float(base)), start):
            trials.append(trial)
            bar.update(task, description=f"BASE {trial.base}")
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
