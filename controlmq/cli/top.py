"""``controlmq top``: running consumers in a terminal."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from controlmq.cli.arguments import number, option
from controlmq.errors import ControlmqError
from controlmq.extras import Needs, needs

SUMMARY = "watch running consumers in a terminal"
NEEDS: Needs = needs()

TEACHING = """\
Asks the dashboards of running consumers (controlmq run --dashboard, or serve_dashboard in Python)
and draws a table of rate, goal, prefetch, held acks and state, with the rates as curves and the
last events. An address is a port of this machine, HOST:PORT or a URL; without one it is the
port that --dashboard takes by default. Ctrl-C ends it and leaves the terminal as it was.

examples:
  controlmq top
  controlmq top 15699 15700 10.0.0.7:15699
  controlmq top --once
"""

OTHER_SCREEN = "\x1b[?1049h\x1b[?25l"
"""Switches to the terminal's second screen and hides the cursor."""

FIRST_SCREEN = "\x1b[?25h\x1b[?1049l"
"""Undoes that."""

HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def add_options(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("addresses", nargs="*", metavar="ADDRESS", help="where a dashboard is")
    option(parser, "--every SECONDS", "time between two looks", number, 1.0)
    option(parser, "--once", "print one screen and end; so it does where there is no terminal")


def run(arguments: Namespace) -> int:
    """Draw until stopped."""
    from controlmq.observe.top import Process, ask, frame, url_of

    if arguments.every <= 0:
        raise ControlmqError(f"--every is {arguments.every:g}; give seconds above 0.")

    def look() -> list[Process]:
        return [ask(address) for address in arguments.addresses or [""]]

    first = look()
    if all(each.told is None for each in first):
        where = ", ".join(url_of(each.address).removeprefix("http://") for each in first)
        raise ControlmqError(
            f"no dashboard answers at {where} ({first[0].problem}); start a consumer with "
            "--dashboard, or give the address of one."
        )
    if arguments.json:
        print(json.dumps([each.told for each in first]))
        return 0
    if arguments.once or not sys.stdout.isatty():
        size = shutil.get_terminal_size()
        print("\n".join(frame(first, size.columns, size.lines, time.time())))
        return 0
    with second_screen():
        seen = first
        while True:
            size = os.get_terminal_size(sys.stdout.fileno())
            lines = frame(seen, size.columns, size.lines, time.time())
            drawn = f"{REST_OF_LINE}\r\n".join(lines)
            sys.stdout.write(f"{HOME}{drawn}{REST_OF_LINE}{REST_OF_SCREEN}")
            sys.stdout.flush()
            time.sleep(arguments.every)
            seen = look()
    return 0


@contextmanager
def second_screen() -> Iterator[None]:
    """The terminal's second screen; what was on the first is there again afterwards."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.stdout.write(OTHER_SCREEN)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.stdout.write(FIRST_SCREEN)
        sys.stdout.flush()
