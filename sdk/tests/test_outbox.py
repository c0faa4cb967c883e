"""Frames leave a connection whole and in order, whichever threads add them."""

import os
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator

import pytest
import trio

from lanemq.sdk.net._outbox import HIGH_BYTES, Outbox


@pytest.fixture
def pair() -> Iterator[tuple[trio.SocketStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield trio.SocketStream(trio.socket.from_stdlib_socket(ours)), theirs
    ours.close()
    theirs.close()


def read(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += peer.recv(count - len(data))
    return data


def in_a_thread(outbox: Outbox, data: bytes, *, directly: bool) -> bool:
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(outbox.add(data, directly=directly)))
    thread.start()
    thread.join()
    return results[0]


async def test_a_thread_writes_to_an_idle_connection_by_itself(
    pair: tuple[trio.SocketStream, socket.socket],
) -> None:
    outbox = Outbox()
    outbox.open(pair[0])
    assert not in_a_thread(outbox, b"one", directly=True)
    assert outbox.is_empty
    assert read(pair[1], 3) == b"one"


async def test_what_threads_leave_is_written_when_the_core_tends_it(
    pair: tuple[trio.SocketStream, socket.socket],
) -> None:
    outbox = Outbox()
    outbox.open(pair[0])
    assert in_a_thread(outbox, b"one", directly=False)
    assert in_a_thread(outbox, b"two", directly=True)  # not before what waits
    assert outbox.tend() is None
    assert outbox.is_empty
    assert read(pair[1], 6) == b"onetwo"


class InterruptedCount(deque[int]):
    """A count that interrupts its thread as soon as the kernel has taken what it wrote."""

    def extend(self, counts: Iterable[int]) -> None:
        super().extend(counts)
        raise KeyboardInterrupt


@pytest.mark.parametrize("taken", [0, 2, 3])
async def test_an_interruption_while_a_thread_writes_loses_and_repeats_nothing(
    pair: tuple[trio.SocketStream, socket.socket], monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    outbox = Outbox()
    outbox.open(pair[0])
    outbox._took = InterruptedCount()
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:taken]))
        with pytest.raises(KeyboardInterrupt):
            outbox.add(b"one", directly=True)
    assert in_a_thread(outbox, b"two", directly=True)
    assert outbox.post(b"three") is None
    assert outbox.tend() is None
    assert outbox.is_empty
    assert read(pair[1], 11) == b"onetwothree"


async def test_a_slow_peer_gets_everything_in_order(
    pair: tuple[trio.SocketStream, socket.socket],
) -> None:
    outbox = Outbox()
    outbox.open(pair[0])
    frames = [bytes([number]) * (1 << 20) for number in range(6)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write_all)
        for number, frame in enumerate(frames):
            if number % 2:
                outbox.add(frame, directly=True)
                assert outbox.tend() is None
            else:
                assert outbox.post(frame) is None
        assert outbox.is_full
        received = await trio.to_thread.run_sync(read, pair[1], 6 << 20)
        await outbox.flushed()
        nursery.cancel_scope.cancel()
    assert received == b"".join(frames)
    assert len(received) > HIGH_BYTES
    assert outbox.is_empty


async def test_a_connection_that_broke_is_written_to_no_more(
    pair: tuple[trio.SocketStream, socket.socket],
) -> None:
    outbox = Outbox()
    outbox.open(pair[0])
    pair[1].close()
    assert in_a_thread(outbox, b"one", directly=True)  # the core learns why
    error = outbox.tend()
    assert isinstance(error, OSError)
    outbox.close()
    assert in_a_thread(outbox, b"two", directly=True)
    assert outbox.tend() is None
    await outbox.flushed()  # does not wait for what nothing will take
