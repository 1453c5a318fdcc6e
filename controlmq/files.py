"""Small files that must never be seen half-written, and JSON that must be well formed."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from controlmq.errors import ControlmqError, InputError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside ``path`` and rename, so that readers see the old file or the new one."""
    data = content.encode() if isinstance(content, str) else content
    name = ""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException as error:
        if name:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ControlmqError(f"cannot write {path}: {error.strerror}.") from None
        raise


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """The text of a small file that the user named."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the {what} {path}: {error}") from None


def read_json(text: str, source: str, file_format: str, version: int) -> dict[str, Any]:
    """The object in a JSON document that says it is of this format and version."""
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{source} holds a JSON {type(content).__name__}; an object is needed.")
    if content.get("format") != file_format:
        raise InputError(
            f"{source} has the format {content.get('format')!r}; {file_format!r} is needed."
        )
    if content.get("version") != version:
        raise InputError(
            f"{source} has version {content.get('version')!r}; this release reads {version}."
        )
    return content


def json_format(text: str) -> str | None:
    """The format a JSON document says it has, if it is one and says so."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = content.get("format") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
