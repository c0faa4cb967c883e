"""Message traces: records that tools can read, about what was sent and consumed."""

from collections.abc import Iterable, Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Message,
    Outcome,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    TransactionState,
    open_transaction_producer,
)
from lanemq.sdk.observe._trace_records import DATA_MAX, KEYS_MAX, TraceRecord, pack
from lanemq.testkit.sdk.clients import producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import START_MS, FakeCluster, Peer, clock_ms
from lanemq.testkit.sdk.producers import FakeProducers, FakeTransactions
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame

TRACE = "RMQ_SYS_TRACE_TOPIC"
TRACED = ClientOptions(trace=True)


def read(cluster: FakeCluster, topic: str = TRACE) -> list[list[str]]:
    """Every record in the topic, as its fields, the way Java splits them."""
    records = []
    for message in sorted(cluster.broker.messages(topic), key=lambda one: one.log_position):
        for record in message.decompressed_body().decode().removesuffix("\x02").split("\x02"):
            fields = record.split("\x01")
            assert all(fields), "a reader would not count an empty field at the end"
            records.append(fields)
    return records


async def test_what_is_sent_leaves_a_record(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    async with producer_of(cluster, ProducerOptions(client=TRACED)) as producer:
        sent = await producer.send(Message(topic="T", body=b"hello", tags="A", keys=("k1", "k2")))
        plain = await producer.send(Message(topic="T", body=b"", delay_level=1))
        assert read(cluster) == []
        await trio.sleep(1)
        assert read(cluster) == [
            [
                *("Pub", str(START_MS), "DefaultRegion", "pg", "T", sent.message_id, "A", "k1 k2"),
                *(cluster.broker.address, "5", "0", "0", sent.offset_id, "true"),
            ],
            [
                *("Pub", str(START_MS), "DefaultRegion", "pg", "T", plain.message_id),
                *("null", "null", cluster.broker.address, "0", "0", "3", plain.offset_id, "true"),
            ],
        ]
        (trace,) = cluster.broker.messages(TRACE)
        assert trace.keys == (sent.message_id, "k1", "k2", plain.message_id)
        last = await producer.send(Message(topic="T", body=b"just before the end"))
    assert read(cluster)[-1][5] == last.message_id


@pytest.mark.parametrize("cancelled", [False, True])
async def test_records_that_are_being_sent_at_the_end_are_not_lost(
    cluster: FakeCluster, autojump_clock: MockClock, cancelled: bool
) -> None:
    cluster.create_topic("T", 1)
    (name_server,) = cluster.name_server_nodes
    route = name_server.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC]

    async def slow(frame: Frame, peer: Peer) -> Frame | None:
        if frame.fields["topic"] == TRACE:
            await trio.sleep(1)
        return route(frame, peer)

    name_server.waiters[RequestCode.GET_ROUTEINFO_BY_TOPIC] = slow
    with trio.CancelScope() as scope:
        async with producer_of(cluster, ProducerOptions(client=TRACED)) as producer:
            sent = await producer.send(Message(topic="T", body=b"x"))
            await trio.sleep(1)  # of which the record waited for half
            later = await producer.send(Message(topic="T", body=b"y"))
            if cancelled:
                scope.cancel()
    assert {record[5] for record in read(cluster)} == {sent.message_id, later.message_id}
    assert len(read(cluster)) == 2


