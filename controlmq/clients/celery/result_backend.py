"""Lets greenlets share the disabled result backend, so that no task searches for it again.

Celery keeps its result backend for each thread, and with green pools every task is a thread of its
own. So it looks for the backend with every task, in the files of all installed packages, also for
the one that stores nothing: 5 ms of processor time each where about a hundred packages are
installed (https://github.com/celery/celery/issues/7960 and 9527). No rate above 200/s can be held
like that, and far less on a busy machine.
"""

from __future__ import annotations

from typing import Any

from celery.backends.base import DisabledBackend


def share_disabled_backend(app: Any) -> None:
    """Let all threads of a worker share the backend that stores nothing; any other stays.

    Whether one that stores results may be shared is for its user to say, by the same setting.
    """
    if type(app.backend) is DisabledBackend:
        app.conf.result_backend_thread_safe = True
