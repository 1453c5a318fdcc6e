"""Adapters write to no book of the core: they report what happened, and read what they need."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlmq import clients
from controlmq.consumer.consumer import Consumer, Shape

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

CONSUMERS = {"consumer", "plant"}
"""Names that a consumer of the core has in adapters, where other objects may have them too."""

OF_A_CONSUMER = frozenset(dir(Consumer("tag", "orders", 1.0, Shape(), 0.0)))

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
        if isinstance(target, ast.Attribute) and is_in_a_book(target):
            yield ast.unparse(node)


def is_in_a_book(target: ast.Attribute) -> bool:
    owner = name_of(target.value)
    return owner in BOOKS or (owner in CONSUMERS and target.attr in OF_A_CONSUMER)


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
        "consumer.plant.tag_is_new = False",
        "lane.consumer.queue = name",
        "plant.notices.clear()",
    ],
)
def test_a_write_is_noticed(source: str) -> None:
    assert list(writes(source))


def test_a_command_is_taken_from_the_core() -> None:
    assert not list(writes("self._do(self.core.commands.popleft())"))
