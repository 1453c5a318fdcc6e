"""pika: channels, blocking and asynchronous, whose consumers hold their goals."""

from controlmq.clients.pika.wrap import unwrap, wrap

__all__ = ["unwrap", "wrap"]
