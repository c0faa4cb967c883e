"""A network in memory that delays, holds back and breaks, for whole clusters in one run.

Every host is a text such as ``10.0.0.1``. Bytes of one connection keep their order and arrive
after a random delay. Between two hosts that are parted nothing arrives and nothing breaks, as
with a cable that was pulled; what was under way comes when they are joined again. A host that
goes down breaks all its connections. All that is random comes from one generator.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from random import Random
from typing import Final, final

import trio

from lanemq.sdk import Dial
from lanemq.wire import HostAddress

DELAY_MEAN_S: Final = 0.0005
SLOW_SHARE: Final = 0.01
"""The share of chunks that are delayed by ``SLOW_MEAN_S`` on average."""
SLOW_MEAN_S: Final = 0.05
BUFFER_BYTES: Final = 1 << 20
FIRST_CLIENT_PORT: Final = 40_000

Accept = Callable[[trio.abc.Stream, HostAddress, int], None]
"""Takes one connection: the stream, the peer, and the port it came in at."""


@final
class Network:
    """The simulated network: listeners, partitions, and data under way."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._listeners: dict[tuple[str, int], Accept] = {}
        self._parted: set[frozenset[str]] = set()
        self._down: set[str] = set()
        self._ends: dict[_End, None] = {}  # in the order of the dialling: a run repeats it
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
            ours, theirs = _End(self, source, host), _End(self, host, source)
            ours.other, theirs.other = theirs, ours
            self._ends |= {ours: None, theirs: None}
            accept(theirs, peer, port)
            return ours

        return dial

    def forget(self, end: "_End") -> None:
        self._ends.pop(end, None)

    def note(self, end: "_End", data: bytes) -> None:
        """Add a sent frame to the trace."""
        self._trace.update(f"{trio.current_time():.9f} {end.host} {end.peer_host} ".encode())
        self._trace.update(data)

    @property
    def trace(self) -> str:
        """A digest of all that was sent, from whom to whom and when: equal in equal runs."""
        return self._trace.hexdigest()


@final
class _End(trio.abc.Stream):
    """One end of a connection; keeps what is under way to it."""

    def __init__(self, network: Network, host: str, peer_host: str) -> None:
        self.host = host
        self.peer_host = peer_host
        self.other: _End
        self._network = network
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._under_way_bytes = 0
        self._arrives_s = 0.0
        self._changed = trio.Event()
        self._is_broken = False
        self._is_closed = False

    def _notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def break_off(self) -> None:
        """Break the connection for both sides."""
        for end in (self, self.other):
            end._is_broken = True
            end._under_way.clear()
            end._notify()
            self._network.forget(end)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        other = self.other
        while other._under_way_bytes > BUFFER_BYTES and not self._is_broken:
            await other._changed.wait()
        if self._is_closed:
            raise trio.ClosedResourceError
        if self._is_broken or other._is_closed:
            raise trio.BrokenResourceError
        other._arrives_s = max(other._arrives_s, trio.current_time() + self._network.delay_s())
        content = bytes(data)
        self._network.note(self, content)
        other._under_way.append((other._arrives_s, content))
        other._under_way_bytes += len(data)
        other._notify()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            if self._is_closed:
                raise trio.ClosedResourceError
            if self._is_broken:
                raise trio.BrokenResourceError
            if self._under_way:
                arrives_s = self._under_way[0][0]
                if arrives_s > trio.current_time():
                    with trio.move_on_at(arrives_s):
                        await self._changed_or_closed()
                    continue
                if self._network.is_parted(self.host, self.peer_host):
                    await self._network.passable(self.host, self.peer_host)
                    continue
                return self._take(max_bytes or BUFFER_BYTES)
            if self.other._is_closed:
                return b""
            await self._changed.wait()

    async def _changed_or_closed(self) -> None:
        while not (self._is_closed or self._is_broken):
            await self._changed.wait()

    def _take(self, max_bytes: int) -> bytes:
        arrived_s, data = self._under_way.popleft()
        if len(data) > max_bytes:
            self._under_way.appendleft((arrived_s, data[max_bytes:]))
            data = data[:max_bytes]
        self._under_way_bytes -= len(data)
        self._notify()
        return data

    async def aclose(self) -> None:
        self._is_closed = True
        self._notify()
        self.other._notify()
        self._network.forget(self)
        await trio.lowlevel.checkpoint()
