"""What the pages and the help tell people to type is understood: every option, every name.

Every code block of a page is run or checked, or is marked as an excerpt by a comment before it.
"""

from __future__ import annotations

import configparser
import inspect
import itertools
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import names
from controlmq.cli.main import COMMANDS, parsed
from controlmq.consumer.core import Core
from simulator import parse_scenario
from tests.pages import BLOCKS, EXCERPT, NEEDS_A_BROKER, PAGES, ROOT, RUN_BY, Block

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
        used = {word for word in words if word.startswith("--")} - {"--help"}
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


def check_make(*targets: str) -> None:
    known = re.findall(
        r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {target for target in targets if "=" not in target} <= {*known}


def check_pip(install: str, *wanted: str) -> None:
    assert install == "install"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for each in wanted:
        found = re.fullmatch(r"(?:\.|controlmq)(?:\[([a-z,-]+)\])?", each)
        assert found, f"{each} is not this project"
        assert {*(found[1] or "dev").split(",")} <= {*project["optional-dependencies"]}


def check_python(*words: str) -> None:
    if words[0] != "-m":
        assert (ROOT / words[0]).exists()
    elif words[1] == "benchmarks":
        named = itertools.takewhile(lambda word: word != ">", words[2:])
        assert {name.partition(":")[0] for name in named} <= {*names()}
    elif words[1] == "pytest":
        assert all((ROOT / word).exists() for word in words[2:] if not word.startswith("-"))
    else:
        path = ROOT.joinpath(*words[1].split("."))
        assert path.is_dir() or path.with_suffix(".py").exists()


def check_controlmq(*words: str) -> None:
    understood(shlex.join(words))


PROGRAMS: Mapping[str, Callable[..., None]] = {
    "controlmq": check_controlmq,
    "make": check_make,
    "pip": check_pip,
    "python": check_python,
    "test": lambda *words: None,
}
"""What shell blocks may call. A block with anything else is marked as an excerpt."""


def check_shell(text: str) -> None:
    """Whether a shell can read it, and each command is one that a user of this project can run."""
    read = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert read.returncode == 0, read.stderr
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            del words[0]
        if words:
            assert words[0] in PROGRAMS, f"{line}: unknown program"
            PROGRAMS[words[0]](*words[1:])


def check_toml(text: str) -> None:
    parse_scenario(text)


def check_ini(text: str) -> None:
    unit = configparser.RawConfigParser()
    unit.read_string(text)
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/controlmq")
    check_controlmq(*words)


def compiles(text: str) -> None:
    compile(text, "block", "exec")


CHECKS: Mapping[str, Callable[[str], None]] = {
    "sh": check_shell,
    "toml": check_toml,
    "ini": check_ini,
    "python": compiles,
    "text": lambda text: None,
}
"""By language; ``text`` is for formulas and drawings, which nobody types. Python also runs."""


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.mark != EXCERPT], ids=str)
def test_a_code_block_can_be_used_as_it_stands(block: Block) -> None:
    assert block.language in CHECKS, "mark it as an excerpt, or say here how it is checked"
    CHECKS[block.language](block.text)
    if block.mark.startswith(RUN_BY):
        test = ROOT / block.mark.removeprefix(RUN_BY)
        assert block.page.name in test.read_text(encoding="utf-8")


PYTHON = [block for block in BLOCKS if block.language == "python"]
RUNS_HERE = sorted({block.page for block in PYTHON if not block.mark})


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNS_HERE, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in PYTHON:
        if block.page == page and not block.mark:
            exec(compile(block.text, str(block), "exec"), namespace)


CLIENT_PAGES = re.findall(
    r"^\|.*\]\(([a-z-]+\.md)\) \|$",
    (ROOT / "docs" / "clients.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
MOST_QUICK_START_LINES = 10
"""Lines of the first program of a page that are not blank: all that a user has to type."""


@pytest.mark.parametrize("page", ["../README.md", "start.md", *CLIENT_PAGES])
def test_the_first_program_of_a_client_is_short(page: str) -> None:
    path = (ROOT / "docs" / page).resolve()
    program = next(block.text for block in PYTHON if block.page == path)
    lines = [line for line in program.splitlines() if line.strip()]
    assert len(lines) <= MOST_QUICK_START_LINES


def test_the_page_of_every_client_is_looked_at() -> None:
    assert len(CLIENT_PAGES) == 6
    assert {"pika.md", "aio-pika.md", "celery.md", "taskiq.md"} < {*CLIENT_PAGES}


def test_every_mark_is_known() -> None:
    marks = {block.mark for block in BLOCKS if not block.mark.startswith(RUN_BY)}
    assert marks <= {"", EXCERPT, NEEDS_A_BROKER}


@pytest.mark.parametrize(
    "text",
    [
        "controlmq run --queue",
        "make tea",
        "pip install '.[pubsub]'",
        "python -m benchmarks tea",
        "python examples/tea.py",
        "brew tea",
        'controlmq demo "',
    ],
)
def test_a_shell_block_with_a_mistake_is_refused(text: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_shell(text)


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


def test_the_glossary_lists_the_terms_with_a_second_meaning() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    introduction, _, rows = glossary.partition("\n## ")
    listed = re.findall(r"\*([^*]+)\*", introduction)
    assert listed == re.findall(r"^\| ([^|]+) \|[^|]* Second, ", rows, re.MULTILINE)


def test_the_architecture_page_lists_all_that_a_core_can_be_told() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("| in (events) | out |\n|---|---|\n")[2].partition("\n\n")[0]
    told, out = zip(*(row.split("|")[1:3] for row in table.splitlines()), strict=True)
    events = re.findall(r"`(\w+)`", "".join(told))
    answers = {"take_acks", "take_returns", "hand_over"}
    assert answers <= set(re.findall(r"`(\w+)(?:\(\))?`", "".join(out)))
    methods = {name for name, _ in inspect.getmembers(Core, inspect.isfunction)}
    assert sorted(events) == sorted(name for name in methods - answers if name[0] != "_")
