"""``controlmq simulate``: a scenario as it is, or one consumer of it driven by a controller."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlmq.cli.arguments import add_seed, count, number, option
from controlmq.cli.output import console, print_json, say, table
from controlmq.controllers import OpenLoop, controller_from, ramp, random_levels
from controlmq.controllers.controller_file import KINDS as LAWS
from controlmq.errors import InputError
from controlmq.extras import Needs, check, needs
from controlmq.goals import WORDS, Goals
from controlmq.loop import Controller, Step
from controlmq.model import ArxModel
from controlmq.performance import performance

if TYPE_CHECKING:
    from simulator import Recording

SUMMARY = "run a scenario, or a controller on a consumer of it"
NEEDS: Needs = needs("simulation")

TEACHING = """\
What drives the prefetch of a consumer, one of (without any, the scenario runs as it is written):
  --controller FILE      a controller file ('controlmq design --out'), or a model file (PI)
  --controller pi --model FILE
  --prefetch U           a constant
  --ramp LOW HIGH        one sample a level, to see the curve
  --levels LOW HIGH      --samples levels in random order, to identify a model from
  --goal, --at-most, --buffer-time, --protect
                         goals, each by itself or together, as of `controlmq run`
--consumer says which one where a scenario has several. With --consumer alone that one finds the
least prefetch that loses no throughput, as `controlmq run` does without a goal.

Tables have means over the run. Of queues: messages/second in and out, length ("now" at the end),
latency from publisher to handler in ms, and what became of the messages; of consumers and
publishers; of types of messages where they say more than queues, the broker, and what rules did.
--out keeps all metrics of every sample as Parquet: queues, consumers, publishers, types, chains
(what consumers pass on, since the message it follows from) and broker.

examples:
  controlmq simulate --levels 1 20 --samples 200 --trace traces/
  controlmq simulate --controller pi --model model.json --goal 450
  controlmq simulate --at-most 300 --buffer-time "20 ms"
  controlmq simulate my-consumer.toml --ramp 1 40 --json
  controlmq simulate my-topology.toml --samples 120 --out metrics/ --plot run.svg
  controlmq simulate my-topology.toml --consumer billing
  controlmq simulate my-topology.toml --consumer billing --prefetch 10
