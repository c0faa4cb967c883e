"""A network in memory that delays, holds back and breaks, for whole clusters in one run.

Every host is a text such as ``10.0.0.1``. Bytes of one connection keep their order and arrive
after a random delay. Between two hosts that are parted nothing arrives and nothing breaks, as
with a cable that was pulled; what was under way comes when they are joined again. A host that
goes down breaks all its connections. All that is random comes from one generator.
"""

import errno
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import Dial
from lanemq.wire import HostAddress

from ._wakes import Wake

DELAY_MEAN_S: Final = 0.0005
SLOW_SHARE: Final = 0.01
"""The share of chunks that are delayed by ``SLOW_MEAN_S`` on average."""
SLOW_MEAN_S: Final = 0.05
BUFFER_BYTES: Final = 1 << 20
FIRST_CLIENT_PORT: Final = 40_000

PART_SHARE: Final = 0.01
"""The share of sends that are not taken as a whole at once."""

Accept = Callable[["End", HostAddress, int], None]
"""Takes one connection: the stream, the peer, and the port it came in at."""


@final
class Network:
    """The simulated network: listeners, partitions, and data under way."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._listeners: dict[tuple[str, int], Accept] = {}
        self._parted: set[frozenset[str]] = set()
        self._down: set[str] = set()
        self._ends: dict[End, None] = {}  # in the order of the dialling: a run repeats it
        self._trace = blake2b(digest_size=8)
        self._changed = trio.Event()
        self._ports = FIRST_CLIENT_PORT

    # Hosts

    @contextmanager
    def listening(self, host: str, port: int, accept: Accept) -> Iterator[None]:
        """Let ``accept`` serve connections to the address within the block."""
        self._listeners[host, port] = accept
        try:
            yield
        finally:
            self._listeners.pop((host, port), None)

    def go_up(self, host: str) -> None:
        """Let programs on a host reach others again."""
        self._down.discard(host)

    def go_down(self, host: str) -> None:
        """Break every connection of a host and stop its listening, at once."""
        self._down.add(host)
        for address in [address for address in self._listeners if address[0] == host]:
            del self._listeners[address]
        for end in [end for end in self._ends if host in (end.host, end.peer_host)]:
            end.break_off()
        self._notify()

    def part(self, one: str, other: str) -> None:
        """Let nothing pass between two hosts until ``join``."""
        self._parted.add(frozenset((one, other)))

    def join(self, one: str | None = None, other: str | None = None) -> None:
        """Take back one ``part``, or all."""
        if one is None or other is None:
            self._parted.clear()
        else:
            self._parted.discard(frozenset((one, other)))
        self._notify()

    def is_parted(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._parted

    def _notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def passable(self, one: str, other: str) -> None:
        """Wait until the hosts are not parted."""
        while self.is_parted(one, other):
            await self._changed.wait()

    def delay_s(self) -> float:
        mean_s = SLOW_MEAN_S if self._rng.random() < SLOW_SHARE else DELAY_MEAN_S
        return self._rng.expovariate(1 / mean_s)

    # Connections

    def dialer(self, source: str) -> Dial:
        """Return the function by which a program on host ``source`` opens connections."""

        async def dial(host: str, port: int) -> trio.abc.Stream:
            await trio.sleep(self.delay_s())
            await self.passable(source, host)
            accept = self._listeners.get((host, port))
            if accept is None or source in self._down:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")
            self._ports += 1
            peer = HostAddress(source, self._ports)
            ours = End(self, source, host, self._ports)
            theirs = End(self, host, source, self._ports)
            ours.other, theirs.other = theirs, ours
            self._ends |= {ours: None, theirs: None}
            accept(theirs, peer, port)
            return ours

        return dial

    def taken(self, size: int) -> int:
        """Return how many of so many bytes are taken at once: seldom none or some of them."""
        if self._rng.random() < PART_SHARE:
            return self._rng.randrange(size)
        return size

    def forget(self, end: "End") -> None:
        self._ends.pop(end, None)

    def note(self, end: "End", data: bytes) -> None:
        """Add a sent frame to the trace."""
        self._trace.update(f"{trio.current_time():.9f} {end.host} {end.peer_host} ".encode())
        self._trace.update(data)

    @property
    def trace(self) -> str:
        """A digest of all that was sent, from whom to whom and when: equal in equal runs."""
        return self._trace.hexdigest()


@final
class Descriptor(int):
    """The number of a connection's end, as the system gives them to sockets."""

    end: "End"

    def fileno(self) -> "Descriptor":
        return self


