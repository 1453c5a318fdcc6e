"""The row types of the tables: what is known of each entity at an instant."""

from __future__ import annotations

import numpy as np

(
    PUBLISH,  # a publisher sends a message
    REACH,  # a message that a client sent reaches the broker
    CONFIRM,  # a confirm reaches its publisher
    DELIVER,  # a message reaches its consumer
    FINISH,  # a handler is done with a message, or may start on one that waited for a token
    ACKNOWLEDGE,  # a consumer's answer reaches the broker
    RELEASE,  # a held acknowledgement may be sent
    EXPIRE,  # a queue's first message expires
    CRASH,  # a consumer goes down
    NOTICE,  # the broker notices that a consumer crashed
    RESTART,  # a crashed consumer starts again
    WORKED,  # a process of the broker has finished a job
    WRITTEN,  # the disk has finished a write
    APPEAR,  # a visibility timeout ends
) = range(14)
"""What a timer means when it is due."""

ROUTE, ENTER, SEND, SETTLE, STORED = range(5)
"""Jobs of the broker with a message: find its queues, put it in one, send it, act on its
consumer's answer, note that it is on disk."""

DONE, COVERED, RETURN, REJECT, SILENT = range(5)
"""A consumer's answer for a message: acknowledged, covered by the acknowledgement of a later one,
put back, given up, or no answer at all."""

AFTER_PROCESSING, ON_RECEIPT, AUTOMATIC = range(3)

NO_BOUND = np.iinfo(np.int64).max


def _each(type_: type, *names: str) -> list[tuple[str, type]]:
    """Fields of the same type."""
    return [(name, type_) for name in names]


CLOCK = np.dtype(
    [
        ("now", np.float64),
        ("still", np.int64),  # events since time last advanced
        ("changed", np.bool_),  # a change was requested since the last run
        ("reserve", np.int64),  # rows of the pool that one event may need
        ("unserved", np.int64),  # queue that stopped delivering because the pool was full, or NONE
        # sizes of tables
        *_each(np.int64, "leaves", "publishers", "consumers", "kinds"),
        # the broker
        ("cores", np.int64),  # 0: its work takes no time
        ("idle_cores", np.int64),
        ("first_process", np.int64),  # first of those waiting for a core
        ("last_process", np.int64),
        ("credit", np.int64),
        ("more_credit", np.int64),  # copies that may wait when a publisher continues
        ("memory_limit", np.int64),
        ("bytes", np.int64),  # in all queues, delivered and not acknowledged included
        ("alarm", np.bool_),
        ("core_time", np.float64),  # seconds of work done or begun
        # the disk
        ("disk", np.bool_),
        ("disk_slot", np.int64),
        ("disk_line", np.int64),  # waiting
        ("disk_batch", np.int64),  # being written
        *_each(np.float64, "disk_write", "disk_per_byte", "disk_time"),
    ],
    align=True,
)

# Rows, lines, slots and sources have numbers of four bytes, and the fields that every message
# needs come first, so that many queues and consumers fit in the processor's cache.

