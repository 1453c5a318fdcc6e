"""The row types of a run: what is known of each entity at an instant."""

from __future__ import annotations

import numpy as np

(
    PUBLISH,  # a publisher sends
    REACH,  # what a client sent reaches the broker
    CONFIRM,  # a confirm reaches its publisher
    DELIVER,  # a message reaches its consumer
    FINISH,  # a handler is done
    ACKNOWLEDGE,  # an acknowledgement reaches the broker
    GRANT,  # a window may go above its prefetch
    EXPIRE,  # the time of a queue's first message is up
    CRASH,  # a consumer goes down
    NOTICE,  # the broker notices
    RESTART,  # the consumer is back
    WORKED,  # a process of the broker has done a job
    WRITTEN,  # the disk has written
    APPEAR,  # the time is up of what a queue keeps invisible
) = range(14)
"""What a timer means when it is due."""

ROUTE, ENTER, SEND, SETTLE, STORED = range(5)
"""Jobs of the broker with a message: find its queues, put it in one, send it, settle what its
consumer says of it, note that the disk has it."""

DONE, COVERED, RETURN, REJECT, SILENT = range(5)
"""What a consumer says of a message: acknowledged, acknowledged by one that stands for several,
put back, given up; nothing, so that the broker waits in vain."""

AFTER_PROCESSING, ON_RECEIPT, AUTOMATIC = range(3)

NO_BOUND = np.iinfo(np.int64).max

