"""Under SYNC_FLUSH an answer waits for the disk; under a full disk it is a refusal."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.storage import FlushMode
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker, send_header
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.message import BatchEntry, decode_offset_id, encode_batch


class Disk:
    """Stands in for ``Store.flushed``: tells what is waited for, and lets it through at will."""

    def __init__(self) -> None:
        self.waited_for: list[int] = []
        self.is_asked = trio.Event()
        self.is_done = trio.Event()

    async def flushed(self, position: int) -> None:
        self.waited_for.append(position)
        self.is_asked.set()
        await self.is_done.wait()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
async def broker(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TestBroker]:
    async with open_test_broker(tmp_path, flush_disk_type=FlushMode.SYNC) as opened:
        with monkeypatch.context() as patch:
            patch.setattr(opened.context.store, "flushed", disk.flushed)
            yield opened


async def test_the_answer_waits_until_the_message_is_on_the_disk(
    broker: TestBroker, client: Client, disk: Disk
) -> None:
    frame = client.frame(RequestCode.SEND_MESSAGE_V2, send_header("T").to_letters(), b"x")
    await client.peer.send(frame)
    await disk.is_asked.wait()  # a thread writes the new topic before that
    assert disk.waited_for == [broker.context.store.max_position]
    disk.is_done.set()
    answer = await client.peer.receive()
    assert (answer.code, answer.opaque) == (0, frame.opaque)
    assert set(answer.fields) >= {"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}


@pytest.mark.parametrize(
    "text", ["WAIT\x01false", "a\x011\x02WAIT\x01false\x02b\x012", "CLUSTER\x01x\x02WAIT\x01false"]
)
async def test_who_does_not_want_to_wait_does_not(client: Client, disk: Disk, text: str) -> None:
    for _ in range(2):
        assert (await client.send(properties=text)).code == 0
    assert disk.waited_for == []


async def test_batches_and_delayed_messages_wait_alike(
    broker: TestBroker, client: Client, disk: Disk
) -> None:
    disk.is_done.set()
    header = send_header("T", None, batch=True)
    body = encode_batch([BatchEntry(0, b"x", b"")] * 3)
    await client.call(RequestCode.SEND_BATCH_MESSAGE, header.to_letters(), body)
    assert disk.waited_for == [broker.context.store.max_position]
    await client.send(properties={"DELAY": "5"})
    assert disk.waited_for[1:] == [broker.context.store.max_position]


async def test_a_send_back_waits_too_for_the_consumer_forgets_the_message(
    broker: TestBroker, client: Client, disk: Disk
) -> None:
    sent = await client.send(properties="WAIT\x01false")
    _, position = decode_offset_id(sent.fields["msgId"])
    disk.is_done.set()
    fields = {"offset": str(position), "group": "g", "delayLevel": "5"}
    assert (await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, fields)).code == 0
    assert disk.waited_for == [broker.context.store.max_position]


async def test_a_disk_that_takes_too_long_is_told_with_all_that_a_success_has(
    client: Client, autojump_clock: MockClock
) -> None:
    start_s = trio.current_time()
    answer = await client.send()
    assert trio.current_time() - start_s == pytest.approx(5)
    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert set(answer.fields) == {"msgId", "queueId", "queueOffset", "MSG_REGION", "TRACE_ON"}


async def test_a_due_message_is_on_the_disk_before_its_level_moves_on(
    broker: TestBroker, client: Client, disk: Disk, autojump_clock: MockClock
) -> None:
    await broker.connect().send()
    client_answer = client.frame(
        RequestCode.SEND_MESSAGE_V2,
        send_header("T", {"DELAY": "1", "WAIT": "false"}, queue_id=1).to_letters(),
        b"x",
    )
    broker.broker._delays._now_ms = lambda: 1 << 50  # it is due at once
    store, is_delivered = broker.context.store, trio.Event()
    # The real disk takes its own time, whatever the clock says.
    store.on_durable.append(lambda: is_delivered.set() if store.bounds("T", 1)[1] else None)
    await client.peer.send(client_answer)
    await client.peer.receive()
    await is_delivered.wait()
    offsets = store.tables.delay_offsets
    assert len(await broker.connect().messages("T", 1)) == 1
    assert offsets.get(1) == 0
    disk.is_done.set()
    await wait_all_tasks_blocked()
    assert offsets.get(1) == 1


async def test_a_store_that_takes_nothing_refuses_sends_and_goes_on_with_reads(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path, disk_space_warning_level_ratio=100) as broker:
        client = broker.connect()
        await client.send(body=b"kept")
        broker.context.store._appender.refuse("the disk is full")
        failures = broker.context.statistics.put_failures
        answer = await client.send(body=b"refused")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "the disk is full" in str(answer.remark)
        assert broker.context.statistics.put_failures == failures + 1
        assert [message.body for message in await client.messages()] == [b"kept"]
