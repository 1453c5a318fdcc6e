"""A consumer as pika's users write it, for a process of its own: prints each number it handles."""

from __future__ import annotations

PLAIN_CONSUMER = """
import sys, pika
channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
channel.basic_qos(prefetch_count=5)
def on_message(channel, method, properties, body):
    print(int(body), flush=True)
    channel.basic_ack(method.delivery_tag)
channel.basic_consume(sys.argv[2], on_message)
print("consuming", flush=True)
channel.start_consuming()
"""
