"""Machine code from the cache is never older than a file that it was made from."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from simulator.engine import compiled

ENGINE = Path(compiled.__file__).parent


def imported(path: Path) -> set[Path]:
    """The files of this project that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
            if name.split(".")[0] in ("controlmq", "simulator"):
                found.add(module_file(name))
    return found - {None}  # type: ignore[return-value]


def module_file(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # a name in a module
        return None
    packages = ("controlmq", "simulator")
    return None if spec is None or spec.name in packages else Path(str(spec.origin))


def test_every_file_that_the_engine_imports_from_is_a_source() -> None:
    found, more = set(), set(ENGINE.glob("*.py"))
    while more:
        found |= more
        more = {file for path in more for file in imported(path)} - found
    assert found <= set(compiled.sources())
    assert {path.parent.name for path in found} == {"engine", "scenario", "controlmq"}


@pytest.mark.parametrize("changed", compiled.sources(), ids=lambda path: path.stem)
def test_a_change_of_any_source_changes_the_stamp(
    changed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / changed.name
    copy.write_bytes(changed.read_bytes())
    copied = [copy if path == changed else path for path in compiled.sources()]
    before = compiled.source_stamp()
    monkeypatch.setattr(compiled, "sources", lambda: copied)
    assert compiled.source_stamp() == before
    copy.write_bytes(copy.read_bytes() + b"\n")
    assert compiled.source_stamp() != before


def test_the_stamp_is_part_of_the_key_of_the_cache() -> None:
    from simulator.engine.event_loop import run_until

    closed_over = [cell.cell_contents for cell in run_until.py_func.__closure__]  # type: ignore[attr-defined]
    assert compiled.source_stamp() in closed_over
