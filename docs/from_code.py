"""The parts of reference pages that are made from the code, as Markdown.

A page says where with a comment, ``<!-- from the code: commands -->``, which viewers do not show.
"""

from __future__ import annotations

import inspect
import os
import re
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from textwrap import dedent
from typing import Any, get_args, get_origin, get_type_hints
from unittest.mock import patch

USAGE_COLUMNS = "96"
"""Characters of a line of usage, whatever the terminal of the build has."""

FIRST = ("wrap", "unwrap", "adaptive", "adapt")
"""Names with which most programs begin."""

PLAIN_TYPES = {
    float: "number",
    int: "whole number",
    str: "text",
    bool: "true or false",
    object: "value",
}
"""What a user of a scenario calls the types of Python."""


def filled(page: str) -> str:
    """The page with what its comments ask for."""

    def made(found: re.Match[str]) -> str:
        name, *arguments = found[1].split()
        return MADE[name](*arguments)

    return re.sub(r"<!-- from the code: ([\w. ]+?) -->", made, page)


def metrics() -> str:
    """A row for each metric."""
    from controlmq.observe.metrics import DISTRIBUTIONS, METRICS, PREFIX

    rows = [
        (_code(each.exposed_name), each.meaning, each.kind, _unit(each.unit), _code(each.label))
        for each in METRICS
    ]
    rows += [
        (_code(PREFIX + each.name), each.meaning, "histogram", "seconds", "")
        for each in DISTRIBUTIONS
    ]
    return _table(("metric", "what it is", "kind", "unit", "further label"), rows)


def commands() -> str:
    """A section for each command: usage, options, and what its help teaches."""
    from controlmq.cli.main import command_parser

    (found,) = (
        action for action in command_parser()._actions if isinstance(action, _SubParsersAction)
    )
    return "\n".join(_command(name, parser) for name, parser in found.choices.items())


def scenario() -> str:
    """A section for each table of a scenario file."""
    from simulator.scenario.scenario import Scenario

    seen: dict[type, str] = {}
    _collect(Scenario, "the file itself", seen)
    return "\n".join(_words(table, where) for table, where in seen.items())


def api(package: str) -> str:
    """The public names of a package with their documentation; those of its parts follow."""
    documented: set[int] = set()
    return "\n".join(_module(module, documented) for module in _public_modules(package))


MADE: Mapping[str, Callable[..., str]] = {
    "metrics": metrics,
    "commands": commands,
    "scenario": scenario,
    "api": api,
}


def _public_modules(package: str) -> list[str]:
    """The package, and what users import from below it."""
    if package != "controlmq":
        return [package, *(["identification.session"] if package == "identification" else [])]
    clients = import_module("controlmq.clients")
    parts = [f"controlmq.clients.{each.name}" for each in iter_modules(clients.__path__)]
    public = [name for name in parts if hasattr(import_module(name), "__all__")]
    return [
        *("controlmq", *public, "controlmq.clients.pika.service"),
        *("controlmq.controllers", "controlmq.goals", "controlmq.loop", "controlmq.performance"),
        "controlmq.observe.otel",
    ]


def _module(name: str, documented: set[int]) -> str:
    """One module as reST, which is what docstrings are written in."""
    module = import_module(name)
    names = getattr(module, "__all__", None) or [
        each
        for each, value in vars(module).items()
        if not each.startswith("_") and getattr(value, "__module__", "") == name
    ]
    parts = [f"## `{name}`\n\n" + _markdown(inspect.getdoc(module) or "")]
    for each in sorted(names, key=_in_order_of_use):
        value = getattr(module, each)
        if id(value) in documented or not callable(value) or _is_word(value):
            continue
        documented.add(id(value))
        directive = "autoclass" if inspect.isclass(value) else "autofunction"
        members = "   :members:\n" if directive == "autoclass" else ""
        parts.append(f"```{{eval-rst}}\n.. {directive}:: {name}.{each}\n{members}```")
    return "\n\n".join(parts) + "\n"


def _in_order_of_use(name: str) -> tuple[int, bool, str]:
    """What a consumer in production calls comes first, then functions, then classes."""
    place = FIRST.index(name) if name in FIRST else len(FIRST)
    return place, name[0].isupper(), name


def _is_word(value: object) -> bool:
    """Whether it is a table of a scenario, which has a page of its own."""
    return is_dataclass(value) and getattr(value, "__module__", "").startswith("simulator.scenario")


