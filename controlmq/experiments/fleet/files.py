"""The folder that ``controlmq identify --out`` writes: models, a table of them, a report.

All files are written in a hidden folder first, so that a full disk leaves everything as it was, and
then get their names, the table last: it names the model files that belong to it, and a folder
without one is not complete. Model files that an earlier run left and this one did not are removed.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from controlmq.errors import InputError
from controlmq.replacing import write_atomically

if TYPE_CHECKING:
    from identification import Diagnosis, Fit

TABLE = "models.parquet"
REPORT = "report.html"
HIDDEN = ".models.tmp"
TABLE_BEFORE = ".models.parquet.before"
"""The table of an earlier run while its files are replaced."""


def write_fleet(fits: Sequence[Fit], diagnoses: Sequence[Diagnosis], out: Path) -> list[str]:
    """Write the folder; returns the paths of the models, the report and the table."""
    from identification.continuous.model_folder import file_name

    names = [None if fit.model is None else file_name(fit.group) for fit in fits]
    written = [name for name in names if name is not None]
    hidden = out / HIDDEN
    try:
        out.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir()
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}.") from None
    try:
        _write_all(fits, diagnoses, names, hidden)
        _move(hidden, out, written)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return [str(out / name) for name in (*written, REPORT, TABLE)]


def _write_all(
    fits: Sequence[Fit], diagnoses: Sequence[Diagnosis], names: Sequence[str | None], hidden: Path
) -> None:
    """Write every file into the hidden folder."""
    import pyarrow.parquet as pq

    from controlmq.experiments.fleet.report import report
    from identification.table import table_of

    for fit, name in zip(fits, names, strict=True):
        if fit.model is not None and name is not None:
            fit.model.save(hidden / name)
    write_atomically(hidden / REPORT, report(fits, diagnoses))
    content = io.BytesIO()
    pq.write_table(table_of(fits, names), content)
    write_atomically(hidden / TABLE, content.getvalue())


def _move(hidden: Path, out: Path, models: Sequence[str]) -> None:
    """Give the files their names; until the last has it, there is no table."""
    before = _models_listed(out / TABLE) | _models_listed(out / TABLE_BEFORE)
    if (out / TABLE).exists():
        os.replace(out / TABLE, out / TABLE_BEFORE)
    for name in (*models, REPORT, TABLE):
        os.replace(hidden / name, out / name)
    for stale in before - set(models):
        (out / stale).unlink(missing_ok=True)
    (out / TABLE_BEFORE).unlink(missing_ok=True)


def _models_listed(table: Path) -> set[str]:
    """The model files that an earlier run has written, as its table says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        listed = pq.read_table(table, columns=["file"])["file"].to_pylist()
    except (OSError, pa.ArrowException, KeyError):
        return set()
    return {name for name in listed if name is not None and Path(name).name == name}