SLOT = np.dtype([("event", np.int32), ("entity", np.int32)])
KIND = np.dtype(
    [
        ("type", np.int32),
        ("route", np.int32),
        ("size", np.int32),  # bytes, if it is fixed
        ("priority", np.int32),
        ("chain", np.int32),  # row of latencies since the origin, or NONE
        ("persistent", np.bool_),
        ("sent", np.int64),  # since the start
    ],
    align=True,
)
ROUTE_ROW = np.dtype([("first", np.int32), ("targets", np.int32)])
CHOICE = np.dtype(
    [
        ("up_to", np.float64),  # cumulative probability
        ("kind", np.int32),
        ("size", np.int32),  # source, or NONE
    ],
    align=True,
)
PHASE = np.dtype([("start", np.float64), ("factor", np.float64), ("slope", np.float64)])
PUBLISHER = np.dtype(
    [
        ("slot", np.int32),
        ("every", np.int32),  # source
        *_each(np.int32, "port", "first_choice", "choices", "phases"),
        ("window", np.int32),  # messages that may wait for a confirm; 0: no confirms
        ("unconfirmed", np.int32),
        ("flow", np.bool_),  # out of credit
        ("blocked", np.bool_),  # wants to send a message and may not
        ("overdue", np.bool_),  # has a message that it could not send when it was due
        ("released", np.bool_),  # may send one message after an alarm, even in the next alarm
        ("waiting", np.int32),  # copies at the broker that are in no queue yet
        ("rate", np.float64),
        ("published", np.int64),  # since the start, like those below
        ("late", np.int64),  # of these, later than they were due
        ("confirmed", np.int64),
        ("refused", np.int64),  # confirmed negatively
        ("confirm_time", np.float64),
        ("confirm_last", np.float64),
        ("confirm_line", np.int32),
        ("confirm_slot", np.int32),
        ("confirm_jitter", np.int32),  # source, or NONE
        ("choose", np.int32),  # source
        ("first_phase", np.int32),
        ("left", np.float64),  # while paused: seconds to the next message at the scenario's rate
        ("wanted_rate", np.float64),
        ("since", np.float64),  # when it became blocked
        ("blocked_time", np.float64),
    ],
    align=True,
)
PORT = np.dtype(
    [
        ("line", np.int32),
        ("slot", np.int32),
        ("jitter", np.int32),  # source, or NONE
        ("process", np.int32),
        ("direct", np.bool_),  # without a link
        ("delay", np.float64),
        ("seconds_per_byte", np.float64),
        ("free", np.float64),  # when the last byte has been sent
        ("last", np.float64),  # when the last message arrives
    ],
    align=True,
)
QUEUE = np.dtype(
    [
        ("line", np.int32),  # of the lowest priority; the others follow
        ("priorities", np.int32),
        ("expire_slot", np.int32),
        ("ready", np.int32),  # consumers with room
        ("first_ready", np.int32),
        ("last_ready", np.int32),
        ("first_pair", np.int32),  # row of latencies of its first type of message
        ("pairs", np.int32),  # how many
        ("process", np.int32),
        *_each(np.bool_, "drop_head", "durable", "write_first", "in_order", "random"),
        ("ttl", np.float64),
        ("visibility", np.float64),  # seconds a delivered message stays invisible
        *_each(np.int64, "max_length", "length", "bytes"),
        ("since", np.float64),  # up to when the length is added up
        ("length_time", np.float64),  # since the start, like those below
        *_each(np.int64, "published", "delivered", "acknowledged", "dropped", "expired"),
        *_each(np.int64, "rejected", "dead_lettered", "returned"),
        ("hidden", np.int64),  # invisible and with no consumer, minus visible again and with one
        ("appear_slot", np.int32),
        ("hidden_line", np.int32),  # twins of delivered messages
        ("choose", np.int32),  # source
        ("dead", np.int32),  # row of the table of dead letters, or NONE
        ("next_index", np.int64),  # of the message that is to be delivered next
        ("slowdown", np.float64),  # share that each waiting message adds to the queue's work
        ("delivery_limit", np.int64),
        ("visited", np.uint64),  # its bit among queues that dead-letter in a circle
        ("dead_copies", np.int64),  # of its dead letters, one for each queue they were sent to
        ("cycled", np.int64),  # copies that would have returned to it in a circle
    ],
    align=True,
)
CONSUMER = np.dtype(
    [
        ("queue", np.int32),
        # the link
        ("down_line", np.int32),
        ("down_slot", np.int32),
        ("down_jitter", np.int32),  # source, or NONE
        ("up_line", np.int32),
        ("up_slot", np.int32),
        ("up_jitter", np.int32),  # source, or NONE
        # the client
        ("buffer_line", np.int32),
        ("idle", np.int32),  # first idle handler
        ("work", np.int32),  # source
        *_each(np.int32, "phases", "batch", "sends"),
        ("resource", np.int32),  # that its work needs, or NONE
        ("last_handler", np.int32),  # the first handler after those that may work
        # the window
        ("release_slot", np.int32),
        ("held_line", np.int32),  # acknowledgements that are held
        ("low", np.int32),  # whole numbers around the prefetch
        *_each(np.int32, "high", "in_flight", "most_in_flight", "next_ready", "previous_ready"),
        ("acknowledge", np.int8),
        ("up", np.bool_),
        ("listening", np.bool_),  # the broker has a connection to the consumer
        ("active", np.bool_),  # it has not been removed, so the broker delivers to it
        ("spaced", np.bool_),  # an acknowledgement is held for its distance alone
        ("starved", np.bool_),  # has room, and so stands in the line of its queue
        ("wanted", np.bool_),
        ("delay", np.float64),  # seconds, one way
        ("seconds_per_byte", np.float64),
        ("line_free", np.float64),  # when the last byte has been sent
        ("down_last", np.float64),  # when the last message arrives
        ("up_last", np.float64),
        ("overhead", np.float64),  # seconds
        ("failure", np.float64),
        ("prefetch", np.float64),
        ("error", np.float64),  # slot-seconds by which open slots were below the prefetch
        ("spacing", np.float64),  # seconds between acknowledgements that open slots, or 0
        ("next_release", np.float64),  # when the next of them may be sent
        ("pace", np.float64),  # messages/second that its buckets allow, or 0 for any number
        ("early", np.float64),  # seconds by which the burst lets a token be taken earlier
        ("openings_full_at", np.float64),  # when the bucket of acks that open slots is full
        ("starts_full_at", np.float64),  # when the bucket of handlers that start is full
        ("dry_since", np.float64),  # when it last became starved
        ("since", np.float64),  # up to when the times below are added up
        ("in_flight_time", np.float64),  # since the start, like those below
        ("held_time", np.float64),  # summed over held acknowledgements
        ("open_time", np.float64),  # summed over open slots
        *_each(np.float64, "starved_time", "work_time", "buffer_time"),
        ("turnaround_time", np.float64),  # summed over messages whose slot was filled at once
        ("turnarounds", np.int64),  # these messages
        ("slot_at", np.float64),  # when an answer last made room in its window at the broker
        ("slot_released", np.float64),  # when that answer was sent
        ("busy_time", np.float64),  # of its handlers, up to the end of what they work on
        *_each(np.int64, "delivered", "acknowledged", "arrivals", "finished"),
        ("given", np.int64),  # acknowledgements, held ones included
        ("failed", np.int64),
        ("lost", np.int64),  # acknowledged before a crash, and not finished
        ("crashes", np.int64),
        # fields that few messages need
        ("wanted_prefetch", np.float64),
        ("wanted_spacing", np.float64),
        *_each(np.float64, "wanted_pace", "wanted_early"),
        *_each(np.int64, "openings_awaited", "starts_awaited"),  # tokens that something waited for
        ("gated_time", np.float64),  # summed over messages while the next token is not there
        ("gated_since", np.float64),  # up to when that is added up
        ("batch_time", np.float64),  # summed over finished messages that waited for their batch
        ("least_since", np.float64),  # since when the next is the fewest, or negative
        ("least_waiting", np.int64),  # messages in the buffer when a handler started
        *_each(np.int32, "first_handler", "handlers", "first_phase"),
        ("work_row", np.int32),  # row of latencies of its handlers' times, where it has a resource
        ("multiple", np.bool_),
        ("on_failure", np.int8),
        ("done_line", np.int32),  # finished messages that wait for the batch to be full
        ("fail", np.int32),  # source
        ("first_send", np.int32),
        ("port", np.int32),
        ("lost_line", np.int32),  # messages that a crash left behind, newest first
        ("crash_slot", np.int32),
        ("crash", np.int32),  # source
        ("notice_slot", np.int32),
        ("restart_slot", np.int32),
        ("restart", np.int32),  # source
    ],
    align=True,
)
HANDLER = np.dtype(
    [
        *_each(np.int32, "slot", "consumer", "message"),
        ("next", np.int32),  # idle handler, or the one behind it that waits for the resource
        ("work", np.float64),  # seconds of work on that message, waiting for the resource included
        ("since", np.float64),  # when it took the message
    ]
)
RESOURCE = np.dtype(
    [
        ("free", np.int64),  # servers
        ("first", np.int64),  # handler that has waited longest for a server, or NONE
        ("last", np.int64),
    ]
)
SEND_ROW = np.dtype(
    [
        ("on", np.int32),  # type, or NONE for any
        ("kind", np.int32),
        ("probability", np.float64),
        ("choose", np.int32),  # source
        ("size", np.int32),  # source, or NONE
    ],
    align=True,
)
PROCESS = np.dtype(
    [
        ("line", np.int64),  # jobs; those for consumers are in the line after it
        ("slot", np.int64),
        ("message", np.int64),  # that it works on, or NONE
        ("waiting", np.bool_),  # for a core
        ("next", np.int64),  # the process behind it that waits for a core
    ],
    align=True,
)
COST = np.dtype([("seconds", np.float64), ("per_byte", np.float64), ("per_copy", np.float64)])
LATENCY = np.dtype([("count", np.int64), ("sum", np.float64), ("most", np.float64)])
