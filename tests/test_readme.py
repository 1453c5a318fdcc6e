"""The README's code and commands run as they stand, in the order they stand in."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from controlmq.cli.main import main

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.spark
@pytest.mark.slow
def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = README.read_text()
    steps = [
        (code, command)
        for code, command in re.findall(
            r"```python\n(.*?)```|^ {4}controlmq ([^\n]*)$", text, re.M | re.S
        )
        # What needs a broker has a test of its own.
        if "start_consuming" not in code and "--queue" not in command
    ]
    assert sum(bool(code) for code, _ in steps) >= 2
    assert sum(bool(command) for _, command in steps) >= 4
    for code, command in steps:
        if code:
            exec(compile(code, str(README), "exec"), {"__name__": "readme"})
        else:
            assert main(shlex.split(command)) == 0
    assert (tmp_path / "pi.json").exists()


def test_the_picture_is_there() -> None:
    (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", README.read_text())
    assert (README.parent / picture).read_text().startswith("<svg")
