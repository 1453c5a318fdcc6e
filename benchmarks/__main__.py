"""Run benchmarks: ``python -m benchmarks [NAME ...]``, all without a name.

Some consist of parts that can be run by themselves: ``NAME:PART,PART``. The exit code is 1 where a
result is not what was wanted: where its ``met`` is false.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

NOT_BENCHMARKS = {"__main__", "live_consumer", "live_page", "measure", "pages"}


def names() -> list[str]:
    """Every module here that is a benchmark."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(set(found) - NOT_BENCHMARKS)


def unmet(results: object, name: str = "") -> Iterator[str]:
    """The names of the results that are not what was wanted, as a path from the outermost one.

    ``met`` is true or false, or has a name for each thing that was wanted.
    """
    if isinstance(results, Mapping):
        for key, value in results.items():
            if key == "met" and value is False:
                yield name
            elif key == "met" and isinstance(value, Mapping):
                yield from (f"{name}: {wanted}" for wanted, met in value.items() if met is False)
            else:
                yield from unmet(value, f"{name}, {key}" if name else str(key))
    elif isinstance(results, Sequence) and not isinstance(results, str):
        for number, each in enumerate(results):
            yield from unmet(each, f"{name} {number}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    chosen = parser.parse_args().names or names()
    unknown = sorted({name.partition(":")[0] for name in chosen} - set(names()))
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(names())}.", file=sys.stderr)
        return 2
    results: dict[str, object] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    for words in chosen:
        print(f"{words} ...", file=sys.stderr)
        name, _, parts = words.partition(":")
        run = importlib.import_module(f"benchmarks.{name}").run
        results[name] = run(*parts.split(",")) if parts else run()
    print(json.dumps(results, indent=2))
    missed = list(unmet(results))
    for each in missed:
        print(f"not met: {each}.", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
