"""aio-pika: ``connect_robust(url, connection_class=adaptive(...))``, or ``adapt(channel, ...)``."""

from controlmq.extras import check

# Before the imports below: they would fail without naming the extra.
check({"aio-pika": ["aio_pika"]}, "controlmq.clients.aio_pika")

from controlmq.clients.aio_pika.connection import adapt, adaptive

__all__ = ["adapt", "adaptive"]
