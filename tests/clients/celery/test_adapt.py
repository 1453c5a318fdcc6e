"""What ``adapt`` takes and refuses, before any worker runs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from celery import Celery

from controlmq.clients.celery import adapt
from controlmq.errors import InputError


def test_an_app_is_adapted_once() -> None:
    app = Celery("shop", set_as_current=False)
    assert adapt(app, at_most="5/minute") is app
    with pytest.raises(InputError, match="adapted already"):
        adapt(app)


def test_what_is_not_understood_is_refused_in_a_sentence() -> None:
    app = Celery("shop", set_as_current=False)
    with pytest.raises(InputError, match="cannot adapt a object; give a Celery app"):
        adapt(object())
    with pytest.raises(InputError, match="set worker_prefetch_multiplier"):
        adapt(app, prefetch=3)
    with pytest.raises(InputError, match="no setting 'prefech'"):
        adapt(app, prefech=3)
    with pytest.raises(InputError, match="at_most is"):
        adapt(app, at_most="often")
    with pytest.raises(InputError, match="shared is 'mails', and Celery's workers cannot share"):
        adapt(app, at_most=100, shared="mails")
    assert adapt(app) is app, "what was refused left nothing behind"


def test_no_other_client_library_is_imported() -> None:
    code = (
        "import sys; from controlmq.clients.celery import adapt; "
        "print([name for name in ('pika', 'aio_pika', 'aiormq') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
