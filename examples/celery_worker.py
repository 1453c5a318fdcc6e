"""A Celery app whose workers change their prefetch while they run, on any RabbitMQ.

    export BROKER_URL=amqp://guest:guest@localhost:5672//
    celery --workdir examples -A celery_worker worker --concurrency 4
    python examples/celery_worker.py        # sends some tasks

``celery -A celery_worker inspect stats`` shows the prefetch in force.
"""

import os
import time

from celery import Celery

from controlmq.clients.celery import adapt

app = Celery("celery_worker", broker=os.environ["BROKER_URL"])
app.conf.task_default_queue = os.environ.get("QUEUE", "orders")
app.conf.task_acks_late = True  # needed for buffer_time and protect, not for the others
app.conf.broker_connection_retry_on_startup = True

adapt(app, at_most="50/s")  # tasks per second of each worker; or nothing, for Celery's own prefetch


@app.task(ignore_result=True)
def handle(order):
    """The work."""
    time.sleep(0.02)
    print(f"handled {order}", flush=True)


if __name__ == "__main__":
    for order in range(100):
        handle.delay(order)
    handle.apply_async([100], countdown=2)  # waits in the worker; the others do not wait behind it
