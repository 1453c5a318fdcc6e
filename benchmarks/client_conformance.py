"""Every client through the same trials: changes, stops, kills, cuts, stalls, timeouts, and goals.

Each result is appended to a state file at once, and a run that is started again with that file goes
on where it stopped. From the command line::

    python -m benchmarks.client_conformance --state results.jsonl           # what is missing
    python -m benchmarks.client_conformance --state results.jsonl --again   # and what failed
    python -m benchmarks.client_conformance --state results.jsonl --unchecked   # see below
    python -m benchmarks.client_conformance --state results.jsonl --page    # into docs/clients.md

A result with ``bound_checked`` is of a trial that failed where there were more slots, or more
messages in flight, than allowed; ``broker_readings`` says how often the broker was asked, too. A
goal with ``judged_by`` was judged by times that were noted outside of the consumer. Results from
before have neither; ``--unchecked`` does them again.

``python -m benchmarks client_conformance`` does the same with ``CLIENT_CONFORMANCE_STATE``, or with
no state, at full size.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import pages
from tests.conformance.drivers import DRIVERS, Driver
from tests.conformance.goals import GOALS, MEASURED_SAMPLES, hold
from tests.conformance.trials import ALL_CHANGES, OTHERS, TRIALS, Conformance, attempt, changes
from tests.testbed import Broker, Proxy, start_broker
from tests.testbed.broker import CHOSEN_BROKER
from tests.testbed.publishing import QueueKind

BROKERS = ("3.10", "4.3")
QUEUES: tuple[QueueKind, ...] = ("classic", "quorum")

SENSED = "\\*"
SENSED_NOTE = (
    f"{SENSED} by the consumer's own samples: measured before times that were noted outside of it "
    "were compared."
)

KEYS = ("client", "trial", "queue", "broker")
"""What a result is of."""


class State:
    """The results so far, in a file that only grows; of one thing the last result counts.

    ``again``: what failed before is done again. ``unchecked``: so is what ran before the bound
    was checked.
    """

    def __init__(self, path: Path, again: bool = False, unchecked: bool = False) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._results = {_key(each): each for each in map(json.loads, lines)}
        self._done = {
            key
            for key, each in self._results.items()
            if not (again and each["failures"])
            and not (unchecked and not each.get("bound_checked"))
        }

    @property
    def results(self) -> list[dict[str, Any]]:
        """The last one of each."""
        return list(self._results.values())

    def has(self, what: dict[str, str]) -> bool:
        """Whether this was done already."""
        return _key(what) in self._done

    def add(self, result: dict[str, Any]) -> None:
        """Append one result."""
        self._results[_key(result)] = result
        self._done.add(_key(result))
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")
        wrong = "; ".join(result["failures"]) or "good"
        words = ", ".join(_key(result))
        print(f"{words}: {wrong} ({result['seconds']:.0f} s)", file=sys.stderr, flush=True)


def _key(result: dict[str, Any]) -> tuple[str, ...]:
    return tuple(result[key] for key in KEYS)


@contextmanager
def broker_of(version: str) -> Iterator[Broker]:
    """A private node of this version."""
    before = os.environ.get(CHOSEN_BROKER)
    os.environ[CHOSEN_BROKER] = version
    try:
        with start_broker(disposable=True) as broker:
            yield broker
    finally:
        if before is None:
            del os.environ[CHOSEN_BROKER]
        else:
            os.environ[CHOSEN_BROKER] = before


def done(
    what: dict[str, str], state: State, do: Callable[[], dict[str, Any]], mend: Callable[[], None]
) -> None:
    """Do one thing, unless it was done; whatever it raises counts as a failure."""
    if state.has(what):
        return
    start = time.monotonic()
    try:
        result = do()
    except Exception as error:
        traceback.print_exc()
        mend()
        result = {"failures": [f"{type(error).__name__}: {error}"]}
    state.add({**what, **result, "seconds": time.monotonic() - start})


def run_trials(
    state: State,
    version: str,
    drivers: Sequence[Driver],
    trials: Sequence[Conformance],
    queues: Sequence[QueueKind] = QUEUES,
) -> None:
    """Every trial of every client, on these kinds of queues of one broker."""
    with broker_of(version) as broker, broker.proxied() as proxy:

        def one(trial: Conformance, driver: Driver, kind: QueueKind) -> dict[str, Any]:
            result = attempt(trial, driver, broker, proxy, kind)
            return {
                **asdict(result.verdict),
                "changes": result.changes,
                "bound_checked": True,
                "broker_readings": result.broker_readings,
                "failures": result.failures,
            }

        for driver in drivers:
            for trial in trials:
                for kind in queues:
                    if trial.possible(broker, kind):
                        what = _what(driver, trial.name, kind, version)
                        done(
                            what,
                            state,
                            lambda trial=trial, driver=driver, kind=kind: one(trial, driver, kind),  # type: ignore[misc]
                            lambda: _mend(proxy),
                        )


def run_goals(state: State, version: str, drivers: Sequence[Driver], samples: int) -> None:
    """Every goal through every client; the goals of one client at the same time."""

    with broker_of(version) as broker, ThreadPoolExecutor(len(GOALS)) as pool:
        for driver in drivers:
            futures = [
                pool.submit(
                    done,
                    _what(driver, goal.name, "classic", version),
                    state,
                    lambda goal=goal, driver=driver: hold(goal, driver, broker, samples),  # type: ignore[misc]
                    lambda: None,
                )
                for goal in GOALS
            ]
            for future in futures:
                future.result()


def _what(driver: Driver, trial: str, queue: str, broker: str) -> dict[str, str]:
    return {"client": driver.name, "trial": trial, "queue": queue, "broker": broker}


def _mend(proxy: Proxy) -> None:
    """Let the next trial find the network in order."""
    proxy.cut()
    proxy.resume()


def table(results: Sequence[dict[str, Any]]) -> str:
    """Who passes what, in Markdown: a row for each client, a column for each trial."""
    names = [trial.name for trial in TRIALS] + [goal.name for goal in GOALS]
    found = dict.fromkeys(each["trial"] for each in results)
    trials = sorted(found, key=lambda name: names.index(name) if name in names else 0)
    rows = []
    for driver in DRIVERS:
        of_client = [each for each in results if each["client"] == driver.name]
        if of_client:
            cells = [_cell([r for r in of_client if r["trial"] == trial]) for trial in trials]
            checked = sum(bool(each.get("bound_checked")) for each in of_client)
            rows.append([driver.name, *cells, f"{checked} of {len(of_client)}"])
    shown = pages.table(["client", *trials, "bound checked in"], rows)
    if any(SENSED in cell for row in rows for cell in row):
        shown += f"\n\n{SENSED_NOTE}"
    return shown


def _cell(results: Sequence[dict[str, Any]]) -> str:
    """How many passed; the duplicates of faults; how far a goal was off."""
    if not results:
        return "-"
    failed = [each for each in results if each["failures"]]
    passed = f"{len(results) - len(failed)} of {len(results)}" if failed else f"{len(results)}"
    goals = [each for each in results if "deviation" in each]
    if goals:
        return _goal_cell(goals[-1]) + (" (failed)" if failed else "")
    judged = [each for each in results if "bound" in each]
    most = max(judged, key=lambda each: each["duplicates"], default=None)
    if most is not None and (most["bound"] or most["duplicates"]):
        passed += f" (twice: {most['duplicates']} of {most['bound']})"
    return passed


def _goal_cell(goal: dict[str, Any]) -> str:
    if goal["allowed"] == 0:
        off = goal["deviation"]
        return "none above" if not off else f"{off:.3g} above"
    shown = f"{100 * goal['deviation']:+.2f} %"
    return shown if "judged_by" in goal else f"{shown} {SENSED}"


def run() -> dict[str, Any]:
    """All of it, at full size."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ.get("CLIENT_CONFORMANCE_STATE") or str(Path(folder) / "state.jsonl")
        state = State(Path(path))
        for version in BROKERS:
            run_trials(state, version, DRIVERS, TRIALS)
        run_goals(state, BROKERS[0], DRIVERS, MEASURED_SAMPLES)
    failures = [each for each in state.results if each["failures"]]
    return {"results": state.results, "table": table(state.results), "met": not failures}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client_conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    clients = [driver.name for driver in DRIVERS]
    others = [trial.name for trial in OTHERS]
    parser.add_argument("--state", type=Path, required=True, help="file of results, to go on with")
    parser.add_argument("--again", action="store_true", help="do again what failed")
    parser.add_argument(
        "--unchecked", action="store_true", help="do again what ran without the check of the bound"
    )
    parser.add_argument("--page", action="store_true", help="write the table into docs/clients.md")
    parser.add_argument("--clients", nargs="+", choices=clients, default=clients)
    parser.add_argument("--brokers", nargs="+", default=list(BROKERS))
    parser.add_argument("--queues", nargs="+", choices=QUEUES, default=list(QUEUES))
    parser.add_argument("--trials", nargs="*", choices=others, default=others)
    parser.add_argument("--changes", type=int, default=ALL_CHANGES, help="0 for no such trial")
    parser.add_argument("--samples", type=int, default=MEASURED_SAMPLES, help="0 for no goals")
    given = parser.parse_args()
    state = State(given.state, given.again, given.unchecked)
    if given.page:
        pages.put("clients.md", "conformance", table(state.results))
        return 0
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    drivers = [driver for driver in DRIVERS if driver.name in given.clients]
    trials = [trial for trial in OTHERS if trial.name in given.trials]
    if given.changes:
        trials.insert(0, changes(given.changes))
    for version in given.brokers if trials else []:
        run_trials(state, version, drivers, trials, given.queues)
    if given.samples:
        run_goals(state, given.brokers[0], drivers, given.samples)
    print(table(state.results))
    failed = [", ".join(_key(each)) for each in state.results if each["failures"]]
    for each in failed:
        print(f"failed: {each}. Do it again with --again.", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
