"""Files and folders that are replaced as a whole: a reader sees the old one or the new one.

A file is written beside its target and renamed. A folder is written inside a hidden folder beside
its target; when it is complete, the target moves into the hidden folder and the new one takes its
place: two renames. A process that dies between them leaves no target, but the old one is in the
hidden folder, and the next process that looks for the target puts it back. Each process locks its
hidden folder, so that others do not treat it as abandoned.

This is for folders of this machine; :mod:`identification.elsewhere` has those of others.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from controlmq.errors import ControlmqError, InputError

NEW, BEFORE = "out", "before"
"""Inside the hidden folder: what is being written, and the target that it replaces."""


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of ``path`` at the end.

    If the block raises, ``path`` stays as it was.
    """
    hidden = path.with_name(hidden_name(path.name))
    try:
        with open(hidden, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside ``path`` and rename, so that readers see the old file or the new one."""
    try:
        with new_file(path) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise ControlmqError(f"cannot write {path}: {error.strerror}.") from None


def hidden_name(name: str) -> str:
    """A name for what is hidden beside the file or folder ``name``, like no other."""
    return f".{name}.{uuid.uuid4().hex[:12]}.tmp"


def is_hidden_name(found: str, name: str) -> bool:
    """Whether :func:`hidden_name` made ``found`` of ``name``."""
    return re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.tmp", found) is not None


class Here:
    """A folder of this machine."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).resolve()

    def names(self) -> list[str]:
        """The names of the files in the folder; none if there is no folder."""
        if self.folder.is_file():
            raise InputError(f"{self.folder} is a file; name a folder.")
        return [path.name for path in self.folder.iterdir()] if self.folder.exists() else []

    def write(self, address: str, text: str) -> None:
        """Write a small file."""
        write_atomically(Path(address), text)

    @contextmanager
    def replacement(self) -> Iterator[str]:
        """A hidden folder to write in, whose ``out`` takes the place of this one at the end.

        If the block raises, the folder stays as it was.
        """
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            hidden = self.folder.with_name(hidden_name(self.folder.name))
            hidden.mkdir()
        except OSError as error:
            raise InputError(f"cannot make the folder {self.folder}: {error.strerror}.") from None
        with _locked(hidden):
            try:
                yield str(hidden)
                if self.folder.exists():
                    os.replace(self.folder, hidden / BEFORE)
                os.replace(hidden / NEW, self.folder)
            finally:
                self._put_back(hidden)
                shutil.rmtree(hidden, ignore_errors=True)

    def restore(self) -> None:
        """Put back what a process that died had moved away, and remove what else it left."""
        for hidden in sorted(self.folder.parent.glob(".*.tmp")):
            if is_hidden_name(hidden.name, self.folder.name) and not _in_use(hidden):
                self._put_back(hidden)
                shutil.rmtree(hidden, ignore_errors=True)

    def _put_back(self, hidden: Path) -> None:
        if not self.folder.exists() and (hidden / BEFORE).exists():
            os.replace(hidden / BEFORE, self.folder)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write in that becomes ``folder`` at the end; an error in the block removes it."""

    def refuse_existing() -> None:
        if folder.exists():
            raise InputError(f"{folder} exists already; give --out a new folder.")

    refuse_existing()
    try:
        with Here(folder).replacement() as hidden:
            inside = Path(hidden, NEW)
            inside.mkdir()
            yield inside
            refuse_existing()
    except OSError as error:
        raise ControlmqError(f"cannot write {folder}: {error.strerror or error}.") from None


@contextmanager
def _locked(hidden: Path) -> Iterator[None]:
    """Hold the lock of a hidden folder; the system takes it back when the process dies."""
    import fcntl  # not on Windows, where a consumer may run

    lock = os.open(hidden, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _in_use(hidden: Path) -> bool:
    """Whether a process holds the lock, or the folder is not ours to look at."""
    import fcntl

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
