"""Run benchmarks: ``python -m benchmarks [NAME ...]``, all without a name.

Some consist of parts that can be run by themselves: ``NAME:PART,PART``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import platform
import sys
from pathlib import Path

NOT_BENCHMARKS = {"__main__", "live_consumer", "live_page", "measure", "pages"}


def names() -> list[str]:
    """Every module here that is a benchmark."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(set(found) - NOT_BENCHMARKS)


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
    return 0


if __name__ == "__main__":
    sys.exit(main())