@final
class End(trio.abc.Stream):
    """One end of a connection; keeps what is under way to it.

    Only what arrives wakes its reader, once: most of a run's time is spent in waking tasks.
    """

    def __init__(self, network: Network, host: str, peer_host: str, number: int) -> None:
        self.host = host
        self.peer_host = peer_host
        self.other: End
        self.socket = Descriptor(number)
        """Its number, which has one of its own as a socket has."""
        self.socket.end = self
        self._network = network
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._under_way_bytes = 0
        self._arrives_s = 0.0
        self._reader: trio.lowlevel.Task | None = None
        """The task that waits for what is under way, and for the end."""
        self._arrival = Wake(self._wake_reader)
        """Ends the reader's wait when the next bytes arrive."""
        self._room: trio.Event | None = None
        """Set when bytes were taken, or never will be; None while no sender waits for that."""
        self._is_broken = False
        self._is_closed = False

    def _wake_reader(self) -> None:
        if self._reader is not None:
            trio.lowlevel.reschedule(self._reader)
            self._reader = None

    def _notify(self) -> None:
        """Let the reader and the sender look again."""
        self._arrival.at(math.inf)
        self._wake_reader()
        self._notify_sender()

    def _notify_sender(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    def break_off(self) -> None:
        """Break the connection for both sides."""
        for end in (self, self.other):
            end._is_broken = True
            end._under_way.clear()
            end._notify()
            self._network.forget(end)

    def _check(self) -> None:
        if self._is_closed:
            raise trio.ClosedResourceError
        if self._is_broken:
            raise trio.BrokenResourceError

    # Sending

    def try_send(self, data: bytes | bytearray | memoryview) -> int:
        """Send as much as is taken at once; return how many bytes that was."""
        self._check()
        other = self.other
        if other._is_closed:
            raise trio.BrokenResourceError
        if other._under_way_bytes > BUFFER_BYTES:
            return 0
        content = bytes(data[: self._network.taken(len(data))])
        if not content:
            return 0
        other._arrives_s = max(other._arrives_s, trio.current_time() + self._network.delay_s())
        self._network.note(self, content)
        other._under_way.append((other._arrives_s, content))
        other._under_way_bytes += len(content)
        if other._reader is not None and len(other._under_way) == 1:
            other._arrival.at(other._arrives_s)
        return len(content)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        left, other = memoryview(data), self.other
        while sent := len(left):
            while other._under_way_bytes > BUFFER_BYTES and not self._is_broken:
                other._room = other._room or trio.Event()
                await other._room.wait()
            sent = self.try_send(left)
            left = left[sent:]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    # Receiving

    def try_receive(self, max_bytes: int | None = None) -> bytes | None:
        """Return the bytes that have arrived; none at the end, None if more may come."""
        self._check()
        if self._under_way:
            is_there = self._under_way[0][0] <= trio.current_time()
            if is_there and not self._network.is_parted(self.host, self.peer_host):
                return self._take(max_bytes or BUFFER_BYTES)
        elif self.other._is_closed:
            return b""
        return None

    async def readable(self) -> None:
        """Wait until ``try_receive`` returns bytes, or has nothing to wait for."""
        await trio.lowlevel.checkpoint_if_cancelled()
        has_waited = False
        while not (self._is_closed or self._is_broken):
            if not self._under_way:
                if self.other._is_closed:
                    break
                await self._notified(math.inf)
            elif (until_s := self._under_way[0][0]) > trio.current_time():
                await self._notified(until_s)
            elif self._network.is_parted(self.host, self.peer_host):
                await self._network.passable(self.host, self.peer_host)
            else:
                break
            has_waited = True
        if not has_waited:  # as a socket that has something to read
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await self.readable()
            data = self.try_receive(max_bytes)
            if data is not None:
                return data

    async def _notified(self, until_s: float) -> None:
        """Wait until the connection ends, or until the next bytes have arrived."""

        def abort(_: object) -> trio.lowlevel.Abort:
            self._reader = None
            self._arrival.at(math.inf)
            return trio.lowlevel.Abort.SUCCEEDED

        assert self._reader is None, "two tasks read one stream"
        self._reader = trio.lowlevel.current_task()
        self._arrival.at(until_s)
        await trio.lowlevel.wait_task_rescheduled(abort)

    def _take(self, max_bytes: int) -> bytes:
        arrived_s, data = self._under_way.popleft()
        if len(data) > max_bytes:
            self._under_way.appendleft((arrived_s, data[max_bytes:]))
            data = data[:max_bytes]
        self._under_way_bytes -= len(data)
        self._notify_sender()
        return data

    async def aclose(self) -> None:
        self._is_closed = True
        self._notify()
        self.other._notify()
        self._network.forget(self)
        await trio.lowlevel.checkpoint()
