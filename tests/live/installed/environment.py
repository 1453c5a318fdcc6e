"""An empty environment with the wheel in it, and what an extra would bring beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]

PACKAGES = ("controlmq", "identification", "simulator")

AS_AT_HOME = ("PYTHONPATH", "PYTHONHOME", "PYTEST_CURRENT_TEST")
"""Variables that would let the environment see the source, or know that it is tested."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment; ``folder`` is where its programs run, away from the source."""

    python: Path
    folder: Path

    def run(self, *words: str, beside: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Python with these arguments; ``beside`` is a folder with packages that it also has."""
        return subprocess.run(
            [self.python, *words],
            cwd=self.folder,
            env=self.variables(beside),
            capture_output=True,
            text=True,
        )

    def command(self, *words: str, beside: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The ``controlmq`` command as it was installed."""
        return self.run(str(self.python.parent / "controlmq"), *words, beside=beside)

    def variables(self, beside: Path | None = None) -> dict[str, str]:
        """The environment variables of its programs."""
        kept = {name: value for name, value in os.environ.items() if name not in AS_AT_HOME}
        return kept | ({"PYTHONPATH": str(beside)} if beside else {})


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source archive, as ``make dist`` builds them."""
    checked([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)])
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


def with_wheel(wheel: Path, folder: Path) -> Environment:
    """A new environment into which the wheel was installed as a user would."""
    checked([sys.executable, "-m", "venv", str(folder / "venv")])
    made = Environment(folder / "venv" / "bin" / "python", folder)
    constraints = ("-c", str(ROOT / "constraints.txt"))
    checked([str(made.python), "-m", "pip", "install", "--quiet", *constraints, str(wheel)])
    return made


def checked(words: list[str]) -> None:
    """Run a command that must succeed."""
    kept = {name: value for name, value in os.environ.items() if name not in AS_AT_HOME}
    done = subprocess.run(words, env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def brought_by(extra: str, wheel: Path, folder: Path) -> Path:
    """A folder with what pip would install for an extra, as links to what is installed here."""
    folder.mkdir()
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = (name for name in content.namelist() if name.endswith("/METADATA"))
        required = message_from_bytes(content.read(metadata)).get_all("Requires-Dist", [])
    for name in _closure(required, {extra}):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
    return folder


def _closure(requires: Sequence[str], extras: set[str]) -> set[str]:
    """The names of all distributions that these requirements lead to."""
    found: set[str] = set()
    left = [(requires, extras)]
    while left:
        lines, chosen = left.pop()
        for each in map(Requirement, lines):
            marker = each.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in {*chosen, ""}):
                continue
            if each.name not in found:
                found.add(each.name)
                left.append((distribution(each.name).requires or (), set(each.extras)))
    return found
