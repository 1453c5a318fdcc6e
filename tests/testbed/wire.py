"""AMQP 0-9-1 on the wire: which methods a client sent, which messages a broker, and when."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.testbed.proxy_process import STAMP

PROTOCOL_HEADER = 8
"""Bytes: ``AMQP`` and the version, the first a client sends."""

FRAME_END = 0xCE
METHOD_FRAME = 1
HEADER_FRAME = 2
BODY_FRAME = 3

BASIC = 60
QOS = (BASIC, 10)
CONSUME = (BASIC, 20)
CANCEL = (BASIC, 30)
DELIVER = (BASIC, 60)
ACK = (BASIC, 80)
REJECT = (BASIC, 90)
NACK = (BASIC, 120)


class Method(NamedTuple):
    """One method frame; ``payload`` holds its arguments, after the two ids."""

    class_id: int
    method_id: int
    payload: bytes


class Qos(NamedTuple):
    """Arguments of ``basic.qos``. ``all_consumers`` is the bit the specification names global."""

    prefetch_size: int
    prefetch_count: int
    all_consumers: bool


class Stamped(NamedTuple):
    """Bytes from a broker, and when the last of them was passed on to the client, in seconds."""

    when: float
    data: bytes


class Delivery(NamedTuple):
    """A message that a broker delivered, and when the client had all of it."""

    when: float
    routing_key: str
    body: bytes


def stamped(folder: Path) -> list[list[Stamped]]:
    """What a proxy wrote down in ``folder``, a list for each connection."""
    return [list(_stamped(path.read_bytes())) for path in sorted(folder.glob("*.stamps"))]


def _stamped(written: bytes) -> Iterator[Stamped]:
    position = 0
    while position + STAMP.size <= len(written):
        when, size = STAMP.unpack_from(written, position)
        start, position = position + STAMP.size, position + STAMP.size + size
        yield Stamped(when, written[start:position])


def deliveries(chunks: Iterable[Stamped]) -> Iterator[Delivery]:
    """The messages that a broker delivered on one connection."""
    unread = bytearray()
    begun: dict[int, _Content] = {}
    """By their channels: those of which something is missing."""
    for when, data in chunks:
        unread += data
        position = 0
        for frame in _frames(bytes(unread), 0):
            position = frame.end
            if frame.kind == METHOD_FRAME:
                begun.pop(frame.channel, None)
                if struct.unpack_from(">HH", frame.payload) == DELIVER:
                    begun[frame.channel] = _Content(_routing_key(frame.payload))
            elif frame.channel in begun and begun[frame.channel].add(frame):
                content = begun.pop(frame.channel)
                yield Delivery(when, content.routing_key, bytes(content.body))
        del unread[:position]


class _Content:
    """A message on its way."""

    def __init__(self, routing_key: str) -> None:
        self.routing_key = routing_key
        self.body = bytearray()
        self._size = 0

    def add(self, frame: _Frame) -> bool:
        """Take in its header or a part of its body; whether all of it is here."""
        if frame.kind == HEADER_FRAME:
            (self._size,) = struct.unpack_from(">Q", frame.payload, 4)
        elif frame.kind == BODY_FRAME:
            self.body += frame.payload
        return len(self.body) == self._size


def _routing_key(deliver: bytes) -> str:
    """Of ``basic.deliver``: after the consumer tag, the delivery tag, a bit and the exchange."""
    position = 4
    position += 1 + deliver[position] + 8 + 1
    position += 1 + deliver[position]
    return deliver[position + 1 : position + 1 + deliver[position]].decode()


def amqp_methods(sent: bytes) -> list[Method]:
    """The methods in what one client sent, in order; an unfinished last frame is left out."""
    return list(_methods(sent))


def qos_calls(sent: bytes) -> list[Qos]:
    """Every ``basic.qos`` in what one client sent."""
    return [
        Qos(size, count, bool(bits & 1))
        for method in _methods(sent)
        if method[:2] == QOS
        for size, count, bits in [struct.unpack(">IHB", method.payload)]
    ]


def _methods(sent: bytes) -> Iterator[Method]:
    for frame in _frames(sent, PROTOCOL_HEADER if sent.startswith(b"AMQP") else 0):
        if frame.kind == METHOD_FRAME:
            class_id, method_id = struct.unpack_from(">HH", frame.payload)
            yield Method(class_id, method_id, frame.payload[4:])


class _Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes
    end: int
    """Where the next one begins."""


def _frames(sent: bytes, position: int) -> Iterator[_Frame]:
    """The frames from ``position`` on; an unfinished last one is left out."""
    while position + 7 < len(sent):
        kind, channel, size = struct.unpack_from(">BHI", sent, position)
        start, end = position + 7, position + 7 + size
        if end >= len(sent):
            return
        if sent[end] != FRAME_END:
            raise ValueError(f"byte {end} is {sent[end]:#x}, not the end of an AMQP frame.")
        position = end + 1
        yield _Frame(kind, channel, sent[start:end], position)
