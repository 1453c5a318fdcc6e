"""What ``controlmq identify --out FOLDER`` leaves: a model file for every group, a table, a report.

The table is written last: it names the model files that belong to it, and a folder without one
is not complete. Model files that an earlier run left and this one did not are removed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from controlmq.errors import InputError
from controlmq.files import write_atomically

if TYPE_CHECKING:
    from identification import Diagnosis, Fit

TABLE = "models.parquet"
REPORT = "report.html"


def write_fleet(fits: Sequence[Fit], told: Sequence[Diagnosis], out: Path) -> list[str]:
    """Write all of it; returns the paths of the models, the report and the table."""
    import pyarrow.parquet as pq

    from controlmq.cli.fleet_report import report
    from identification.table import table_of

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}.") from None
    before = _files_before(out)
    names = _file_names(fits)
    for fit, name in zip(fits, names, strict=True):
        if fit.model is not None and name is not None:
            fit.model.save(out / name)
    write_atomically(out / REPORT, report(fits, told))
    content = io.BytesIO()
    pq.write_table(table_of(fits, names), content)
    write_atomically(out / TABLE, content.getvalue())
    written = [name for name in names if name is not None]
    for stale in before - set(written):
        (out / stale).unlink(missing_ok=True)
    return [str(out / name) for name in (*written, REPORT, TABLE)]


def _files_before(out: Path) -> set[str]:
    """The model files that an earlier run has written here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        listed = pq.read_table(out / TABLE, columns=["file"])["file"].to_pylist()
    except (OSError, pa.ArrowException, KeyError):
        return set()
    return {name for name in listed if name is not None and Path(name).name == name}


def _file_names(fits: Sequence[Fit]) -> list[str | None]:
    """A name of its own for every model, as like its group as a file name can be."""
    taken: set[str] = set()
    names: list[str | None] = []
    for fit in fits:
        if fit.model is None:
            names.append(None)
            continue
        # File systems that fold case must not fold two groups into one.
        stem = re.sub(r"[^\w.-]", "_", fit.group).lstrip(".")[:200] or "group"
        name, count = f"{stem}.json", 2
        while name.lower() in taken:
            name, count = f"{stem}-{count}.json", count + 1
        taken.add(name.lower())
        names.append(name)
    return names
