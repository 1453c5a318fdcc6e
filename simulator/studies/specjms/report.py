"""Reports of a run: its counts, the audit, delivery and completion times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from simulator.metrics import Latency
from simulator.studies.specjms.audit import Finding, audit
from simulator.studies.specjms.phased_run import Run
from simulator.studies.specjms.progress import Progress

if TYPE_CHECKING:
    from rich.table import Table

PERCENTILES = (50.0, 90.0, 99.0)
COUNTED = ("started", "sent", "received")
COUNTED_COLUMNS = ("interaction", *(title for what in COUNTED for title in (what, "expected")))
AUDITED_COLUMNS = ("rule", "subject", "measured", "allowed", "verdict")


def report(run: Run) -> dict[str, Any]:
    """The full report as plain values; times are in milliseconds."""
    findings = audit(run)
    return {
        "workload": run.workload.scenario.name,
        "seconds": run.seconds,
        "passed": all(finding.passed for finding in findings),
        "interactions": [_interaction(run, number) for number in run.interactions],
        "destinations": [
            {"name": name, **_times(latency)} for name, latency in run.deliveries.items()
        ],
        "broker": {"cores": run.core_utilisation, "disk": run.disk_utilisation},
        "audit": [{key: getattr(each, key) for key in AUDITED_COLUMNS} for each in findings],
    }


def _interaction(run: Run, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"interaction": number}
    counts = (run.started[number], *run.counted(number))
    expected = run.workload.expected_counts(number, run.seconds)
    for what, counted, wanted in zip(COUNTED, counts, expected, strict=True):
        row |= {what: counted, f"{what}_expected": wanted}
    return row | {"late": run.late[number], "completion": _times(run.completions[number])}


def _times(latency: Latency) -> dict[str, float | int]:
    return {
        "count": latency.count,
        "mean": 1000 * latency.mean,
        **{f"p{percent:g}": 1000 * latency.percentile(percent) for percent in PERCENTILES},
    }


def run_table(run: Run) -> Table:
    """A table of expected and counted messages and the times of each interaction."""
    columns = (*COUNTED_COLUMNS, "late %", "done mean ms", "p90 ms")
    table = _table(f"{run.workload.scenario.name}, {run.seconds:g} s", columns)
    for row in (_interaction(run, number) for number in run.interactions):
        cells = [str(row["interaction"])]
        for counted in COUNTED:
            cells += [str(row[counted]), f"{row[f'{counted}_expected']:.1f}"]
        times = (f"{row['completion'][key]:.3f}" for key in ("mean", "p90"))
        table.add_row(*cells, f"{100 * row['late']:.1f}", *times)
    return table


def progress_table(progress: Progress) -> Table:
    """A table of messages counted so far and expected by now for each interaction."""
    workload, phases = progress.workload, progress.workload.phases
    seconds = min(progress.time, phases.end)
    far = f"{seconds:.0f} of {phases.end:g} s, {phases.at(progress.time)}"
    table = _table(f"{workload.scenario.name}, {far}", COUNTED_COLUMNS)
    for number in sorted(workload.drivers):
        cells = [str(number)]
        for count, wanted in zip(progress.counted(number), progress.expected(number), strict=True):
            cells += [str(count), f"{wanted:.1f}"]
        table.add_row(*cells)
    return table


def destination_table(run: Run, most: int = 20) -> Table:
    """A table of the delivery times of the slowest destinations; the JSON report has all."""
    slowest = sorted(run.deliveries.items(), key=lambda each: -each[1].p90 if each[1].count else 0)
    some = f"the {most} slowest of {len(slowest)}; --json has all"
    title = f"delivery times, {some if most < len(slowest) else 'slowest first'}"
    columns = ("received", "mean ms", "p50", "p90", "p99")
    table = _table(title, columns, texts=("destination",))
    for name, latency in slowest[:most]:
        times = _times(latency)
        cells = (times[key] for key in ("mean", "p50", "p90", "p99"))
        table.add_row(name, str(latency.count), *(f"{cell:.3f}" for cell in cells))
    return table


def audit_table(findings: list[Finding]) -> Table:
    """A table of the rules with their verdicts; every failure has its own row."""
    table = _table("audit", texts=AUDITED_COLUMNS)
    for rule in dict.fromkeys(each.rule for each in findings):
        group = [each for each in findings if each.rule == rule]
        failed = [each for each in group if not each.passed]
        if not failed:
            allowed = {each.allowed for each in group}
            shown = allowed.pop() if len(allowed) == 1 else "as each asks for"
            table.add_row(rule, f"all {len(group)}", "", shown, "PASS")
        for each in failed:
            table.add_row(rule, each.subject, each.measured, each.allowed, "FAIL")
    return table


def _table(title: str, numbers: Iterable[str] = (), texts: Iterable[str] = ()) -> Table:
    """An empty table with columns of texts, and of numbers to their right."""
    from rich.table import Table

    table = Table(title=title)
    for column in texts:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right")
    return table
