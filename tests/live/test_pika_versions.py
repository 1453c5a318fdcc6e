"""Every minor version of pika that the package allows is wrapped, not only the one installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pika
import pytest

from tests.testbed import Broker
from tests.testbed.broker import AMQP_URL, MANAGEMENT_URL

ROOT = Path(__file__).parents[2]

OLDER = ["1.3.2"]
"""The last release of every allowed minor version but the installed one."""

WAYS = ["tests/live/test_idioms.py", "tests/live/asynchronous/test_consuming.py"]


def test_the_allowed_versions_are_the_tested_ones() -> None:
    allowed = re.search(r'"pika>=([\d.]+),<([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert allowed is not None
    tested = sorted(version.rpartition(".")[0] for version in [*OLDER, pika.__version__])
    assert [allowed[1], allowed[2]] == ["1.3", "1.5"]
    assert tested == ["1.3", "1.4"]


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize("version", OLDER)
def test_the_ways_to_consume_work_with_an_older_pika(
    version: str, broker: Broker, tmp_path: Path
) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--target", str(tmp_path), f"pika=={version}"], check=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    } | {"PYTHONPATH": str(tmp_path), AMQP_URL: broker.url, MANAGEMENT_URL: broker.management.url}
    python = partial(subprocess.run, cwd=ROOT, env=environment, capture_output=True, text=True)
    found = python([sys.executable, "-c", "import pika; print(pika.__version__)"])
    assert found.stdout.strip() == version
    done = python([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *WAYS])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
