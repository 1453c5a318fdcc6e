"""Adapters write to no book of the core: they report what happened, and read what they need."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlmq import clients

CLIENTS = Path(inspect.getfile(clients)).parent

BOOKS = {
    "core",
    "ledger",
    "lane",
    "window",
    "plan",
    "gate",
    "bucket",
    "sensors",
    "turnaround",
    "spread",
}

CHANGES = {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "update"}
"""Methods that change a list, a set or a dictionary."""


def name_of(node: ast.expr) -> str:
    """The last name of what a program writes for an object: ``gate`` in ``consumer.gate``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def writes(source: str) -> Iterator[str]:
    """What a program changes of the books, as it is written there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = node.value if isinstance(node, ast.Subscript) else node
        elif isinstance(node, ast.Call) and name_of(node.func) in CHANGES:
            target = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        else:
            continue
        if isinstance(target, ast.Attribute) and name_of(target.value) in BOOKS:
            yield ast.unparse(node)


@pytest.mark.parametrize("file", sorted(CLIENTS.rglob("*.py")), ids=lambda file: file.name)
def test_an_adapter_writes_to_no_book(file: Path) -> None:
    assert not list(writes(file.read_text()))


@pytest.mark.parametrize(
    "source",
    [
        "self.runner.core.ledger.ordered = False",
        "window.bucket, gate.bucket = buckets",
        "plan.linger += 1",
        "lane.kept[0] = held",
        "core.ledger.fetched.add(tag)",
        "del consumer.gate.waiting[0]",
    ],
)
def test_a_write_is_noticed(source: str) -> None:
    assert list(writes(source))


def test_a_command_is_taken_from_the_core() -> None:
    assert not list(writes("self._do(self.core.commands.popleft())"))
