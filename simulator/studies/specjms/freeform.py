"""Reads a freeform topology from a TOML file, and how some types are sent (jms2009-PS).

::

    name = "two shops"
    supermarkets = 2
    centres = 1
    suppliers = 1
    headquarters = 1
    families = 1
    offered = 1.0
    rates = [2.0, 0.5, 1.0, 5.0, 5.0, 1.0, 1.0]

    [types.order]                  # keys that are left out stay as published
    destination = "central"
    topic = true
    persistent = false
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from controlmq.errors import InputError
from controlmq.files import read_text
from simulator.scenario import checks
from simulator.studies.specjms.message_types import Delivery
from simulator.studies.specjms.options import SPECJMS2007, Option, options
from simulator.studies.specjms.topology import Topology


def load_freeform(path: str | os.PathLike[str]) -> tuple[Topology, dict[str, Option]]:
    """The topology in a file, and the options of the types that the file changes."""
    text = read_text(path, "topology")
    try:
        return _freeform(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _freeform(content: dict[str, Any]) -> tuple[Topology, dict[str, Option]]:
    types = content.pop("types", {})
    wanted = [field.name for field in fields(Topology)]
    if sorted(content) != sorted(wanted):
        given = ", ".join(content) or "nothing"
        raise InputError(f"{given} is given; give each of {', '.join(wanted)}, and types if any.")
    checks.text("name", content["name"])
    if not isinstance(content["rates"], list):
        raise InputError(f"rates is {content['rates']!r}; give a list of seven.")
    topology = Topology(**{**content, "rates": tuple(content["rates"])})
    if not isinstance(types, dict):
        raise InputError(f"types is {types!r}; give tables headed [types.NAME].")
    changed = {name: _option(name, flags) for name, flags in types.items()}
    options(changed)
    return topology, changed


def _option(name: str, flags: Mapping[str, Any]) -> Option:
    checks.known("type", name, list(SPECJMS2007), "types")
    published = SPECJMS2007[name]
    allowed = [field.name for field in fields(Delivery)]
    for key in flags:
        checks.choice(f"a key of types.{name}", key, ["destination", *allowed])
    delivery = {key: value for key, value in flags.items() if key in allowed}
    return Option(
        replace(published.delivery, **delivery), flags.get("destination", published.destination)
    )
