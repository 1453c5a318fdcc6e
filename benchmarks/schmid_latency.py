"""Interactions 1 and 3 of SPECjms2007 beside what RabbitMQ measured."""

from tests.known.schmid_latency import run

__all__ = ["run"]
