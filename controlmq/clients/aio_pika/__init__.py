"""aio-pika: ``connect_robust(url, connection_class=adaptive(...))``, or ``adapt(channel, ...)``."""

from controlmq.clients.aio_pika.connection import adapt, adaptive

__all__ = ["adapt", "adaptive"]
