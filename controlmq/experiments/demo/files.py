"""The demo's folder: report, pictures, traces, model and controllers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from controlmq.errors import InputError
from controlmq.experiments.demo.experiment import Outcome
from controlmq.experiments.demo.report import TITLE, report
from controlmq.experiments.page import title_element
from controlmq.replacing import write_atomically

REPORT = "report.html"
TRACES = "traces"


def claim(out: Path) -> None:
    """Make the folder, or clear that of an earlier demo; one with other files is refused."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        before = out / REPORT
        ours = before.is_file() and title_element(TITLE) in before.read_text("utf-8")
        if any(out.iterdir()) and not ours:
            raise InputError(f"the folder {out} holds other files; give --out a new one.")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot use the folder {out}: {error}.") from None
    shutil.rmtree(out / TRACES, ignore_errors=True)


def write(outcome: Outcome, data: dict[str, Any], out: Path) -> None:
    """Write everything but the traces, which are there already; ``data`` are the findings."""
    from controlmq.experiments.demo.pictures import pictures

    drawn = pictures(outcome)
    for name, svg in drawn.items():
        write_atomically(out / f"{name}.svg", svg)
    outcome.model.save(out / "model.json")
    for kind, design in outcome.designs.items():
        design.tuning.save(out / f"{kind}.json")
    write_atomically(out / REPORT, report(outcome, data, drawn))
