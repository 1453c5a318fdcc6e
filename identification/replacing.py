"""A folder that is replaced as a whole, and put back where a run died while replacing it.

A run writes into a hidden folder beside its target. When all of it is there, the target moves into
the hidden folder and what is new takes its place: two renames. A process that dies between them
leaves no target, but the one before in the hidden folder, from where the next that looks for the
target takes it back. A run holds a lock on its hidden folder, so that nobody takes from the living.

This is about folders of this machine; :mod:`identification.elsewhere` has those of others.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlmq.errors import InputError
from controlmq.files import write_atomically

NEW, BEFORE = "out", "before"
"""Inside the hidden folder: what is being written, and the target that it replaces."""


def hidden_name(name: str) -> str:
    """A name for a hidden folder beside the folder ``name``, like no other."""
    return f".{name}.{uuid.uuid4().hex[:12]}.tmp"


def is_hidden_name(found: str, name: str) -> bool:
    """Whether :func:`hidden_name` made ``found`` of ``name``."""
    return re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.tmp", found) is not None


class Here:
    """A folder of this machine."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).resolve()

    def names(self) -> list[str]:
        """What is in the folder, nothing if there is none."""
        if self.folder.is_file():
            raise InputError(f"{self.folder} is a file; name a folder.")
        return [path.name for path in self.folder.iterdir()] if self.folder.exists() else []

    def write(self, address: str, text: str) -> None:
        """A small file."""
        write_atomically(Path(address), text)

    @contextmanager
    def replacement(self) -> Iterator[str]:
        """A hidden folder to write in, whose ``out`` takes the place of this one at the end.

        Where the block raises, the folder is as it was.
        """
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            hidden = self.folder.with_name(hidden_name(self.folder.name))
            hidden.mkdir()
        except OSError as error:
            raise InputError(f"cannot make the folder {self.folder}: {error.strerror}.") from None
        lock = os.open(hidden, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield str(hidden)
            if self.folder.exists():
                os.replace(self.folder, hidden / BEFORE)
            os.replace(hidden / NEW, self.folder)
        finally:
            self._put_back(hidden)
            shutil.rmtree(hidden, ignore_errors=True)
            os.close(lock)

    def restore(self) -> None:
        """Put back what a run that died had moved away, and remove what else it left."""
        for hidden in sorted(self.folder.parent.glob(".*.tmp")):
            if is_hidden_name(hidden.name, self.folder.name) and not _in_use(hidden):
                self._put_back(hidden)
                shutil.rmtree(hidden, ignore_errors=True)

    def _put_back(self, hidden: Path) -> None:
        if not self.folder.exists() and (hidden / BEFORE).exists():
            os.replace(hidden / BEFORE, self.folder)


def _in_use(hidden: Path) -> bool:
    """Whether a run holds its lock, or it is not ours to look at."""
    try:
        lock = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
