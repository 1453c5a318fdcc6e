"""A real Prometheus server that scrapes what a test serves."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.testbed.management import wait_until
from tests.testbed.node import free_ports

START_DEADLINE = 60.0
"""Seconds for the server to answer."""


class Prometheus:
    """A server that was started: what it has stored and which alerts it has."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **query: str | float) -> Any:
        """The data of an answer of its HTTP API."""
        words = urllib.parse.urlencode(query)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{words}", timeout=30) as answer:
            content = json.load(answer)
        assert content["status"] == "success", content
        return content["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        result: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return result

    def history(self, series: str, seconds: int) -> list[tuple[float, float]]:
        """Time and value of every sample stored of the one series in the last ``seconds``."""
        (found,) = self.query(f"{series}[{seconds}s]")
        return [(float(time), float(value)) for time, value in found["values"]]

    def firing(self, queue: str) -> set[str]:
        """The names of the alerts that fire now for consumers of ``queue``."""
        alerts = self.ask("alerts")["alerts"]
        firing = [each["labels"] for each in alerts if each["state"] == "firing"]
        return {labels["alertname"] for labels in firing if labels["queue"] == queue}


@contextmanager
def prometheus(targets: Sequence[str], rules: str = "", every: str = "1s") -> Iterator[Prometheus]:
    """Scrape ``targets`` (host:port) for the length of a ``with`` block, with these rules."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="controlmq-prometheus-") as folder:
        path = Path(folder)
        (path / "rules.yml").write_text(rules)
        (path / "prometheus.yml").write_text(
            json.dumps(  # which is YAML, too
                {
                    "global": {"scrape_interval": every, "evaluation_interval": every},
                    "rule_files": ["rules.yml"] if rules else [],
                    "scrape_configs": [
                        {"job_name": "consumers", "static_configs": [{"targets": [*targets]}]}
                    ],
                }
            )
        )
        log = (path / "log").open("wb")
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={path / 'prometheus.yml'}",
                f"--storage.tsdb.path={path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            server = Prometheus(f"http://127.0.0.1:{port}")

            def ready() -> bool:
                assert process.poll() is None, (path / "log").read_text()
                try:
                    with urllib.request.urlopen(f"{server.url}/-/ready", timeout=30) as answer:
                        return bool(answer.status == 200)
                except OSError:
                    return False

            wait_until(ready, "Prometheus is ready", START_DEADLINE)
            yield server
        finally:
            process.kill()
            process.wait()
            log.close()


def program(name: str) -> str:
    """The path of a program of Prometheus."""
    found = shutil.which(name)
    assert found, f"{name} is not installed; run: tools/need prometheus"
    return found