CLOCK = np.dtype(
    [
        ("now", np.float64),
        ("still", np.int64),  # events since time last went on
        ("changed", np.bool_),  # something was asked for since the last run
        ("reserve", np.int64),  # rows that one event may need
        ("unserved", np.int64),  # queue that had to stop giving messages for want of rows, or NONE
        # sizes of tables
        ("leaves", np.int64),
        ("publishers", np.int64),
        ("consumers", np.int64),
        ("kinds", np.int64),
        ("types", np.int64),
        # the broker
        ("cores", np.int64),  # 0: its work takes no time
        ("idle_cores", np.int64),
        ("first_process", np.int64),  # of those waiting for a core
        ("last_process", np.int64),
        ("credit", np.int64),
        ("more_credit", np.int64),  # copies that may wait when a publisher goes on
        ("memory_limit", np.int64),
        ("bytes", np.int64),  # in all queues, delivered and not acknowledged included
        ("alarm", np.bool_),
        ("core_time", np.float64),  # seconds of work done or begun
        # the disk
        ("disk", np.bool_),
        ("disk_slot", np.int64),
        ("disk_line", np.int64),  # waiting
        ("disk_batch", np.int64),  # being written
        ("disk_write", np.float64),
        ("disk_per_byte", np.float64),
        ("disk_time", np.float64),
    ],
    align=True,
)
SLOT = np.dtype([("event", np.int64), ("entity", np.int64)])
KIND = np.dtype(
    [
        ("type", np.int64),
        ("route", np.int64),
        ("size", np.int64),  # source
        ("priority", np.int64),
        ("persistent", np.bool_),
        ("chain", np.int64),  # row of latencies since the origin, or NONE
        ("sent", np.int64),  # counted since the start
    ],
    align=True,
)
ROUTE_ROW = np.dtype([("first", np.int64), ("targets", np.int64)])
CHOICE = np.dtype([("up_to", np.float64), ("kind", np.int64)])  # cumulative probability
PHASE = np.dtype([("start", np.float64), ("factor", np.float64), ("slope", np.float64)])
PUBLISHER = np.dtype(
    [
        ("slot", np.int64),
        ("every", np.int64),  # source
        ("port", np.int64),
        ("first_choice", np.int64),
        ("choices", np.int64),
        ("choose", np.int64),  # source
        ("first_phase", np.int64),
        ("phases", np.int64),
        ("left", np.float64),  # seconds to the next publish at the scenario's rate, while paused
        ("rate", np.float64),
        ("wanted_rate", np.float64),
        ("window", np.int64),  # messages that may wait for a confirm; 0: no confirms
        ("unconfirmed", np.int64),
        ("confirm_line", np.int64),
        ("confirm_slot", np.int64),
        ("confirm_jitter", np.int64),
        ("confirm_last", np.float64),
        ("waiting", np.int64),  # copies at the broker that are in no queue yet
        ("flow", np.bool_),  # out of credit
        ("blocked", np.bool_),  # has a message that it may not send
        ("since", np.float64),  # when it was blocked
        # counted since the start
        ("blocked_time", np.float64),
        ("published", np.int64),
        ("late", np.int64),  # of these, not when they were due
        ("confirmed", np.int64),
        ("refused", np.int64),  # confirmed negatively
        ("confirm_time", np.float64),
    ],
    align=True,
)
PORT = np.dtype(
    [
        ("line", np.int64),
        ("slot", np.int64),
        ("jitter", np.int64),
        ("delay", np.float64),
        ("seconds_per_byte", np.float64),
        ("free", np.float64),  # when the last byte sent so far is on its way
        ("last", np.float64),  # when the last message sent so far arrives
        ("process", np.int64),
        ("direct", np.bool_),  # no way to go
    ],
    align=True,
)
QUEUE = np.dtype(
    [
        ("line", np.int64),  # of the lowest priority; the others follow
        ("priorities", np.int64),
        ("max_length", np.int64),
        ("drop_head", np.bool_),
        ("ttl", np.float64),
        ("expire_slot", np.int64),
        ("visibility", np.float64),  # seconds a delivered message stays invisible
        ("appear_slot", np.int64),
        ("hidden_line", np.int64),  # what stands for messages that were delivered
        ("in_order", np.bool_),
        ("next_index", np.int64),  # of the message that is to be delivered next
        ("slowdown", np.float64),  # share that a message waiting adds to the queue's work
        ("delivery_limit", np.int64),
        ("dead", np.int64),  # row of the table of dead letters, or NONE
        ("visited", np.uint64),  # its bit among queues that dead-letter in a circle
        ("random", np.bool_),
        ("choose", np.int64),  # source
        ("durable", np.bool_),
        ("write_first", np.bool_),
        ("process", np.int64),
        ("ready", np.int64),  # consumers with room
        ("first_ready", np.int64),
        ("last_ready", np.int64),
        ("length", np.int64),
        ("bytes", np.int64),
        ("since", np.float64),  # up to when the length is summed up
        # counted since the start
        ("length_time", np.float64),
        ("published", np.int64),
        ("dropped", np.int64),
        ("expired", np.int64),
        ("rejected", np.int64),
        ("dead_lettered", np.int64),
        ("delivered", np.int64),
        ("returned", np.int64),
        ("acknowledged", np.int64),
        ("hidden", np.int64),  # with no consumer and not visible; less: visible, and with one
    ],
    align=True,
)
CONSUMER = np.dtype(
    [
        ("queue", np.int64),
        # the link
        ("down_line", np.int64),
        ("down_slot", np.int64),
        ("down_jitter", np.int64),
        ("up_line", np.int64),
        ("up_slot", np.int64),
        ("up_jitter", np.int64),
        ("delay", np.float64),  # seconds, one way
        ("seconds_per_byte", np.float64),
        ("line_free", np.float64),  # when the last byte sent so far is on its way
        ("down_last", np.float64),  # when the last message sent so far arrives
        ("up_last", np.float64),
        # the client
        ("buffer_line", np.int64),
        ("first_handler", np.int64),
        ("handlers", np.int64),
        ("idle", np.int64),  # first idle handler
        ("work", np.int64),  # source
        ("overhead", np.float64),  # seconds
        ("first_phase", np.int64),
        ("phases", np.int64),
        ("acknowledge", np.int64),
        ("batch", np.int64),
        ("multiple", np.bool_),
        ("done_line", np.int64),  # finished, and waiting for the batch to be full
        ("failure", np.float64),
        ("fail", np.int64),  # source
        ("on_failure", np.int64),
        ("first_send", np.int64),
        ("sends", np.int64),
        ("port", np.int64),
        ("up", np.bool_),
        ("lost_line", np.int64),  # what a crash left behind, youngest first
        ("crash_slot", np.int64),
        ("crash", np.int64),  # source
        ("notice_slot", np.int64),
        ("restart_slot", np.int64),
        ("restart", np.int64),  # source
        # the window
        ("listening", np.bool_),  # the broker has a connection to the consumer
        ("active", np.bool_),  # and delivers to it: it has not been removed
        ("wanted", np.bool_),
        ("grant_slot", np.int64),
        ("prefetch", np.float64),
        ("wanted_prefetch", np.float64),
        ("low", np.int64),  # whole numbers around the prefetch
        ("high", np.int64),
        ("credit", np.float64),  # message-seconds the window has been below the prefetch
        ("starved", np.bool_),  # has room; then it stands in the line of its queue
        ("next_ready", np.int64),
        ("previous_ready", np.int64),
        ("in_flight", np.int64),
        ("most_in_flight", np.int64),
        ("since", np.float64),  # up to when the times below are counted
        # counted since the start
        ("in_flight_time", np.float64),
        ("starved_time", np.float64),
        ("delivered", np.int64),
        ("acknowledged", np.int64),
        ("arrivals", np.int64),
        ("finished", np.int64),
        ("failed", np.int64),
        ("lost", np.int64),  # acknowledged before a crash, and not finished
        ("crashes", np.int64),
        ("work_time", np.float64),
        ("buffer_time", np.float64),
        ("busy_time", np.float64),  # of its handlers, up to the end of what they have begun
    ],
    align=True,
)
HANDLER = np.dtype(
    [
        ("slot", np.int64),
        ("consumer", np.int64),
        ("message", np.int64),
        ("work", np.float64),  # seconds of work on that message
        ("next_idle", np.int64),
    ]
)
SEND_ROW = np.dtype(
    [
        ("on", np.int64),  # type, or NONE for any
        ("kind", np.int64),
        ("probability", np.float64),
        ("choose", np.int64),  # source
    ]
)
PROCESS = np.dtype(
    [
        ("line", np.int64),  # jobs; those for consumers stand in the line after it
        ("slot", np.int64),
        ("message", np.int64),  # that it is at, or NONE
        ("waiting", np.bool_),  # for a core
        ("next", np.int64),  # the process behind it that waits for a core
    ],
    align=True,
)
COST = np.dtype([("seconds", np.float64), ("per_byte", np.float64), ("per_copy", np.float64)])
LATENCY = np.dtype([("count", np.int64), ("sum", np.float64), ("most", np.float64)])
