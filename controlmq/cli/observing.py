"""Options of commands that consume, for those who want to watch: metrics and a live view."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from controlmq.cli.arguments import option, whole
from controlmq.errors import InputError
from controlmq.observe.dashboard import DEFAULT_PORT, new_token, serve_dashboard
from controlmq.observe.serving import LOOPBACK, check_address

TOKEN_VARIABLE = "CONTROLMQ_DASHBOARD_TOKEN"
"""The environment variable for the token: everyone who lists processes sees arguments."""


def add_observing(parser: ArgumentParser) -> None:
    """``--metrics-port``, ``--dashboard`` and who may reach them."""
    group = parser.add_argument_group("watching it")
    option(group, "--metrics-port PORT", "serve metrics for Prometheus at this port", whole)
    group.add_argument(
        "--dashboard",
        nargs="?",
        type=whole,
        const=DEFAULT_PORT,
        metavar="PORT",
        help=f"serve a page that shows it live (port {DEFAULT_PORT} unless given)",
    )
    option(group, "--listen HOST", "address that serves both", str, LOOPBACK)
    option(group, "--allow-remote", "let --listen be an address that other machines reach")
    meaning = f"let those with the token ({TOKEN_VARIABLE}, or a new one) change the goal there"
    option(group, "--allow-goal-changes", meaning)


def serve_observers(arguments: Namespace) -> None:
    """Serve what was asked for, and say where; a port that is taken does not stop the command."""
    where = {"host": arguments.listen, "allow_remote": arguments.allow_remote}
    if arguments.allow_goal_changes and arguments.dashboard is None:
        raise InputError("--allow-goal-changes is for the page; give --dashboard, too.")
    # All are checked before the first one is served.
    for what, port in (("metrics", arguments.metrics_port), ("dashboard", arguments.dashboard)):
        if port is not None:
            check_address(what, arguments.listen, port, arguments.allow_remote)
    if arguments.metrics_port is not None:
        from controlmq.observe.prometheus import serve_metrics

        metrics = serve_metrics(arguments.metrics_port, **where)
        if metrics is not None:
            print(f"metrics: {metrics.url}/metrics", file=sys.stderr)
    if arguments.dashboard is not None:
        given = os.environ.get(TOKEN_VARIABLE)
        token = (given or new_token()) if arguments.allow_goal_changes else None
        page = serve_dashboard(arguments.dashboard, token=token, **where)
        if page is not None:
            secret = f"#token={token}" if token and not given else ""
            print(f"dashboard: {page.url}/{secret}", file=sys.stderr)
