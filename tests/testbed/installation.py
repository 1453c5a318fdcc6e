"""Where a RabbitMQ server is installed: on this machine, or in a folder to chroot into."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.broker import CHOSEN_BROKER, BrokerError

TOOLS = Path(__file__).parents[2] / "tools"

VERSIONS = ("3.10", "4.0", "4.3")
"""Those that Debian's releases have, the oldest first."""

SERVERS = "usr/lib/rabbitmq/lib"

# The mounts are seen by this process and those it starts, and end with them. /tmp is the same
# inside and outside, so that paths below it mean the same.
ENTER = """\
for each in dev proc tmp; do mount --rbind "/$each" "$0/$each" || exit; done
exec chroot "$0" "$@"
"""


@dataclass(frozen=True)
class Installation:
    """A RabbitMQ server. Paths are those that its own processes see, below ``root``."""

    scripts: Path
    epmd: str
    root: Path = Path("/")

    @property
    def temporary_folder(self) -> str | None:
        """Where the files of a node have the same path inside and outside; None for anywhere."""
        return None if self.root == Path("/") else "/tmp"

    def command(self, *words: str) -> list[str]:
        """What runs ``words`` where the server is installed."""
        if self.root == Path("/"):
            return [*words]
        return ["unshare", "--mount", "/bin/sh", "-c", ENTER, str(self.root), *words]


def installed() -> Installation | None:
    """The newest server that is installed on this machine, if any.

    The command of that name in ``PATH`` is a wrapper that switches to the user ``rabbitmq``.
    """
    scripts = _scripts(Path("/"))
    if scripts is None:
        return None
    epmd = shutil.which("epmd")
    if epmd is None:
        raise BrokerError(f"RabbitMQ is in {scripts} but Erlang's `epmd` is not in PATH.")
    return Installation(scripts, epmd)


def server_of(version: str) -> Installation:
    """A server of that version: the one that is installed, or one in a folder of its own.

    The folder is made where it is missing.
    """
    here = _scripts(Path("/"))
    if here is not None and _is_version(here, version):
        found = installed()
        assert found is not None
        return found
    root = Path(made_by("rabbitmq-folder", version))
    scripts = _scripts(root)
    assert scripts is not None
    return Installation(Path("/") / scripts.relative_to(root), "/usr/bin/epmd", root)


def made_by(tool: str, version: str) -> str:
    """The folder or image that a tool has made of this version."""
    if version not in VERSIONS:
        raise BrokerError(
            f"{CHOSEN_BROKER} asks for version {version!r}; there are {', '.join(VERSIONS)}, and "
            "the same in containers, as container:4.3."
        )
    done = subprocess.run([TOOLS / tool, version], capture_output=True, text=True)
    if done.returncode != 0:
        raise BrokerError(done.stderr.strip())
    return done.stdout.strip()


def _scripts(root: Path) -> Path | None:
    found = (root / SERVERS).glob("rabbitmq_server-*/sbin")
    return max(found, key=_version, default=None)


def _is_version(scripts: Path, version: str) -> bool:
    """Whether it is some release of this version, such as 3.10.8 of 3.10."""
    return ".".join(map(str, _version(scripts))).startswith(f"{version}.")


def _version(scripts: Path) -> list[int]:
    digits = scripts.parent.name.removeprefix("rabbitmq_server-").split(".")
    return [int(part) for part in digits if part.isdigit()]
