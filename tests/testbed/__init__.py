"""A real RabbitMQ broker to test and measure against, and a network to put before it.

Works outside of pytest too::

    with start_broker() as broker, broker.proxied(delay=0.0055) as proxy:
        connection = pika.BlockingConnection(proxy.parameters)
"""

from tests.testbed.broker import Broker, BrokerError, start_broker
from tests.testbed.management import Management, wait_until
from tests.testbed.proxy import Proxy

__all__ = ["Broker", "BrokerError", "Management", "Proxy", "start_broker", "wait_until"]
