"""A consumer in production imports pika and nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import controlmq

HEAVY = ["numpy", "pyarrow", "pyspark", "numba", "scipy", "control", "matplotlib", "pandas", "rich"]

CONTROLLER = """
from controlmq.controllers import controller_from
from controlmq import ArxModel
controller_from("pid", model=ArxModel(0.1, 60.0, 0.0, 1.0, (0.0, 20.0)))
"""

WRAP = "import controlmq; controlmq.wrap"


@pytest.mark.parametrize(
    "code", ["import controlmq", WRAP, CONTROLLER], ids=["import", "wrap", "controller"]
)
def test_nothing_heavy_is_imported(code: str) -> None:
    report = f"import json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_every_public_name_is_there() -> None:
    for name in controlmq.__all__:
        assert getattr(controlmq, name) is not None
    assert set(controlmq.__all__) <= set(dir(controlmq))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = controlmq.nothing
