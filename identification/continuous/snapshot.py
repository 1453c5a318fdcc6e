"""Files held still while Spark reads them, while consumers keep writing.

A batch reads its files more than once. A file that was replaced in between would be counted by
one pass and not by the other; a second name for the same content keeps it as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held_still(files: Iterable[Path], place: Path) -> Iterator[dict[Path, Path]]:
    """Names in ``place`` for the files, which is gone afterwards; files that are gone have none.

    A hard link where the file system has them, else a copy.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    held: dict[Path, Path] = {}
    try:
        for number, file in enumerate(files):
            name = place / f"{number:08d}.parquet"
            try:
                _second_name(file, name)
            except FileNotFoundError:
                continue
            held[name] = file
        yield held
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _second_name(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, name)
