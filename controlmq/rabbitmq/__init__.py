"""The RabbitMQ side, under the name it had."""

from controlmq.clients.pika.wrap import unwrap, wrap

__all__ = ["unwrap", "wrap"]
