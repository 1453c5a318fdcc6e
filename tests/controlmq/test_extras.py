"""Libraries that may be missing are named with the extra that brings them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from controlmq.cli.main import COMMANDS
from controlmq.extras import EXTRAS, MissingExtraError, check, need, needs

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]


@pytest.fixture(scope="module")
def installed() -> Mapping[str, list[str]]:
    """The distributions of each package that can be imported."""
    return packages_distributions()


def test_the_extras_are_those_that_pip_knows() -> None:
    assert set(EXTRAS) == set(OPTIONAL) - {"all", "dev", "docs"}
    assert set().union(*(Requirement(line).extras for line in OPTIONAL["all"])) == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_modules_of_an_extra_are_those_of_its_distributions(
    extra: str, installed: Mapping[str, list[str]]
) -> None:
    required = {Requirement(line).name.lower() for line in OPTIONAL[extra]}
    for module in EXTRAS[extra]:
        top = module.partition(".")[0]
        names = {name.lower().replace("_", "-") for name in installed[top]}
        assert names & required, f"nothing in {required} brings {module}"
        required -= names
    assert required == set()


def test_what_commands_need_is_in_the_extras_that_they_name() -> None:
    for command in COMMANDS:
        for extra, modules in command.NEEDS.items():
            assert set(modules) <= set(EXTRAS[extra])


def test_all_that_is_missing_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("numba", "rich", "control"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError) as caught:
        check(needs("simulation", "design", "recording"), "controlmq demo")
    assert str(caught.value) == (
        "controlmq demo needs numba, rich and control; "
        "run: pip install 'controlmq[simulation,design]'"
    )
    assert caught.value.name == "numba"
    with pytest.raises(ModuleNotFoundError, match="this needs control; run: pip"):
        need("control", "design")


def test_a_package_that_is_missing_lacks_its_modules() -> None:
    with pytest.raises(MissingExtraError, match=r"this needs never_was\.there; run"):
        need("never_was.there", "metrics")
    assert need("pika", "aio-pika").__name__ == "pika"
