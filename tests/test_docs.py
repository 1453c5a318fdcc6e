"""What the pages and the help tell people to type is understood: every option, every name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import names
from controlmq.cli.main import COMMANDS, parsed

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")])
EVERY_PAGE = pytest.mark.parametrize(
    "page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES]
)


def commands_in(text: str) -> list[str]:
    """The commands that stand alone on their lines, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = re.findall(r"^ *controlmq ([a-z].*)$", joined, re.MULTILINE)
    return [command for line in lines for command in line.split("&& controlmq ")]


def in_sentences(text: str) -> list[str]:
    """The commands in code inside a sentence, which may leave out what is required."""
    return re.findall(r"(?<!`)`controlmq ([a-z][^`]*)`(?!`)", text)


def understood(command: str) -> None:
    try:
        parsed(shlex.split(command, comments=True))
    except SystemExit as stopped:
        pytest.fail(f"controlmq {command}: exit code {stopped.code}")


def options_of(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    with pytest.raises(SystemExit) as stopped:
        parsed([command, "--help"])
    assert stopped.value.code == 0, f"controlmq {command}: exit code {stopped.value.code}"
    return set(re.findall(r"--[a-z-]+", capsys.readouterr().out.split("\n\n", 1)[0]))


@EVERY_PAGE
def test_the_commands_of_a_page_are_understood(page: Path) -> None:
    for command in commands_in(page.read_text(encoding="utf-8")):
        understood(command)


@EVERY_PAGE
def test_options_that_sentences_name_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in in_sentences(page.read_text(encoding="utf-8")):
        name, *words = command.split()
        used = {word for word in words if word.startswith("--")}
        assert used <= options_of(name, capsys), command


@EVERY_PAGE
def test_benchmarks_programs_and_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for benchmark in re.findall(r"python -m benchmarks ([a-z_]+)", text):
        assert benchmark in names()
    for program in re.findall(r"python (examples/\S+\.py)", text):
        assert (ROOT / program).exists()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__.split(".")[-1])
def test_the_examples_of_a_commands_help_are_understood(command: ModuleType) -> None:
    examples = commands_in(command.TEACHING.partition("examples:")[2])
    assert examples
    for example in examples:
        understood(example)


def test_the_commands_of_the_pages_are_found() -> None:
    found = {page: len(commands_in(page.read_text(encoding="utf-8"))) for page in PAGES}
    assert found[ROOT / "README.md"] >= 6
    assert found[ROOT / "docs" / "continuous.md"] >= 2
    assert sum(found.values()) >= 20


@pytest.mark.parametrize(
    "command", ["simulate --level 1 20", "identify traces/ --out-file m.json", "desing", "run"]
)
def test_a_command_with_a_mistake_is_refused(command: str) -> None:
    with pytest.raises(pytest.fail.Exception):
        understood(command)


def test_a_misspelt_command_in_a_sentence_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="exit code 2"):
        options_of("desing", capsys)