def _collect(table: type, where: str, seen: dict[type, str]) -> None:
    if table in seen:
        return
    seen[table] = where
    for key, hint in get_type_hints(table).items():
        several, part = _part(hint)
        if part is None:
            continue
        if table.__name__ == "Scenario":
            _collect(part, f"`[[{key}]]`" if several else f"`[{key}]`", seen)
        else:
            _collect(part, f"`{key}` of {_type(table)}, for example", seen)


def _part(hint: Any) -> tuple[bool, type | None]:
    """The dataclass that a hint names, and whether there may be several of it."""
    if is_dataclass(hint) and isinstance(hint, type):
        return False, hint
    for inner in get_args(hint):
        _, part = _part(inner)
        if part is not None:
            return get_origin(hint) is Sequence, part
    return False, None


def _words(table: type, where: str) -> str:
    hints = get_type_hints(table)
    rows = [
        (_code(each.name), _type(hints[each.name]), _default(each, hints[each.name]))
        for each in fields(table)
    ]
    home = "controlmq.goals" if table.__module__ == "controlmq.goals" else "simulator"
    return (
        f"## {table.__name__}\n\nIn a file: {where}. In Python: `{home}.{table.__name__}`.\n\n"
        f"{_markdown(inspect.getdoc(table) or '')}\n\n"
        + _table(("key", "given as", "without it"), rows)
    )


def _type(hint: Any) -> str:
    """A type in the words of somebody who writes TOML."""
    if hint in PLAIN_TYPES:
        return PLAIN_TYPES[hint]
    if is_dataclass(hint):
        name = hint.__name__
        return f"[{name}](#{name.lower()})"
    inner = [each for each in get_args(hint) if each is not type(None)]
    if get_origin(hint) is Sequence:
        return f"list of {_type(inner[0])}{'s' if inner[0] in PLAIN_TYPES else ''}"
    if isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping):
        return f"table of {_type(inner[1])}"
    return " or ".join(_type(each) for each in inner)


def _default(field: Field[Any], hint: Any) -> str:
    if field.default is MISSING and field.default_factory is MISSING:
        return "needed"
    value = field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]
    if value is None:
        return "none" if type(None) in get_args(hint) else "needed"
    if isinstance(value, bool):
        return _code(str(value).lower())
    if isinstance(value, str | float | int):
        return _code(f'"{value}"' if isinstance(value, str) else f"{value:g}")
    return "none"


def _command(name: str, parser: ArgumentParser) -> str:
    with patch.dict(os.environ, COLUMNS=USAGE_COLUMNS):
        usage = dedent(parser.format_usage().replace("usage: ", " " * 7, 1))
    sections = []
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.help != SUPPRESS]
        if actions:
            rows = [_option(parser, each) for each in actions]
            sections.append(_table((group.title or "options", "meaning"), rows))
    return (
        f"## controlmq {name}\n\n{_markdown(parser.description or '')}\n\n"
        f"```text\n{usage}```\n\n" + "\n".join(sections) + "\n" + _taught(parser.epilog or "")
    )


def _option(parser: ArgumentParser, action: Action) -> tuple[str, str]:
    formatter = parser._get_formatter()
    usage = formatter._format_action_invocation(action)
    meaning = formatter._expand_help(action) if action.help else ""
    needed = " (needed)" if action.required and action.option_strings else ""
    return _code(usage), _markdown(meaning) + needed


def _taught(epilog: str) -> str:
    """Paragraphs as paragraphs, what is indented as it stands."""
    parts = []
    for block in re.split(r"\n\s*\n", epilog.strip("\n")):
        lines = block.splitlines()
        plain = [line for line in lines if not line.startswith(" ")]
        if len(plain) == len(lines):
            parts.append(_markdown(block))
        elif len(plain) == 1 and plain[0] == lines[0]:
            language = "sh" if plain[0] == "examples:" else "text"
            body = inspect.cleandoc("\n" + "\n".join(lines[1:]))
            title = plain[0][0].upper() + plain[0][1:]
            parts.append(f"{_markdown(title)}\n\n```{language}\n{body}\n```")
        else:
            parts.append(f"```text\n{block}\n```")
    return "\n\n".join(parts) + "\n"


def _markdown(text: str) -> str:
    """Text of a docstring or a help: roles of reST become code, and so do options."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", text)
    text = re.sub(r"::\n", ":\n", text)
    text = re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)(?!`)", r"`\1`", text)
    return re.sub(r"(?<![`\w])([*<])(?!`)", r"\\\1", text)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = (
        " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in lines
    )
    return "".join(f"| {line} |\n" for line in cells)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _unit(unit: str) -> str:
    """UCUM's notation in words."""
    words = {"1": "", "s": "seconds", "{message}/s": "messages/second"}
    return words.get(unit, f"{unit.strip('{}')}s")
