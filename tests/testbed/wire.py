"""AMQP 0-9-1 on the wire: which methods a client sent."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

PROTOCOL_HEADER = 8
"""Bytes: ``AMQP`` and the version, the first a client sends."""

FRAME_END = 0xCE
METHOD_FRAME = 1

BASIC = 60
QOS = (BASIC, 10)
CONSUME = (BASIC, 20)
CANCEL = (BASIC, 30)
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
    position = PROTOCOL_HEADER if sent.startswith(b"AMQP") else 0
    while position + 7 < len(sent):
        kind, _channel, size = struct.unpack_from(">BHI", sent, position)
        start, end = position + 7, position + 7 + size
        if end >= len(sent):
            return
        if sent[end] != FRAME_END:
            raise ValueError(f"byte {end} is {sent[end]:#x}, not the end of an AMQP frame.")
        if kind == METHOD_FRAME:
            class_id, method_id = struct.unpack_from(">HH", sent, start)
            yield Method(class_id, method_id, sent[start + 4 : end])
        position = end + 1
