"""From a pika channel to one whose consumers hold their goals, and back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any

from pika.adapters.blocking_connection import BlockingChannel
from pika.channel import Channel

from controlmq.checks import above_zero
from controlmq.clients.pika import private
from controlmq.clients.pika.asynchronous import AdaptiveChannel
from controlmq.clients.pika.blocking import AdaptiveBlockingChannel
from controlmq.clients.pika.channel import AdaptivePikaChannel, patched, was_adaptive
from controlmq.clients.settings import settings_from
from controlmq.consumer.consumer import WindowChoice
from controlmq.consumer.handler_pool import HandlerPool, SharedPool
from controlmq.controllers.limits import Limits
from controlmq.controllers.resolve import ControllerSpec, ModelSpec
from controlmq.errors import InputError
from controlmq.goals import GivenByQueue
from controlmq.loop import Step, Transition


def wrap(
    channel: Any,
    goal: GivenByQueue = None,
    controller: ControllerSpec | None = None,
    *,
    at_most: GivenByQueue = None,
    burst: float | Mapping[str, float] | None = None,
    buffer_time: GivenByQueue = None,
    protect: bool | Mapping[str, bool] = False,
    model: ModelSpec | None = None,
    interval: float | None = None,
    prefetch: float | None = None,
    limits: Limits | None = None,
    window: WindowChoice = "auto",
    max_held: int | None = None,
    max_hold: float = 10.0,
    handlers: int | HandlerPool | SharedPool | None = None,
    record: Callable[[Transition], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
    group: str | None = None,
    shared: str | None = None,
    go_on_from: Any = None,
) -> Any:
    """Adapt the prefetch of every consumer started on ``channel`` from now on.

    The channel, a ``BlockingChannel`` or an asynchronous ``Channel`` of pika, is returned: it
    is the same object, and behaves as before.

    What each consumer is to do are its goals, one for all queues or a mapping from queues. They
    combine; without any, it finds the least prefetch that loses no throughput:

    - ``goal``: hold this rate, messages/second or a text such as ``"400/s"``;
    - ``at_most``: never start more than this rate, as in ``"5/minute"``; ``burst`` messages, by
      default 50 ms' worth and at least 1, may start at once;
    - ``shared``: a name; ``at_most`` and ``burst`` are then for all consumers together, in whatever
      process, that share the rate of that name at this broker;
    - ``buffer_time``: let a message wait about this long here, seconds or as in ``"100 ms"``;
    - ``protect``: take less while handlers are slow because what is behind them is congested.

    ``controller``, anything :func:`controlmq.controllers.resolve.controller_from` takes, holds
    the rate ``goal`` by moving the prefetch, as published;
    ``model``, itself or its file, is what the gains of a law given by name come from; without a
    ``controller`` that law is PI. A file is read again whenever it changes. The loop turns every
    ``interval`` seconds: the model's, or 1 without one.

    ``prefetch`` is where a consumer starts, and where it stays without a goal; without it, what
    ``basic_qos`` said, else what the model expects to meet the goal, up to the end of its linear
    range, else 1. ``limits`` bound it, by default 0.1 to 2,000. Beyond the range of its model a law
    goes on as long as the rate follows, and the log says so.

    ``window`` is ``"auto"``, ``"lanes"`` or ``"single"``: the last where only one consumer may
    exist, subscribed at the upper limit (without limits at the end of the model's range, or with
    250). At most ``max_held`` acks are
    held back, or as many as one lane has while it is retired, for at most ``max_hold`` seconds
    each; if the process dies, their messages are delivered once more.

    ``handlers`` is how many messages the program works on at once, or the
    :class:`~controlmq.clients.pool.WorkerPool` in which it does. Without it the number is seen: 1
    where the callback does the work, else the most messages it had at once lately.

    ``go_on_from`` is for a program that connects again: the wrapped channel that was lost, or None
    the first time. A consumer of the same queue goes on with the prefetch, the goals and the
    controller that the one there had, and a message that was handled there, whose ack was lost, is
    acknowledged without being handled again, where it has a ``message_id``.

    ``record`` is called with each transition (a ``TraceWriter``, say), ``on_step`` with each
    step of the loop; ``group`` names the consumer in a trace, by default as its queue. A
    controller, a recorder or an ``on_step`` that fails does not stop the consumer.
    """
    if isinstance(channel, AdaptivePikaChannel):
        raise InputError("the channel is wrapped already; unwrap it first.")
    last = _lost_channel(go_on_from)
    settings = settings_from(
        goal,
        controller,
        at_most=at_most,
        burst=burst,
        buffer_time=buffer_time,
        protect=protect,
        model=model,
        interval=interval,
        prefetch=prefetch,
        limits=limits,
        window=window,
        max_held=max_held,
        max_hold=max_hold,
        handlers=handlers,
        record=record,
        on_step=on_step,
        group=group,
        shared=shared,
    )
    if isinstance(channel, BlockingChannel):
        adaptive: type = AdaptiveBlockingChannel
    elif isinstance(channel, Channel):
        adaptive = AdaptiveChannel
    else:
        raise InputError(
            f"cannot wrap a {type(channel).__name__}; give a channel of pika's "
            "BlockingConnection, SelectConnection or AsyncioConnection."
        )
    if channel.consumer_tags:
        raise InputError("the channel has consumers already; wrap it before basic_consume.")
    private.check(channel)
    # The same object with another class: connection.close() and everybody else who has the
    # channel use the adapted one, and no ack bypasses it.
    kind = type(channel)
    # A class of the user's comes first: what it overrides still happens, and calls ours.
    bases = (adaptive,) if issubclass(adaptive, kind) else (kind, adaptive)
    namespace = {"_plain_class": kind, "_replaced": _replaced(adaptive)}
    wrapped = type(adaptive.__name__, bases, namespace)
    _adopt_patches(channel, wrapped)
    channel.__class__ = wrapped
    channel._adapt_with(settings, last)
    return channel


def unwrap(channel: Any, prefetch: int | None = None) -> Any:
    """Give back plain consumers with a fixed prefetch: as many slots as they have, or these.

    Control ends at once, all held acks are sent, and nothing is recorded or reported any more.
    Without lanes the channel is pika's own again, in a ``consume()`` loop once that is cancelled.
    With lanes it keeps their number until it closes, or until ``prefetch`` lets them be
    retired, which requeues nothing and so takes its time. A ``prefetch`` that differs from
    what the consumer was subscribed with keeps the window until the channel closes.
    """
    if not isinstance(channel, AdaptivePikaChannel):
        raise InputError("the channel is not wrapped.")
    if prefetch is not None:
        above_zero("prefetch", prefetch)
    channel._fix(prefetch)
    return channel


def _lost_channel(given: Any) -> AdaptivePikaChannel | None:
    """The channel to go on from; None where there is none, or where its control has ended."""
    if given is None or was_adaptive(given):
        return None
    if not isinstance(given, AdaptivePikaChannel):
        raise InputError(
            f"cannot go on from a {type(given).__name__}; give the wrapped channel that was "
            "lost, or None the first time."
        )
    if given.is_open and given.consumer_tags:
        raise InputError(
            "the channel to go on from is open and consumes; go on from it once it is closed, or "
            "leave go_on_from out."
        )
    return given


def _replaced(adaptive: type) -> frozenset[str]:
    """Names of pika's methods that an adaptive class gives another meaning.

    Not those of answers: however these are given, they are noted where they are sent.
    """
    ours = [each for each in adaptive.__mro__ if issubclass(each, AdaptivePikaChannel)]
    names = {name for each in ours for name, value in vars(each).items() if callable(value)}
    return frozenset(name for name in names if name[0] != "_") - {"basic_ack"}


def _adopt_patches(channel: Any, wrapped: type) -> None:
    """Let what replaces a method on the object call the wrapped class, or refuse the channel.

    OpenTelemetry replaces ``basic_consume`` by a proxy of wrapt, which can be told what to call.
    """
    found = patched(channel, wrapped._replaced)  # type: ignore[attr-defined]
    innermost = {name: _innermost_proxy(patch) for name, patch in found.items()}
    for name, proxy in innermost.items():
        if proxy is None:
            raise InputError(
                f"the channel has a {name} of its own, set on the object before it was wrapped, "
                "which would bypass the window; wrap the channel first, then set it."
            )
    for name, proxy in innermost.items():
        proxy.__wrapped__ = MethodType(getattr(wrapped, name), channel)


def _innermost_proxy(patch: Any) -> Any:
    """The proxy that calls the method itself, where several may wrap each other; None if none."""
    wrapt = sys.modules.get("wrapt")
    proxy = None
    while wrapt is not None and issubclass(type(patch), wrapt.FunctionWrapper):
        proxy, patch = patch, patch.__wrapped__
    return proxy
