"""``controlmq specjms`` on the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlmq.cli.main import main
from controlmq.errors import InputError
from simulator.studies.specjms import Delivery, load_freeform


def test_the_command_runs_and_audits(capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--duration", "5", "--warm-up", "1", "--drain", "5"]
    assert main(["specjms", "--base", "45", *quick, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"]
    assert main(["specjms", "--base", "45", *quick]) == 0
    said = capsys.readouterr()
    assert "PASS" in said.out
    assert "the 20 slowest of 95; --json has all" in said.out
    assert said.err == ""  # the table is shown while it runs on a terminal alone
    assert main(["specjms", "--base", "4000", "--cores", "1", *quick]) == 1
    assert "FAIL" in capsys.readouterr().out


def test_the_command_finds_the_largest_base(capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--duration", "2", "--warm-up", "1", "--drain", "3", "--cores", "1"]
    assert (
        main(["specjms", "--search", "--base", "3000", "--interactions", "4", *quick, "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["largest_base"] == max(
        trial["base"] for trial in found["trials"] if not trial["failed"]
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--topology", "round"], "topology is 'round'"),
        (["--base", "-3"], "base is -3"),
        (["--interactions", "8"], "interaction is 8"),
        (["--url", "http://host/"], "not one of AMQP"),
        (["--url", "amqp://guest:hush@127.0.0.1:1/%2F"], "cannot connect"),
        (["--url", "amqp://host", "--cores", "2"], "--cores"),
    ],
)
def test_the_command_refuses_in_one_sentence(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["specjms", *words]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.strip().splitlines()) == 1
    assert "hush" not in said


def test_the_command_runs_some_interactions_alone(capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--duration", "5", "--warm-up", "1", "--drain", "5", "--json"]
    assert main(["specjms", "--base", "45", "--interactions", "3", "1", *quick]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["interaction"] for row in found["interactions"]] == [1, 3]


FREEFORM = """
name = "two shops"
supermarkets = 2
centres = 1
suppliers = 1
headquarters = 1
families = 1
offered = 1.0
rates = [8.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0]

[types.order]
destination = "central"
topic = true
persistent = false
"""


def test_a_topology_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chain.toml"
    path.write_text(FREEFORM, encoding="utf-8")
    topology, types = load_freeform(path)
    assert topology.starts == (16.0, 4.0, 8.0, 16.0, 16.0, 8.0, 8.0)
    assert types["order"].destination == "central"
    assert types["order"].delivery == Delivery(True, False, True, True)
    assert main(["specjms", "--topology", str(path), "--duration", "10"]) == 0
    assert main(["specjms", "--topology", str(path), "--search"]) == 2
    assert "no BASE to search" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("centres = 1", ""), "give each of"),
        (("centres = 1", "centres = 0"), "centres is 0"),
        (("[types.order]", "[types.orders]"), "type of 'types' is 'orders'"),
        (("topic = true", "loud = true"), "a key of types.order is 'loud'"),
        (("topic = true", ""), "cannot share"),
        (("rates = [8.0", "rates = [8.0 8.0"), "is not a TOML file"),
    ],
)
def test_a_bad_topology_file_is_refused(change: tuple[str, str], told: str, tmp_path: Path) -> None:
    path = tmp_path / "chain.toml"
    path.write_text(FREEFORM.replace(*change), encoding="utf-8")
    with pytest.raises(InputError, match=told):
        load_freeform(path)
