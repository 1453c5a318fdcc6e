"""The process behind :class:`tests.testbed.proxy.Proxy`: standard library only.

Commands come as JSON lines on standard input, each answered by one line on standard
output. The process ends when its standard input closes.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import io
import json
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator

CHUNK = 1 << 16

BUFFER = 1 << 22
"""Bytes kept per direction before reading stops: 5.5 ms at 700 MB/s, far above any client here."""

SLICE = 0.005
"""Seconds of throttled traffic sent at once: small against any interval a test looks at."""

EARLY = 50e-6
"""Seconds before its due time at which a chunk may leave: shorter than any sleep."""

LATE_AT_MOST = 0.0005
"""Seconds of oversleeping that count as the machine's habit; more is a busy machine."""

PR_SET_TIMERSLACK = 29

STAMP = struct.Struct("=dI")
"""Before each stamped chunk: when it was passed on, in seconds, and its length."""

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Network:
    """What holds for every connection: delay (seconds), rate (bytes/second), stalled or not."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.rate: float | None = None
        self.stalled = False


class Direction:
    """Bytes on their way from ``source`` to ``sink``; an empty chunk is the end of stream.

    Each chunk leaves at its arrival time plus the delay, so any number are under way at
    once: delay without a limit on throughput.
    """

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        recording: bytearray | None = None,
        stamped: io.BufferedWriter | None = None,
    ) -> None:
        self.source = source
        self.sink = sink
        self.recording = recording
        self.stamped = stamped
        self.chunks: deque[tuple[float, memoryview]] = deque()
        self.buffered = 0
        self.reading = True
        self.done = False
        self.sink_full = False
        self.idle_from = 0.0

    def wants_to_read(self) -> bool:
        return self.reading and self.buffered < BUFFER

    def due(self, network: Network) -> float | None:
        """When to look again, or None while only a socket event can change anything."""
        if network.stalled or self.sink_full or not self.chunks:
            return None
        return max(self.chunks[0][0], self.idle_from if network.rate else 0.0)

    def receive(self, network: Network) -> None:
        now = time.monotonic()
        try:
            data = self.source.recv(CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.reading = False
        if self.recording is not None:
            self.recording += data
        self.buffered += len(data)
        self.chunks.append((now + network.delay, memoryview(data)))

    def forward(self, network: Network) -> None:
        while (due := self.due(network)) is not None:
            now = time.monotonic()
            if due > now + EARLY:
                return
            arrival, chunk = self.chunks.popleft()
            if not chunk:
                self.done = True
                with contextlib.suppress(OSError):
                    self.sink.shutdown(socket.SHUT_WR)
                return
            part = chunk[: max(1, int(network.rate * SLICE))] if network.rate else chunk
            try:
                sent = self.sink.send(part)
            except BlockingIOError:
                sent, self.sink_full = 0, True
            if self.stamped is not None and sent:
                self.stamped.write(STAMP.pack(now, sent))
                self.stamped.write(chunk[:sent])
            self.buffered -= sent
            if network.rate:
                self.idle_from = max(now, self.idle_from) + sent / network.rate
            if sent < len(chunk):
                self.chunks.appendleft((arrival, chunk[sent:]))


class Link:
    """One client, its connection to the target, and both directions between them."""

    def __init__(
        self,
        client: socket.socket,
        target: tuple[str, int],
        recording: bytearray | None,
        stamped: io.BufferedWriter | None,
    ) -> None:
        self.client = client
        self.server = socket.socket()
        for end in (self.client, self.server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # In progress: until it is there, sending would block and nothing is there to read.
        self.server.connect_ex(target)
        self.directions = (
            Direction(self.client, self.server, recording),
            Direction(self.server, self.client, stamped=stamped),
        )

    @property
    def done(self) -> bool:
        return all(direction.done for direction in self.directions)

    def _end_stamps(self) -> None:
        for direction in self.directions:
            if direction.stamped is not None:
                direction.stamped.close()

    def reset(self) -> None:
        self._end_stamps()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            end.close()

    def close(self) -> None:
        self._end_stamps()
        self.client.close()
        self.server.close()


class ProxyProcess:
    """Moves bytes when sockets or due times say so, and obeys the commands in between."""

    def __init__(self) -> None:
        self.network = Network()
        self.links: list[Link] = []
        self.recordings: list[bytearray] | None = None
        self.stamps: str | None = None
        self.accepted = 0
        self.target = ("", 0)
        self.listener: socket.socket | None = None
        self.commands = b""
        self.lateness = 0.0

    def run(self) -> None:
        while True:
            readable, writable = self.wait()
            if 0 in readable and not self.obey():
                return
            if self.listener is not None and self.listener.fileno() in readable:
                self.accept(self.listener)
            for link in list(self.links):
                self.move(link, readable, writable)

    def wait(self) -> tuple[set[int], set[int]]:
        """Sleep until there is something to do. select() knows microseconds, epoll does not.

        The kernel wakes us some 0.1 ms late; ``lateness`` follows that, and we set the alarm
        earlier by it.
        """
        read, write, dues = [0], [], []
        if self.listener is not None:
            read.append(self.listener.fileno())
        for direction in self.directions():
            if direction.wants_to_read():
                read.append(direction.source.fileno())
            if direction.sink_full:
                write.append(direction.sink.fileno())
            if (due := direction.due(self.network)) is not None:
                dues.append(due)
        if not dues:
            readable, writable, _ = select.select(read, write, ())
            return set(readable), set(writable)
        alarm = min(dues) - self.lateness
        timeout = max(0.0, alarm - time.monotonic())
        readable, writable, _ = select.select(read, write, (), timeout)
        if timeout > 0 and not readable and not writable:
            late = min(time.monotonic() - alarm, LATE_AT_MOST)
            self.lateness += 0.05 * (late - self.lateness)
        return set(readable), set(writable)

    def directions(self) -> Iterator[Direction]:
        for link in self.links:
            yield from link.directions

    def move(self, link: Link, readable: set[int], writable: set[int]) -> None:
        try:
            for direction in link.directions:
                if direction.wants_to_read() and direction.source.fileno() in readable:
                    direction.receive(self.network)
                if direction.sink.fileno() in writable:
                    direction.sink_full = False
                direction.forward(self.network)
        except OSError:
            # One side was reset or refused: so is the other.
            link.reset()
            self.links.remove(link)
            return
        if link.done:
            link.close()
            self.links.remove(link)

    def accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        recording = None
        if self.recordings is not None:
            recording = bytearray()
            self.recordings.append(recording)
        stamped = None
        if self.stamps is not None:
            stamped = open(os.path.join(self.stamps, f"{self.accepted}.stamps"), "wb")  # noqa: SIM115
        self.accepted += 1
        self.links.append(Link(client, self.target, recording, stamped))

    def obey(self) -> bool:
        """Carry out the commands that came; False when there will be no more."""
        received = os.read(0, CHUNK)
        self.commands += received
        *lines, self.commands = self.commands.split(b"\n")
        for line in lines:
            command, arguments = json.loads(line)
            answer = getattr(self, f"do_{command}")(**arguments)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        if not received:
            self.do_cut()
        return bool(received)

    def do_listen(self, host: str, port: int, record: bool, stamps: str | None) -> int:
        self.target = (socket.gethostbyname(host), port)
        self.recordings = [] if record else None
        self.stamps = stamps
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        return int(self.listener.getsockname()[1])

    def do_set_delay(self, seconds: float) -> None:
        self.network.delay = seconds

    def do_throttle(self, bytes_per_second: float | None) -> None:
        self.network.rate = bytes_per_second

    def do_stall(self) -> None:
        self.network.stalled = True

    def do_resume(self) -> None:
        self.network.stalled = False

    def do_cut(self) -> None:
        for link in self.links:
            link.reset()
        self.links.clear()

    def do_connections(self) -> int:
        return len(self.links)

    def do_recorded(self) -> list[str]:
        return [base64.b64encode(sent).decode() for sent in self.recordings or ()]


def sharpen_timers() -> None:
    """Ask Linux to wake us within a microsecond of the due time; it allows itself 50."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)


if __name__ == "__main__":
    sharpen_timers()
    ProxyProcess().run()
