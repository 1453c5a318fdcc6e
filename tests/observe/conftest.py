"""Servers that tests can close without waiting."""

from __future__ import annotations

import pytest

from controlmq.observe import serving


@pytest.fixture(autouse=True)
def closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server looks every so often whether it is to close."""
    monkeypatch.setattr(serving, "CLOSING_SECONDS", 0.002)
