"""Adapters write to no book of the core: they report what happened, and read what they need.

They read attributes of books. A call on one counts as a write.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlmq import clients
from controlmq.consumer.consumer import Consumer, Shape

CLIENTS = Path(inspect.getfile(clients)).parent

PLANT_OF_A_LOOP = CLIENTS / "calendar_time.py"
"""Through it a loop observes and actuates a consumer that the core has given it as due."""

ADAPTERS = sorted({*CLIENTS.rglob("*.py")} - {PLANT_OF_A_LOOP})

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
        return node.attr.lstrip("_")
    return node.id if isinstance(node, ast.Name) else ""


def writes(source: str) -> Iterator[str]:
    """What a program changes of the books, as it is written there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            written = isinstance(node.func, ast.Attribute) and calls_a_book(node.func)
        elif isinstance(node, ast.Subscript):
            written = not isinstance(node.ctx, ast.Load) and is_in_a_book(node.value)
        elif isinstance(node, ast.Attribute):
            written = not isinstance(node.ctx, ast.Load) and is_in_a_book(node)
        else:
            continue
        if written:
            yield ast.unparse(node)


def calls_a_book(method: ast.Attribute) -> bool:
    """Whether a method changes a book, or a list, a set or a dictionary in one.

    A method of the core itself may be called: that is how an adapter reports and asks.
    """
    if method.attr in CHANGES and is_in_a_book(method.value):
        return True
    return name_of(method.value) != "core" and is_in_a_book(method)


def is_in_a_book(target: ast.expr) -> bool:
    if not isinstance(target, ast.Attribute):
        return False
    owner = name_of(target.value)
    return owner in BOOKS or (owner in CONSUMERS and target.attr in OF_A_CONSUMER)


@pytest.mark.parametrize("file", ADAPTERS, ids=lambda file: file.name)
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
        "consumer.window.retarget(5, now)",
        "core.ledger.saw(tag)",
        "gate.take(now)",
        "plan.stop_retiring()",
        "self.plant.be_single('x')",
        "self._consumer.share(1.0, 1.0, until)",
    ],
)
def test_a_write_is_noticed(source: str) -> None:
    assert list(writes(source))


@pytest.mark.parametrize(
    "source",
    [
        "self._do(self.core.commands.popleft())",
        "self.core.retarget(consumer, 5, now)",
        "consumer.gate.opens_at - now",
        "consumer.go_on_from(last)",
    ],
)
def test_what_an_adapter_may_do_is_no_write(source: str) -> None:
    assert not list(writes(source))
