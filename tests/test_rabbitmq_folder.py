"""``tools/rabbitmq-folder`` makes a folder once, whole or not at all, and says why it cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "rabbitmq-folder"

MAKES = """
for last; do folder=$before; before=$last; done
echo made >>"$LOG"
sleep 0.3
mkdir -p "$folder/etc/rabbitmq" "$folder/usr/lib/rabbitmq/lib/rabbitmq_server-$MADE"
"""
"""A stand-in for mmdebstrap, whose last two arguments are the folder and the mirror."""


class Machine:
    """Where the tool finds programs of ours instead of those that need root and a network."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.log, self._programs = folder / "cache", folder / "log", folder / "bin"
        self._programs.mkdir()
        self.made = "4.3.6"
        self.has("id", "echo 0")
        self.has("apt-get", "echo http://mirror.invalid/debian/")
        self.has("mmdebstrap", MAKES)

    def has(self, program: str, script: str) -> None:
        path = self._programs / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self, version: str = "4.3") -> subprocess.Popen[str]:
        environment = {
            "PATH": f"{self._programs}:/usr/bin:/bin",
            "XDG_CACHE_HOME": str(self.cache),
            "LOG": str(self.log),
            "MADE": self.made,
        }
        return subprocess.Popen(
            [TOOL, version],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fails(self, version: str = "4.3") -> str:
        """The last line that it says when it cannot; no folder is there then."""
        process = self.start(version)
        output, said = process.communicate()
        assert (process.returncode != 0, output) == (True, "")
        assert not (self.cache / "controlmq" / f"rabbitmq-{version}").exists()
        return said.splitlines()[-1]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if "ID=debian" not in Path("/etc/os-release").read_text().splitlines():
        pytest.skip("the tool needs Debian.")
    return Machine(tmp_path)


def test_two_at_once_make_the_folder_once(machine: Machine) -> None:
    both = [machine.start(), machine.start()]
    folders = {process.communicate()[0].strip() for process in both}
    assert folders == {str(machine.cache / "controlmq" / "rabbitmq-4.3")}
    assert machine.log.read_text() == "made\n"
    machine.has("mmdebstrap", "exit 1")
    assert machine.start().wait() == 0


def test_what_cannot_be_made_is_said_in_one_sentence(machine: Machine) -> None:
    assert "usage: tools/rabbitmq-folder" in machine.fails("5.0")
    machine.made = "4.4.1"
    assert "has another version by now: rabbitmq_server-4.4.1" in machine.fails()
    machine.has("mmdebstrap", "exit 1")
    assert "mmdebstrap could not make" in machine.fails()
    machine.has("apt-get", "true")
    assert "apt's sources on this machine name no mirror" in machine.fails()
    machine.has("id", "echo 1000")
    assert "run this as root" in machine.fails()
