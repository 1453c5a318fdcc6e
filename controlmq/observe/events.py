"""What happened to a consumer between two readings, in words that an operator knows."""

from __future__ import annotations

from dataclasses import dataclass

from controlmq.observe.registry import Reading
from controlmq.sample import STARVED_TOLERANCE_SHARE


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changed with the sample that ended at ``time`` (seconds since 1970)."""

    time: float
    kind: str
    text: str


def events(before: Reading | None, now: Reading) -> list[Event]:
    """What is different in ``now``; everything that is out of the ordinary in a first one."""
    found: list[tuple[str, str]] = []
    dry = now.starved > STARVED_TOLERANCE_SHARE
    was_dry = before is not None and before.starved > STARVED_TOLERANCE_SHARE
    if dry != was_dry:
        found.append(("dry", "the queue ran dry" if dry else "messages come again"))
    was_frozen = before is not None and before.frozen
    if now.frozen != was_frozen:
        found.append(("frozen", "the law is frozen" if now.frozen else "the law moves again"))
    was_at = before.at_limit if before is not None else None
    if now.at_limit != was_at:
        text = f"the prefetch is at its {now.at_limit} limit, {now.prefetch:g}"
        found.append(
            ("limit", text if now.at_limit else f"the prefetch has left its {was_at} limit")
        )
    if before is None:
        return [Event(now.time, *each) for each in found]
    if now.lanes > before.lanes:
        found.append(("lane", f"a lane opened, there are {now.lanes}"))
    elif now.lanes < before.lanes:
        found.append(("lane", f"a lane was retired, {now.lanes} left"))
    if now.lanes_refused > before.lanes_refused:
        found.append(("lane", "the broker refused a lane"))
    if now.law_number != before.law_number:
        same = now.law == before.law
        found.append(("model", "the model changed" if same else f"the law is {now.law} now"))
    if now.switched_off != before.switched_off:
        turned = "on, the prefetch is fixed" if now.switched_off else "off"
        found.append(("switch", f"the kill switch is {turned}"))
    if now.goals != before.goals:
        words = ", ".join(f"{kind} {value:g}" for kind, value in now.goals.items())
        found.append(("goal", f"the goal is {words}" if words else "there is no goal any more"))
    if now.controller_failures > before.controller_failures:
        found.append(("failure", "the controller failed, the prefetch stays"))
    if now.record_failures > before.record_failures:
        found.append(("failure", "recording failed"))
    return [Event(now.time, *each) for each in found]