"""

DEFAULT_SAMPLES = 100
"""Samples of a run without --samples."""

DEFAULT_GROUP = "simulated"
"""The group of a recorded trace without --group."""

ROWS_SHOWN = 40
"""Samples that the terminal lists: the first and the last of a longer run."""


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "scenario", nargs="?", default="rosa-noisy", help="a shipped scenario or a TOML file"
    )
    drive = parser.add_mutually_exclusive_group()
    option(drive, "--controller LAW|FILE", "p, pi, pid, scale or a file")
    option(drive, "--prefetch U", "a constant prefetch", number)
    option(drive, "--ramp LOW HIGH", "every prefetch from LOW to HIGH, one a sample", number)
    option(drive, "--levels LOW HIGH", "prefetches in random order between these", number)
    option(parser, "--consumer NAME", "the consumer that is driven; alone: to the least prefetch")
    option(parser, "--model FILE", "the model of a controller given by name")
    option(parser, "--goal RATE", "hold this rate: messages/second, or as in 5/minute")
    option(parser, "--at-most RATE", "never start more than this rate")
    option(parser, "--burst N", "messages that may start at once (default: 50 ms' worth)", number)
    option(parser, "--buffer-time TIME", "let messages wait here: seconds, or as in '100 ms'")
    option(parser, "--protect", "take less while what is behind the handlers is congested")
    option(parser, "--samples SAMPLES", f"how many to run (default {DEFAULT_SAMPLES})", count)
    add_seed(parser)
    option(parser, "--trace FOLDER", "record the run as a trace")
    option(parser, "--group GROUP", f"the group's name in the trace (default {DEFAULT_GROUP})")
    option(parser, "--out FOLDER", "write all metrics as Parquet")
    option(parser, "--plot FILE", "draw the run (.svg, .png or .pdf)")


def run(arguments: Namespace) -> int:
    """Simulate with a progress bar; print what happened."""
    goals = _goals(arguments)
    pursued = goals != Goals() or arguments.consumer is not None
    _check(arguments, driven=pursued)
    if arguments.plot:
        check(needs("reports"), "--plot")
    if arguments.out or arguments.trace:
        check(needs("recording"), "--out" if arguments.out else "--trace")
    driven = _driver(arguments, goals, pursued=pursued)
    if driven is None:
        return _run_as_written(arguments)
    steps, recording = _simulate(arguments, goals, *driven)
    goal = goals.goal
    judged = None
    if goal is not None and len(steps) >= 4:
        judged = asdict(performance([step.sample.rate for step in steps], goal))
    if arguments.out:
        recording.to_parquet(arguments.out)
    if arguments.plot:
        _plot(steps, goal, arguments.plot)
    if arguments.json:
        print_json({"performance": judged, "samples": [_row(step) for step in steps]})
    else:
        _show(steps, judged, recording)
    return 0


def _goals(arguments: Namespace) -> Goals:
    """What the consumer is to do; plans of prefetches have no goal."""
    given = {word: getattr(arguments, word) for word in WORDS}
    goals = Goals(**{word: value for word, value in given.items() if value is not None})
    for plan in ("prefetch", "ramp", "levels"):
        if getattr(arguments, plan) is not None and goals != Goals():
            raise InputError(f"--{plan} says what the prefetch is, so it has no goal; give one.")
    return goals


def _check(arguments: Namespace, *, driven: bool) -> None:
    """Refuse options that would have no effect; goals drive a consumer, too."""
    drives = ("controller", "prefetch", "ramp", "levels")
    undriven = not driven and all(getattr(arguments, drive) is None for drive in drives)
    if undriven and arguments.trace is not None:
        raise InputError(
            "--trace is for a consumer that is driven; give a goal, --consumer, --controller, "
            "--prefetch, --ramp or --levels with it."
        )
    if arguments.model is not None and (arguments.controller or "").lower() not in LAWS:
        raise InputError(
            f"--model goes with --controller {', '.join(LAWS[:-1])} or {LAWS[-1]}; "
            "leave it out here."
        )
    if arguments.samples is not None and arguments.ramp is not None:
        raise InputError("a ramp has a sample for every level; leave --samples out.")
    if arguments.group is not None and arguments.trace is None:
        raise InputError("--group is a name in a trace; give --trace with it.")


def _driver(
    arguments: Namespace, goals: Goals, *, pursued: bool
) -> tuple[Controller | None, int] | None:
    """What drives the consumer and for how many samples; None where nothing does.

    Where goals are ``pursued``, the least prefetch included, their laws are made with the plant.
    """
    samples = arguments.samples or DEFAULT_SAMPLES
    if arguments.controller:
        model = ArxModel.load(arguments.model) if arguments.model else None
        controller = controller_from(arguments.controller, model=model)
        if goals.goal is None:
            raise InputError("a controller needs a goal; give --goal in messages/second.")
        return controller, samples
    if arguments.prefetch is not None:
        return OpenLoop([arguments.prefetch]), samples
    if arguments.ramp:
        levels = ramp(*arguments.ramp)
    elif arguments.levels:
        low, high = arguments.levels
        levels = random_levels(low, high, samples, arguments.seed)
    elif pursued:
        return None, samples
    else:
        return None
    return OpenLoop(levels), len(levels) + 1


def _run_as_written(arguments: Namespace) -> int:
    """Run the scenario with the prefetches it gives; print tables, or all metrics as JSON."""
    from rich.progress import Progress

    from simulator import Recording, Simulation, load_scenario
    from simulator.plant import adapting
    from simulator.recording import KINDS
    from simulator.summary import changes_by_rules

    scenario = load_scenario(arguments.scenario)
    simulation = Simulation(scenario, arguments.seed)
    recording = Recording(simulation, scenario.sample_interval)
    loops = adapting(simulation).values()
    with Progress(console=console(to_stderr=True), transient=True) as bar:
        numbers = range(1, (arguments.samples or DEFAULT_SAMPLES) + 1)
        for number in bar.track(numbers, description="simulating"):
            recording.run_until(number * scenario.sample_interval)
            for loop in loops:
                loop.step()
    if arguments.out:
        recording.to_parquet(arguments.out)
    if arguments.plot:
        recording.plot(arguments.plot)
    if arguments.json:
        found = {kind: recording.rows(kind) for kind in KINDS}
        print_json({**found, "changes": changes_by_rules(recording.simulation)})
    else:
        console().print(*recording.tables())
    return 0


def _simulate(
    arguments: Namespace, goals: Goals, controller: Controller | None, samples: int
) -> tuple[list[Step], Recording]:
    from rich.progress import Progress

    from controlmq.traces import TraceWriter
    from simulator import Recording, SimulatedConsumer, load_scenario

    scenario = load_scenario(arguments.scenario)
    plant = SimulatedConsumer(scenario, seed=arguments.seed, consumer=arguments.consumer)
    recording = Recording(plant.simulation, scenario.sample_interval)
    steps = []
    with ExitStack() as stack:
        writer = None
        if arguments.trace:
            writer = stack.enter_context(TraceWriter(Path(arguments.trace)))
        bar = stack.enter_context(Progress(console=console(to_stderr=True), transient=True))
        loop = plant.pursue(
            goals,
            controller,
            record=writer,
            group=arguments.group or DEFAULT_GROUP,
            trace=f"{scenario.name}-seed{arguments.seed}",
        )
        for step in bar.track(loop.run(samples), total=samples, description="simulating"):
            recording.run_until(plant.simulation.now)
            steps.append(step)
    return steps, recording


def _row(step: Step) -> dict[str, Any]:
    return {
        **asdict(step.sample),
        "rate": step.sample.rate,
        "window_limited": step.sample.window_limited,
        "next_prefetch": step.prefetch,
        "told": list(step.told),
    }


def _show(steps: list[Step], judged: dict[str, Any] | None, recording: Recording) -> None:
    rows: list[tuple[str, ...]] = [
        (
            *(str(sample.number), f"{sample.time:g}", f"{sample.prefetch:.3f}"),
            *(f"{sample.rate:.1f}", f"{sample.in_flight:.2f}", f"{100 * sample.starved:.0f}"),
        )
        for sample in (step.sample for step in steps)
    ]
    columns = ("sample", "time s", "prefetch", "rate msg/s", "in flight", "starved %")
    if len(rows) > ROWS_SHOWN:
        half = ROWS_SHOWN // 2
        rows[half:-half] = [("...",) * len(columns)]
    view = console()
    view.print(table(None, columns, rows))
    view.print(*recording.tables())
    if judged is not None:
        settled = judged["settling_samples"]
        say(
            view,
            f"mean {judged['mean']:.2f} msg/s, sd {judged['sd']:.2f}, overshoot "
            f"{judged['overshoot']:.1f} %, "
            + ("not settled" if settled is None else f"settled after {settled} samples"),
        )


def _plot(steps: list[Step], goal: float | None, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    rates, prefetches = figure.subplots(2, 1, sharex=True)
    times = [step.sample.time for step in steps]
    rates.plot(times, [step.sample.rate for step in steps], color="#0072b2")
    if goal is not None:
        rates.axhline(goal, color="#009e73", linewidth=1)
    rates.set(ylabel="arrival rate (msg/s)")
    prefetches.step(times, [step.sample.prefetch for step in steps], color="#d55e00", where="pre")
    prefetches.set(ylabel="prefetch (messages)", xlabel="seconds")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot draw to {path}: {error}; give a .svg, .png or .pdf.") from None
