"""Whatever peers do, a real broker stays below 512 MiB, and others are served."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from lanemq.testkit.proxy.brokers import Client, pull_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.proxy.processes import ServerProcess, server_process
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import encode_frame, request
from lanemq.wire.headers import ViewMessage
from lanemq.wire.message import decode_messages

pytestmark = pytest.mark.slow

LIMIT_BYTES = 512 << 20
FRAME_BYTES = 16 << 20
LARGE_BYTES = (4 << 20) - 1000
NO_MATCH, NO_PARSE = ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.SUBSCRIPTION_PARSE_FAILED
SUSPEND_AND_SUBSCRIPTION = 2 | 4


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    command = ("broker", "--host", "127.0.0.1", "--port", "0", "--name", "b", "--data", "store")
    async with server_process(command, directory=tmp_path) as process:
        yield process
        assert process.is_running
        assert process.peak_bytes < LIMIT_BYTES, f"{process.peak_bytes >> 20} MiB"
        assert "Traceback" not in process.log_text


async def client(broker: ServerProcess) -> Client:
    return Client(Peer(await broker.connect()))


async def send_large(broker: ServerProcess, count: int = 1) -> list[int]:
    """Store messages of 4 MiB; their places in the log."""
    sender, positions = await client(broker), []
    for number in range(count):
        answer = await sender.send("T", bytes([number]) * LARGE_BYTES)
        assert answer.code == 0
        positions.append(int(answer.fields["msgId"][-16:], 16))
    await sender.peer.stream.aclose()
    return positions


def parked(opaque: int, offset: int) -> bytes:
    header = pull_header(
        "T", 0, offset, sys_flag=SUSPEND_AND_SUBSCRIPTION, suspend_timeout_millis=600_000
    )
    return encode_frame(request(RequestCode.PULL_MESSAGE, header.to_fields(), opaque=opaque))


async def test_unfinished_frames(broker: ServerProcess) -> None:
    frame = encode_frame(request(RequestCode.SEND_MESSAGE_V2, body=bytes(FRAME_BYTES - 200)))
    honest = await client(broker)
    kept = 0

    async def half(*, task_status: trio.TaskStatus[None]) -> None:
        nonlocal kept
        stream = await broker.connect()
        with suppress(trio.BrokenResourceError):
            await stream.send_all(memoryview(frame)[:-1])
            kept += 1
        task_status.started()

    async with trio.open_nursery() as nursery, trio.open_nursery() as starting:
        for _ in range(100):
            starting.start_soon(nursery.start, half)
        for _ in range(20):
            assert (await honest.send("T", bytes(100_000))).code == 0
    assert (await honest.send("T")).code == 0
    assert 0 < kept < 100


async def test_pipelined_requests_with_large_answers(broker: ServerProcess) -> None:
    positions = await send_large(broker, 3)
    hostile = await client(broker)
    views = [
        request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(position).to_fields(), opaque=number)
        for number in range(200)
        for position in positions
    ]
    await hostile.peer.send(*views)
    honest = await client(broker)
    for _ in range(20):
        with trio.fail_after(60):
            assert (await honest.send("T")).code == 0
    for view in views[:100]:  # who reads gets them all, in order
        answer = await hostile.peer.receive()
        assert answer.opaque == view.opaque
        assert len(answer.body) > LARGE_BYTES


async def test_parked_pulls_for_one_large_message(broker: ServerProcess) -> None:
    await send_large(broker)
    hostile = await broker.connect()
    await hostile.send_all(b"".join(parked(number, 1) for number in range(600)))
    honest = [await broker.connect() for _ in range(300)]
    for stream in honest:
        await stream.send_all(parked(1, 1))
    await send_large(broker)

    async def receive(stream: trio.SocketStream) -> None:
        (message,) = decode_messages((await Peer(stream).receive()).body)
        assert message.queue_offset == 1
        assert len(message.body) == LARGE_BYTES

    async with trio.open_nursery() as nursery:
        for stream in honest:
            nursery.start_soon(receive, stream)
    assert broker.peak_bytes < LIMIT_BYTES


async def test_subscriptions_leave_nothing_behind(broker: ServerProcess) -> None:
    assert (await (await client(broker)).send("T")).code == 0
    before = 0
    for round_ in range(6):
        for number in range(10):
            tags = "||".join(f"{round_}.{number}.{tag}" for tag in range(90_000))
            peer = await client(broker)
            assert (await peer.pull("T", 0, 0, subscription=tags[:900_000])).code == NO_PARSE
            assert (await peer.pull("T", 0, 0, subscription=tags[:16_000])).code == NO_MATCH
            await peer.peer.stream.aclose()
        if round_ == 1:
            before = broker.resident_bytes
    assert broker.resident_bytes < before + (64 << 20)


async def test_heartbeats_of_very_many_groups(broker: ServerProcess) -> None:
    peers = [await client(broker) for _ in range(3)]
    for number, peer in enumerate(peers):
        groups = tuple(f"{number}-{group}" for group in range(100_000))
        with trio.fail_after(60):
            assert (await peer.heartbeat("id", producers=groups)).code != 0
            assert (await peer.heartbeat("id", producers=groups[:200])).code == 0