async def test_the_end_does_not_wait_for_traces_for_long(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with producer_of(cluster, ProducerOptions(client=TRACED)) as producer:
        await producer.send(Message(topic="T", body=b"x"))
        cluster.broker.mute(RequestCode.SEND_MESSAGE_V2, 2)
        await trio.sleep(1)
        left_s = trio.current_time()
    assert trio.current_time() - left_s <= 3
    assert "trace messages were lost" in caplog.text


async def test_each_message_of_a_batch_has_its_record(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster, ProducerOptions(client=TRACED)) as producer:
        result = await producer.send_batch([Message(topic="T", body=b"x")] * 3)
    records = read(cluster)
    assert [record[5] for record in records] == result.message_id.split(",")
    assert [record[12] for record in records] == result.offset_id.split(",")


async def test_a_broker_that_wants_no_traces_gets_none(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    code = RequestCode.SEND_MESSAGE_V2
    send = cluster.broker.handlers[code]

    def untraced(frame: Frame, peer: Peer) -> Frame:
        answer = send(frame, peer)
        assert answer is not None
        return frame.reply(fields={**answer.fields, "TRACE_ON": "false"})

    cluster.broker.handlers[code] = untraced
    async with producer_of(cluster, ProducerOptions(client=TRACED)) as producer:
        assert not (await producer.send(Message(topic="T", body=b"x"))).trace_on
    assert read(cluster) == []


async def test_what_is_consumed_leaves_two_records_each_time(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(3):
        cluster.broker.put("T", 0, b"", UNIQ_KEY=f"ID{number}", KEYS=f"k{number}")
    cluster.broker.put("T", 0, b"", UNIQ_KEY="ID3", TRACE_ON="false")

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        await trio.sleep(0.02)
        if messages[0].message_id == "ID1" and not messages[0].reconsume_times:
            return Outcome.RETRY
        if messages[0].message_id == "ID2" and not messages[0].reconsume_times:
            raise ValueError("no")
        return None

    async with push_consumer_of(
        cluster,
        ConcurrentListener(handle),
        PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=TRACED),
    ):
        await trio.sleep(100)
    before = {fields[4]: fields for fields in read(cluster) if fields[0] == "SubBefore"}
    after = {fields[1]: fields for fields in read(cluster) if fields[0] == "SubAfter"}
    assert before.keys() == after.keys()
    assert len(before) == 5
    for request_id, fields in before.items():
        message_id, times = fields[5], fields[6]
        digit = message_id.removeprefix("ID")
        assert fields[2:4] == ["null", "cg"]
        assert fields[7] == f"k{digit}"
        failed = times == "0" and digit in "12"
        code = {"1": "4", "2": "2"}[digit] if failed else "0"
        _, _, *ended = after[request_id]
        assert ended[:5] == [message_id, "20", "false" if failed else "true", f"k{digit}", code]
        assert int(ended[5]) == int(fields[1]) + 20
        assert ended[6] == "cg"


async def test_a_listener_that_took_too_long_is_traced_so(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"", UNIQ_KEY="ID")

    async def hang(messages: Sequence[ReceivedMessage]) -> None:
        await trio.sleep_forever()

    async with push_consumer_of(
        cluster,
        ConcurrentListener(hang),
        PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=TRACED, consume_timeout_s=5),
    ):
        await trio.sleep(8)
    (ended,) = (fields for fields in read(cluster) if fields[0] == "SubAfter")
    assert ended[2:7] == ["ID", "5000", "false", "null", "1"]


async def test_ends_of_transactions_leave_records(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    transactions = FakeTransactions(FakeProducers(cluster.broker))

    async def unknown(message: Message, transaction_id: str) -> TransactionState:
        return TransactionState.UNKNOWN

    async def check(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    async with open_transaction_producer(
        "pg",
        check=check,
        name_servers=cluster.name_servers,
        options=ProducerOptions(client=TRACED),
        dial=cluster.dial,
        clock_ms=clock_ms,
    ) as producer:
        result = await producer.send_in_transaction(
            Message(topic="T", body=b"x", tags="A", keys=("k",)), unknown
        )
        transactions.check(0)
        await trio.sleep(1)
    first, second = (fields for fields in read(cluster) if fields[0] == "EndTransaction")
    message_id = result.transaction_id
    for fields in (first, second):
        assert fields[2:8] == ["DefaultRegion", "pg", "T", message_id, "A", "k"]
        assert fields[8:11] == [cluster.broker.address, "2", message_id]
    assert (first[11:], second[11:]) == (["UNKNOW", "false"], ["COMMIT_MESSAGE", "true"])


async def test_too_many_records_are_dropped_and_counted(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with producer_of(
        cluster, ProducerOptions(client=ClientOptions(trace=True, trace_topic="MyTraces"))
    ) as producer:
        await producer.send_batch([Message(topic="T", body=b"x")] * 2100)
    assert len(read(cluster, "MyTraces")) == 2048
    assert "52 trace records" in caplog.text


@given(
    records=st.lists(
        st.builds(
            TraceRecord,
            st.integers(1, 40_000).map(lambda size: "x" * size),
            st.lists(st.integers(0, 50).map(lambda n: f"key{n}" * 200)).map(tuple),
        )
    )
)
def test_packing_loses_nothing_and_keeps_to_its_limits(records: list[TraceRecord]) -> None:
    packed = list(pack(records))
    assert "".join(text for text, _ in packed) == "".join(record.text for record in records)
    assert _set(keys for _, keys in packed) == _set(record.keys for record in records)
    for text, keys in packed:
        assert len(set(keys)) == len(keys)
        if all(text != record.text for record in records):
            assert len(text) <= DATA_MAX
            assert sum(len(key) + 1 for key in keys) <= KEYS_MAX


def _set(groups: Iterable[tuple[str, ...]]) -> set[str]:
    return {key for keys in groups for key in keys}
