"""Celery: ``adapt(app, ...)`` gives its workers a prefetch that changes while they run."""

from controlmq.clients.celery.app import adapt

__all__ = ["adapt"]
