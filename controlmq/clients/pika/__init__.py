"""pika: channels, blocking and asynchronous, whose consumers hold their goals."""

from controlmq.clients.controlled_consumer import ControlledConsumer as Consumer
from controlmq.clients.pika.wrap import unwrap, wrap

__all__ = ["Consumer", "unwrap", "wrap"]
