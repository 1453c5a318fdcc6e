"""The process of a Celery driver: patched for its pool before anything else is imported."""

from __future__ import annotations

import json
import sys

from celery import maybe_patch_concurrency

if __name__ == "__main__":
    maybe_patch_concurrency(["--pool", json.loads(sys.argv[1])["pool"]])

    from tests.conformance.program import main

    main()
