"""The audit of a run: the rules of SPECjms2007, each PASS or FAIL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.studies.specjms.phased_run import Run

RATE_TOLERANCE = 0.05
COUNT_TOLERANCE = 0.05
MOST_LATE_SHARE = 0.20
SLOWEST_P90_SECONDS = 5.0


@dataclass(frozen=True)
class Finding:
    """A rule applied to one subject: what was measured, what is allowed, whether it passes."""

    rule: str
    subject: str
    measured: str
    allowed: str
    passed: bool

    @property
    def verdict(self) -> str:
        """PASS or FAIL."""
        return "PASS" if self.passed else "FAIL"


def audit(run: Run) -> list[Finding]:
    """All findings, by rule."""
    return [
        *_empty_at_start(run),
        *_rates(run),
        *_counts(run),
        *_pacing(run),
        *_delivery_times(run),
        *_nothing_lost(run),
    ]


def passes(run: Run) -> bool:
    """Whether a run passes all rules."""
    return all(finding.passed for finding in audit(run))


def _empty_at_start(run: Run) -> Iterator[Finding]:
    for queue, count in run.waiting.items():
        yield Finding("empty at start", queue, f"{count} messages", "0", count == 0)


def _rates(run: Run) -> Iterator[Finding]:
    for number in run.interactions:
        measured = run.started[number] / run.seconds
        wanted = run.workload.topology.starts[number - 1]
        yield _near("input rate", f"interaction {number}", measured, wanted, RATE_TOLERANCE, "/s")


def _counts(run: Run) -> Iterator[Finding]:
    for number in run.interactions:
        _, *expected = run.workload.expected_counts(number, run.seconds)
        counts = zip(("sent", "received"), run.counted(number), expected, strict=True)
        for what, counted, wanted in counts:
            subject = f"interaction {number} {what}"
            yield _near("message count", subject, counted, wanted, COUNT_TOLERANCE, "")


def _near(
    rule: str, subject: str, measured: float, wanted: float, tolerance: float, unit: str
) -> Finding:
    off = measured / wanted - 1
    found = f"{measured:.6g}{unit} ({100 * off:+.2f} %)"
    allowed = f"{wanted:.6g}{unit} +-{100 * tolerance:g} %"
    return Finding(rule, subject, found, allowed, abs(off) <= tolerance)


def _pacing(run: Run) -> Iterator[Finding]:
    for number in run.interactions:
        share, allowed = run.late[number], f"{100 * MOST_LATE_SHARE:g} %"
        late = f"{100 * share:.2f} % late"
        yield Finding("pacing", f"interaction {number}", late, allowed, share <= MOST_LATE_SHARE)


def _delivery_times(run: Run) -> Iterator[Finding]:
    for queue, latency in run.deliveries.items():
        # Another rule finds queues that received nothing.
        if latency.count > 0:
            measured = f"90th percentile {1000 * latency.p90:.4g} ms"
            allowed = f"{1000 * SLOWEST_P90_SECONDS:g} ms"
            passed = latency.p90 <= SLOWEST_P90_SECONDS
            yield Finding("delivery time", queue, measured, allowed, passed)


def _nothing_lost(run: Run) -> Iterator[Finding]:
    for queue, count in run.missed.items():
        yield Finding("all received", queue, f"{count} missed", "0", count == 0)
