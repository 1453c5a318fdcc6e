"""Celery: ``adapt(app, ...)`` gives its workers a prefetch that changes while they run."""

from controlmq.extras import check

# Before the imports below: they would fail without naming the extra.
check({"celery": ["celery"]}, "controlmq.clients.celery")

from controlmq.clients.celery.app import adapt

__all__ = ["adapt"]
