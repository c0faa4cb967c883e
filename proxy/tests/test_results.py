"""Typed results: what a broker's handlers tell those who ask inside its process."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.proxy.broker.handlers.pulls._parked import Parked
from lanemq.proxy.net._reply_template import ReplyTemplate
from lanemq.proxy.sessions.values._framed import (
    EarliestTime,
    Framed,
    GroupOffset,
    Locked,
    Queried,
    QueueOffset,
    TopicStats,
    Unlocked,
)
from lanemq.proxy.sessions.values._pull_request import PullRequest, read_pull_request
from lanemq.proxy.sessions.values._results import (
    Found,
    NotFound,
    Pulled,
    Stored,
    Viewed,
    reply_of,
    unique_key_in,
)
from lanemq.storage import FlushMode
from lanemq.testkit.logical.cluster import TOPIC, open_logical_cluster
from lanemq.testkit.proxy.brokers import (
    TestBroker,
    open_test_broker,
    pull_header,
    send_header,
    session_of,
)
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    LockBatch,
    LockBatchResult,
    MessageQueue,
    TopicOffset,
    TopicStatsTable,
)
from lanemq.wire.frame import Frame, SerializeType, encode_frame, request
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    GetTopicStatsInfo,
    QueryConsumerOffset,
    QueryMessage,
    SearchOffset,
    UpdateConsumerOffset,
    ViewMessage,
)
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER
from lanemq.wire.logical.translate import Numbers
from lanemq.wire.message import decode_messages, get_property


class _Header(Protocol):
    def to_fields(self) -> dict[str, str]: ...


def send(topic: str = "T", body: bytes = b"x") -> Frame:
    fields = send_header(topic).to_letters()
    return request(RequestCode.SEND_MESSAGE_V2, fields, body, opaque=7)


def pull(offset: int = 0, **changes: object) -> PullRequest:
    frame = request(RequestCode.PULL_MESSAGE, pull_header("T", 0, offset, **changes).to_fields())
    return read_pull_request(frame)


async def test_a_send_tells_what_was_stored_and_nothing_is_encoded(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await session_of(broker)
    monkeypatch.setattr(broker.broker.handlers, "encoders", {})
    stored = broker.broker.sends.any[RequestCode.SEND_MESSAGE_V2](send(), session)
    broker.context.commit()
    assert isinstance(stored, Stored)
    assert (stored.queue_id, stored.queue_offset, stored.waits) == (0, 1, False)
    (position,) = stored.log_positions
    record = broker.context.store.record_at(position)
    assert record is not None
    assert stored.end == position + len(record)
    assert decode_messages(record)[0].body == b"x"


async def test_a_typed_send_takes_its_needs_by_keyword(broker: TestBroker) -> None:
    session = await session_of(broker)
    stored = broker.broker.sends.ordinary(
        topic="T",
        queue_id=99,
        is_exact=True,
        body=b"x",
        properties="",
        flag=0,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=session.peer.packed,
        reconsume_times=0,
    )
    assert stored is None  # there is no such queue, and no other was to take it


async def test_under_sync_flush_the_result_comes_when_the_log_is_on_the_disk(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path, flush_disk_type=FlushMode.SYNC) as broker:
        session = await session_of(broker)
        under_way = broker.broker.sends.any[RequestCode.SEND_MESSAGE_V2](send(), session)
        broker.context.commit()
        assert isinstance(under_way, Awaitable)
        stored = await under_way
        assert isinstance(stored, Stored)
        assert (stored.queue_offset, stored.is_late) == (1, False)


async def test_a_pull_tells_records_numbers_and_where_it_would_wait(broker: TestBroker) -> None:
    session = await session_of(broker)
    pulls = broker.broker.pulls
    found = pulls.read(pull(), session)
    assert isinstance(found, Found)
    assert decode_messages(found.body)[0].body == b"first"
    assert found.numbers == Numbers(1, 0, 1)
    nothing = pulls.read(pull(1), session)
    assert isinstance(nothing, NotFound)
    assert (nothing.code, nothing.numbers) == (ResponseCode.PULL_NOT_FOUND, Numbers(1, 0, 1))
    parked = pulls.read(pull(1, sys_flag=6), session)
    assert isinstance(parked, Parked)
    assert (parked.topic, parked.queue_id, parked.offset) == ("T", 0, 1)


async def test_a_parked_pull_delivers_its_result_and_ends_with_its_session(
    broker: TestBroker,
) -> None:
    session = await session_of(broker)
    pulls, kept_bytes = broker.broker.pulls, session.account.kept_bytes
    late: list[Pulled | Exception] = []
    asked = pull(1, sys_flag=6)
    parked = pulls.read(asked, session)
    assert isinstance(parked, Parked)
    pulls.park(parked, asked, session, late.append, kept_bytes=100)
    assert session.account.kept_bytes > kept_bytes + 100
    await broker.connect().send("T", b"second")
    (found,) = late
    assert isinstance(found, Found)
    assert decode_messages(found.body)[0].body == b"second"
    assert session.account.kept_bytes == kept_bytes

    asked = pull(2, sys_flag=6)
    parked = pulls.read(asked, session)
    assert isinstance(parked, Parked)
    pulls.park(parked, asked, session, late.append)
    session.close()
    await trio.testing.wait_all_tasks_blocked()
    assert not broker.context.holds.waits_on("T", 0)
    assert late == [found]


async def test_a_view_tells_the_record(broker: TestBroker) -> None:
    session = await session_of(broker)
    frame = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(0).to_fields())
    viewed = broker.broker.handlers.table[RequestCode.VIEW_MESSAGE_BY_ID](frame, session)
    assert isinstance(viewed, Viewed)
    assert viewed.body == viewed.kept
    assert reply_of(frame, viewed) == frame.reply(body=viewed.body)


async def test_between_a_listener_and_its_own_broker_nothing_is_encoded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_logical_cluster("broker1") as cluster:
        await cluster.map_all(queues=1)
        broker = cluster.brokers["broker1"].running
        listener = cluster.brokers["broker1"].logical_listener
        session = next(iter(broker.server.connections)).session
        handlers = listener.servers[0].handlers.table
        monkeypatch.setattr(broker.handlers, "encoders", {})

        async def answer(frame: Frame) -> object:
            answer = handlers[frame.code](frame, session)
            broker.context.commit()
            return await answer if isinstance(answer, Awaitable) else answer

        async def pulled(offset: int, **changes: object) -> tuple[list[bytes], Numbers]:
            header = pull_header(TOPIC, 0, offset, **changes)
            found = await answer(request(RequestCode.PULL_MESSAGE, header.to_fields()))
            assert isinstance(found, Found)
            return [message.body for message in decode_messages(found.body)], found.numbers

        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                assert await pulled(0, sys_flag=6) == ([b"first"], Numbers(1, 0, 1))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            sent = await answer(send(TOPIC, b"first"))
            assert isinstance(sent, Stored)
            assert (sent.queue_id, sent.queue_offset) == (0, 0)
        await answer(send(TOPIC, b"second"))
        assert await pulled(1) == ([b"second"], Numbers(2, 0, 2))


async def test_a_listener_asks_its_own_broker_without_requests(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_logical_cluster("broker1") as cluster:
        await cluster.map_all(queues=1)
        broker = cluster.brokers["broker1"].running
        listener = cluster.brokers["broker1"].logical_listener
        session = next(iter(broker.server.connections)).session
        handlers = listener.servers[0].handlers.table

        async def answer(code: int, header: _Header | None = None, body: bytes = b"") -> object:
            frame = request(code, header.to_fields() if header else None, body)
            answer = handlers[code](frame, session)
            broker.context.commit()
            return await answer if isinstance(answer, Awaitable) else answer

        sent = handlers[RequestCode.SEND_MESSAGE_V2](send(TOPIC, b"first"), session)
        assert isinstance(sent, Awaitable)  # the topic has to be looked for
        sent = await sent
        broker.context.commit()
        assert isinstance(sent, Stored)
        (position,) = sent.log_positions
        monkeypatch.setattr(broker.handlers, "table", {})
        assert await answer(30, GetMaxOffset(TOPIC, 0)) == QueueOffset(1)
        assert await answer(31, GetMinOffset(TOPIC, 0)) == QueueOffset(0)
        assert await answer(29, SearchOffset(TOPIC, 0, 0)) == QueueOffset(0)
        earliest = await answer(32, GetEarliestMsgStoretime(TOPIC, 0))
        assert isinstance(earliest, EarliestTime)
        assert await answer(15, UpdateConsumerOffset("g", TOPIC, 0, 1)) == request(15).reply()
        assert await answer(14, QueryConsumerOffset("g", TOPIC, 0)) == GroupOffset(1)
        queue = MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, 0)
        lock = LockBatch("g", "client", (queue,)).encode()
        assert await answer(41, body=lock) == Locked((queue,))
        assert await answer(42, body=lock) == Unlocked()
        viewed = await answer(33, ViewMessage(position))
        assert isinstance(viewed, Viewed)
        assert decode_messages(viewed.body)[0].body == b"first"
        stats = await answer(202, GetTopicStatsInfo(TOPIC))
        assert isinstance(stats, TopicStats)
        (bounds,) = stats.stats.offset_table.values()
        assert bounds == TopicOffset(0, 1, earliest.time_ms)
        none = await answer(12, QueryMessage(TOPIC, "no such key", 32, 0, 1 << 62))
        assert isinstance(none, Queried)
        assert none.not_found


QUEUE = MessageQueue("T", "broker-a", 3)
STATS = TopicStatsTable({QUEUE: TopicOffset(1, 2, 3)}, 0.5)


@pytest.mark.parametrize(
    ("result", "fields", "body"),
    [
        (GroupOffset(5), {"offset": "5"}, b""),
        (GroupOffset(5, is_kept=True), {"offset": "5", "lanemqKept": "true"}, b""),
        (QueueOffset(7), {"offset": "7"}, b""),
        (QueueOffset(7, is_continued=True), {"offset": "7", "REDIRECT": "1"}, b""),
        (EarliestTime(-1), {"timestamp": "-1"}, b""),
        (Unlocked(), {}, b""),
        (Unlocked(has_moved=True), {"lanemqMoved": "true"}, b""),
        (
            Locked((QUEUE,), has_moved=True),
            {"lanemqMoved": "true"},
            LockBatchResult((QUEUE,)).encode(),
        ),
        (
            Queried(b"records", 1, 2),
            {"indexLastUpdateTimestamp": "1", "indexLastUpdatePhyoffset": "2"},
            b"records",
        ),
        (TopicStats(STATS), {}, STATS.encode()),
    ],
)
def test_another_brokers_answer_is_read_as_the_result_that_it_was_made_of(
    result: Framed, fields: dict[str, str], body: bytes
) -> None:
    answer = result.reply(request(1, opaque=7))
    assert (answer.code, answer.opaque, answer.body) == (0, 7, body)
    assert list(answer.fields.items()) == list(fields.items())
    assert type(result).read(answer) == result  # type: ignore[union-attr] # of each class


def test_a_search_that_finds_nothing_is_an_answer_of_its_own_code() -> None:
    nothing = Queried(b"", 1, 2, "no such message")
    answer = nothing.reply(request(12))
    assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, "no such message")
    assert Queried.read(answer) == nothing


@pytest.mark.parametrize("read", [QueueOffset.read, EarliestTime.read])
def test_an_answer_without_its_number_is_refused(read: Callable[[Frame], Framed]) -> None:
    with pytest.raises(Refused, match="without it"):
        read(request(30).reply(fields={"offset": "", "timestamp": "x"}))
    with pytest.raises(Refused, match="without it"):
        read(request(30).reply(fields={"REDIRECT": "1"}))


def test_an_end_that_is_elsewhere_needs_no_number() -> None:
    there = request(30).reply(fields={"REDIRECT": "1"})
    assert QueueOffset.read_end(there) == QueueOffset(-1, is_continued=True)
    assert QueueOffset.read_end(request(30).reply(fields={"offset": "4"})) == QueueOffset(4)


def test_an_offset_that_cannot_be_read_is_not_known() -> None:
    assert GroupOffset.read(request(14).reply(fields={"offset": "x"})) == GroupOffset(-1)


@pytest.mark.parametrize("serialize", SerializeType)
@pytest.mark.parametrize("body", [b"", b"body"])
def test_an_answer_without_fields_says_so_as_a_frame_does(
    serialize: SerializeType, body: bytes
) -> None:
    """Some clients use the ext fields without asking whether there are any."""
    asked = Frame(RequestCode.END_TRANSACTION, opaque=7, version=401, serialize=serialize)
    made, framed = ReplyTemplate().encode(asked, (), body), encode_frame(asked.reply(body=body))
    assert sorted(made) == sorted(framed), "but for the order of the header's members"
    assert (b'"extFields":{}' in made) is (serialize is SerializeType.JSON)


@given(
    st.lists(
        st.sampled_from(["UNIQ_KEY\x01", "UNIQ_KEY", "K1", "\x01", "\x02", "WAIT\x01true", "\xe9"])
    ).map("".join)
)
def test_the_unique_key_in_a_text_is_that_of_the_properties(text: str) -> None:
    key = get_property(text.encode(), b"UNIQ_KEY")
    assert unique_key_in(text) == (key.decode() if key else None)
