"""The RabbitMQ side: pika channels whose consumers hold their goals."""

from controlmq.rabbitmq.consumer import Consumer
from controlmq.rabbitmq.wrap import unwrap, wrap

__all__ = ["Consumer", "unwrap", "wrap"]
