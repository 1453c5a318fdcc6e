"""JSON that must be well formed, and the small files that users keep it in."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from controlmq.errors import InputError
from controlmq.replacing import write_atomically


class JsonFile:
    """A value that a user keeps in a JSON file; ``what`` is what a message calls that file."""

    what: ClassVar[str]
    file_format: ClassVar[str]
    file_version: ClassVar[int] = 1

    def to_json(self) -> str:
        """The value as a JSON document."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, text: str, source: str | None = None) -> Self:
        """The value in a JSON document; what is malformed is refused, naming ``source``."""
        source = source or cls.what
        content = read_json(text, source, cls.file_format, cls.file_version)
        try:
            return cls.from_content(content)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """The value that the object of a JSON document describes."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the value to ``path``; a reader sees the old file or the new, never a half."""
        write_atomically(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The value in the file at ``path``."""
        return cls.from_json(read_text(path, cls.what), source=str(path))


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


def check_keys(
    content: dict[str, Any], required: Collection[str], optional: Collection[str]
) -> None:
    """Refuse an object that lacks a required key or has one that is not known."""
    missing = [key for key in required if key not in content]
    if missing:
        raise InputError(f"{', '.join(missing)} missing; needed: {', '.join(required)}.")
    unknown = sorted(content.keys() - {*required, *optional})
    if unknown:
        raise InputError(f"unknown key {', '.join(unknown)}; remove it.")


def json_types(value: Any) -> Any:
    """``value`` in JSON's own types.

    Complex numbers become [real, imaginary], numbers that are not finite null.
    """
    if isinstance(value, dict):
        return {str(key): json_types(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_types(item) for item in value]
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
