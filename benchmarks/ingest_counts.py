"""Ten million raw samples with one bad row in a hundred: where every one of them went."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.known.raw_samples import write_samples

SAMPLES = 10_000_000
GROUPS = 2_000
BAD_SHARE = 0.01


def run() -> dict[str, Any]:
    from identification.ingest import ingest
    from identification.raw import Columns
    from identification.session import session

    with session("local[2]") as spark, tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "samples.csv")
        written = write_samples(raw, GROUPS, SAMPLES // GROUPS, BAD_SHARE, seed=1)
        start = time.perf_counter()
        done = ingest(spark, [raw], Path(folder, "out"), columns=Columns({"group": "consumer"}))
        seconds = time.perf_counter() - start
    wanted = {
        name: getattr(written, name)
        for name in ("samples", "transitions", "traces", "gaps", "quarantined")
    }
    return {
        "done": asdict(done),
        "wanted": wanted,
        "all_as_wanted": asdict(done) == wanted,
        "adds_up": done.samples
        == sum(done.quarantined.values()) + done.transitions + done.traces + done.gaps,
        "seconds": seconds,
        "samples_per_second": done.samples / seconds,
    }
