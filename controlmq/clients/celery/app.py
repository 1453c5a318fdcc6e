"""From a Celery app to one whose workers hold their goals."""

from __future__ import annotations

from typing import Any

from celery import Celery

from controlmq.clients.celery.refusing import check_not_shared, notice_version
from controlmq.clients.celery.step import WindowStep
from controlmq.clients.celery.worker import moves_prefetch
from controlmq.clients.settings import settings_from
from controlmq.errors import InputError


def adapt(app: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the workers of ``app`` change their prefetch while they run; returns the same app.

    Without a goal the prefetch is what Celery asks for: processes times multiplier, and more for
    tasks that wait for their time. RabbitMQ 4 has no such prefetch of its own any more.

    Takes what :func:`controlmq.wrap` takes after the channel. ``goal`` and ``at_most`` are tasks
    per second of each worker, all its queues together, or a mapping from queues. ``buffer_time``,
    ``protect`` and ``controller`` move the prefetch themselves and need tasks with late acks.
    """
    if not isinstance(app, Celery):
        raise InputError(f"cannot adapt a {type(app).__name__}; give a Celery app.")
    if any(
        issubclass(step, WindowStep) for step in app.steps["consumer"] if isinstance(step, type)
    ):
        raise InputError("the app is adapted already.")
    settings = settings_from(*args, **kwargs)
    check_not_shared(settings)
    if settings.prefetch is not None and not moves_prefetch(settings):
        raise InputError(
            f"prefetch is {settings.prefetch:g}, and without a law that moves it the prefetch is "
            "what Celery asks for; set worker_prefetch_multiplier."
        )
    notice_version()
    app.steps["consumer"].add(type("WindowStep", (WindowStep,), {"settings": settings}))
    return app
