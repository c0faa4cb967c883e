"""Producers of the SDK against Apache brokers: what they have beyond sending.

One cluster of each release serves all of it at once, each feature on topics of its own.
"""

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import trio

from lanemq.compat import Cell, Cluster, apache_cluster, open_client, running, walk_log
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._mqadmin import open_mqadmin
from lanemq.compat.servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER, patient
from lanemq.sdk import (
    ClientOptions,
    Compression,
    ConcurrentListener,
    ConsumeFrom,
    Message,
    MessageRejected,
    NoReply,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    TransactionState,
    open_producer,
    open_push_consumer,
    open_transaction_producer,
    reply_to,
)
from lanemq.testkit.servers import now_ms

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

ROOT = Path(__file__).parents[2]
SDK_PAGE = (ROOT / "docs" / "sdk.md").read_text()
BLOCKS = re.findall(r"```python apache\n(.*?)```", SDK_PAGE, re.DOTALL)
WAIT_S = 150.0
SETTINGS = {
    **TEST_STORE,
    "timerWheelEnable": "true",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    # 5.x remembers what was ended this late; asking sooner, it would deliver twice.
    "transactionOpBatchInterval": "100",
}
UNTRACED = PATIENT_CLIENT
TRACED = replace(PATIENT_CLIENT, trace=True)


class Inbox:
    """The messages that a consumer received, in order, with the time of day."""

    def __init__(self) -> None:
        self.messages: list[tuple[ReceivedMessage, int]] = []
        self._different: set[bytes] = set()
        self._more = trio.Event()

    async def handle(self, messages: Sequence[ReceivedMessage]) -> None:
        self.messages += [(message, now_ms()) for message in messages]
        self._different.update(message.body for message in messages)
        self._more.set()
        self._more = trio.Event()

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message, _ in self.messages)

    async def wait_for(self, count: int) -> None:
        """Wait until so many different messages have come: some may come twice."""
        with trio.fail_after(WAIT_S):
            while len(self._different) < count:
                await self._more.wait()


@asynccontextmanager
async def consuming(
    cluster: Cluster,
    topic: str,
    handle: Callable[[Sequence[ReceivedMessage]], Awaitable[None]],
    client: ClientOptions = UNTRACED,
) -> AsyncIterator[None]:
    async with open_push_consumer(
        f"{topic}-readers",
        name_servers=cluster.name_server,
        subscriptions={topic: "*"},
        listener=ConcurrentListener(handle),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=client),
    ):
        yield


async def transactions(cluster: Cluster, version: str) -> None:
    """Committed at once, or when the broker asks; rolled back; nothing in between is seen."""
    topic = "sdk-transactions"
    await cluster.control.create_topic(topic)
    inbox = Inbox()
    states: dict[str, TransactionState] = {}
    asked: dict[bytes, int] = {}

    async def check(message: ReceivedMessage) -> TransactionState:
        asked[message.body] = asked.get(message.body, 0) + 1
        if message.body == b"asked twice" and asked[message.body] == 1:
            return TransactionState.UNKNOWN
        return states[message.message_id]

    async with (
        open_transaction_producer(
            "sdk-transactions",
            check=check,
            name_servers=cluster.name_server,
            options=PATIENT_PRODUCER,
        ) as producer,
        consuming(cluster, topic, inbox.handle),
    ):

        async def send(body: bytes, now: TransactionState, later: TransactionState) -> None:
            async def execute(message: Message, transaction_id: str) -> TransactionState:
                states[transaction_id] = later
                return now

            await producer.send_in_transaction(
                Message(topic=topic, body=body, tags="Paid", keys=(body.decode()[:5],)), execute
            )

        committed, rolled_back, unknown = TransactionState
        await send(b"committed", committed, committed)
        await send(b"rolled back", rolled_back, rolled_back)
        await send(b"asked once", unknown, committed)
        await send(b"asked twice", unknown, committed)
        await send(b"asked in vain", unknown, rolled_back)
        await inbox.wait_for(3)
        with trio.fail_after(WAIT_S):
            while b"asked in vain" not in asked:  # noqa: ASYNC110 - a broker decides when
                await trio.sleep(0.05)
        await trio.sleep(2)  # what should not come would come now
    assert set(inbox.bodies) == {b"asked once", b"asked twice", b"committed"}
    # A busy Apache broker asks about what has just ended, and delivers it once more then.
    for body in set(inbox.bodies):
        assert inbox.bodies.count(body) <= 1 + asked.get(body, 0), (body, asked)
    assert asked[b"asked twice"] >= 2
    assert {message.tags for message, _ in inbox.messages} == {"Paid"}


async def left_transactions(cluster: Cluster, version: str) -> None:
    """A producer that was opened again and sends nothing is asked by the broker."""
    topic, group = "sdk-left-transactions", "sdk-left"
    await cluster.control.create_topic(topic)
    inbox = Inbox()

    async def left(message: Message, transaction_id: str) -> TransactionState:
        return TransactionState.UNKNOWN

    async def unknown(message: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN

    async def committed(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    async with consuming(cluster, topic, inbox.handle):
        async with open_transaction_producer(
            group, check=unknown, name_servers=cluster.name_server, options=PATIENT_PRODUCER
        ) as producer:
            await producer.send_in_transaction(Message(topic=topic, body=b"left"), left)
        # No heartbeat of a timer comes while the test runs.
        silent = ProducerOptions(client=replace(PATIENT_CLIENT, heartbeat_interval_s=600))
        async with open_transaction_producer(
            group, check=committed, name_servers=cluster.name_server, options=silent
        ):
            await inbox.wait_for(1)
    assert set(inbox.bodies) == {b"left"}


async def timers(cluster: Cluster, version: str) -> None:
    """5.x holds a message back to the moment; 4.x would not, so it is sent there only if asked."""
    topic = "sdk-timers"
    await cluster.control.create_topic(topic)
    knows_timers = version != "4.9.7"
    inbox = Inbox()
    async with (
        open_producer(
            "sdk-timers", name_servers=cluster.name_server, options=PATIENT_PRODUCER
        ) as careful,
        open_producer(
            "sdk-timers",
            name_servers=cluster.name_server,
            options=PATIENT_PRODUCER,
            timers_at_any_broker=True,
        ) as asking,
        consuming(cluster, topic, inbox.handle),
    ):
        producer = careful if knows_timers else asking
        start_ms = now_ms()
        by_delay = Message(topic=topic, body=b"by delay", delay_s=4)
        by_time = Message(topic=topic, body=b"by time", deliver_at_ms=start_ms + 4000)
        if not knows_timers:
            for message in (by_delay, by_time):
                with pytest.raises(MessageRejected, match=r"V4_9_\d.*timers_at_any_broker=True"):
                    await careful.send(message)
        sent = [await producer.send(by_delay), await producer.send(by_time)]
        await inbox.wait_for(2)
    assert inbox.bodies == [b"by delay", b"by time"]
    if knows_timers:
        assert all(at_ms - start_ms >= 4000 for _, at_ms in inbox.messages)
    else:  # who does not know them stores the message where it belongs, at once
        ids = {received.offset_id for received, _ in inbox.messages}
        assert ids == {result.offset_id for result in sent}


async def request_reply(cluster: Cluster, version: str) -> None:
    """A consumer's reply comes back to the producer that asked."""
    topic = "sdk-requests"
    await cluster.control.create_topic(topic)
    async with open_producer(
        "sdk-repliers", name_servers=cluster.name_server, options=PATIENT_PRODUCER
    ) as replying:

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            for message in messages:
                await replying.send(reply_to(message, message.body.upper()))

        async with (
            consuming(cluster, topic, handle),
            open_producer(
                "sdk-askers", name_servers=cluster.name_server, options=PATIENT_PRODUCER
            ) as asking,
        ):
            for body in (b"first", b"second", b"long " * 4000):
                reply = await asking.request(Message(topic=topic, body=body), timeout_s=60)
                assert reply.body == body.upper()
    async with open_producer(
        "sdk-askers", name_servers=cluster.name_server, options=PATIENT_PRODUCER
    ) as asking:
        with pytest.raises(NoReply):
            await asking.request(Message(topic=topic, body=b"nobody is there"), timeout_s=10)


async def batches(cluster: Cluster, version: str) -> None:
    """5 MB in batches that fit, every message once and in order."""
    topic = "sdk-batches"
    await cluster.control.create_topic(topic)
    inbox = Inbox()
    bodies = [f"{number:04}".encode() * 250 for number in range(5000)]
    async with open_producer(
        "sdk-batches", name_servers=cluster.name_server, options=PATIENT_PRODUCER
    ) as producer:
        results = await producer.send_batches(
            [Message(topic=topic, body=body) for body in bodies], queue_key="all"
        )
        assert len(results) == 6
        assert len({result.queue for result in results}) == 1
        async with consuming(cluster, topic, inbox.handle):
            await inbox.wait_for(len(bodies))
    by_offset = sorted(inbox.messages, key=lambda pair: pair[0].queue_offset)
    assert [message.body for message, _ in by_offset] == bodies


async def traces(cluster: Cluster, version: str, folder: Path) -> None:
    """mqadmin finds who sent a message, and who consumed it."""
    topic = "sdk-traces"
    await cluster.control.create_topic(topic)
    inbox = Inbox()
    async with (
        open_producer(
            "sdk-tracers",
            name_servers=cluster.name_server,
            options=replace(PATIENT_PRODUCER, client=TRACED),
        ) as producer,
        consuming(cluster, topic, inbox.handle, TRACED),
    ):
        result = await producer.send(Message(topic=topic, body=b"traced", keys=("order-1",)))
        await producer.send(Message(topic=topic, body=b"without keys"))
        await inbox.wait_for(2)
    query = ("queryMsgTraceById", "-n", cluster.name_server, "-i", result.message_id)
    async with open_mqadmin(version, folder) as mqadmin:
        with trio.fail_after(WAIT_S):  # once it is built
            while True:  # the index of the broker is a moment behind
                printed = await mqadmin.run(*query)
                if "#ConsumerGroup" in printed.out and "#ProducerGroup" in printed.out:
                    break
    rows = [line.split() for line in printed.out.splitlines() if line.startswith(("Pub", "Sub"))]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("Pub", "sdk-tracers", "success"),
        ("Sub", "sdk-traces-readers", "success"),
    ]


def flags_by_tag(store: Path, topic: str, count: int) -> set[tuple[str, int]]:
    """The tags of messages and their ``sysFlag``, as the broker stored them.

    Nothing is read behind the last of ``count`` messages: there the broker goes on writing.
    """
    records = (record for record in walk_log(store) if record.topic == topic)
    return {(record.properties["TAGS"], record.sys_flag) for record in islice(records, count)}


async def compression(cluster: Cluster, version: str, folder: Path) -> None:
    """Java's consumer reads lz4 and zstd, which go to 5.x only; 4.9.7 is sent zlib."""
    kinds = {Compression.ZLIB: 0x301, Compression.LZ4: 0x101, Compression.ZSTD: 0x201}
    inbox = Inbox()
    async with open_client(f"java-{version}", folder / "client") as driver:
        cell = Cell("compression", driver, cluster)
        topic = await cell.topic()
        bodies = []
        async with cell.consumer(topic) as java, consuming(cluster, topic, inbox.handle):
            for kind in kinds:
                async with open_producer(
                    "sdk-compression",
                    name_servers=cluster.name_server,
                    options=PATIENT_PRODUCER,
                    compression=kind,
                ) as producer:
                    for times in (400, 20_000):  # one block of lz4, and many
                        bodies.append(f"{kind.value} is compressible ".encode() * times)
                        await producer.send(Message(topic=topic, body=bodies[-1], tags=kind.value))
            await java.receive(len(bodies))
            await inbox.wait_for(len(bodies))
    assert sorted(java.bodies) == inbox.bodies == sorted(bodies)
    assert flags_by_tag(cluster.store, topic, len(bodies)) == {
        (kind.value, number if version != "4.9.7" else kinds[Compression.ZLIB])
        for kind, number in kinds.items()
    }


async def documents(cluster: Cluster, folder: Path) -> None:
    """Examples and documented code that run at Apache brokers, too."""
    assert len(BLOCKS) == 2
    for topic in ("Paid", "Questions", "TransactionTopic", "RequestTopic"):
        # The send that makes one may wait there for a name server for as long as it may take.
        await cluster.control.create_topic(topic)
    for number, block in enumerate(BLOCKS):
        path = folder / f"block_{number}.py"
        path.write_text(block.replace("127.0.0.1:9876", patient(cluster.name_server)))
    for path, says in (
        (folder / "block_0.py", "TransactionState.COMMIT"),
        (folder / "block_1.py", "b'A QUESTION'"),
        (ROOT / "examples" / "transaction.py", "received '100 euros'"),
        (ROOT / "examples" / "request_reply.py", "the sum of 20 22 is 42"),
    ):
        result = await trio.run_process(
            [sys.executable, str(path), patient(cluster.name_server)],
            capture_stdout=True,
            env={"HOME": str(folder), "PATH": ""},
        )
        assert says in result.stdout.decode(), path


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_transactions_timers_replies_batches_traces_and_examples(
    version: str, tmp_path: Path
) -> None:
    described = await trio.to_thread.run_sync(
        lambda: apache_cluster(version, tmp_path / "cluster", settings=SETTINGS)
    )
    async with running(described, graceful=False) as cluster:
        async with trio.open_nursery() as nursery:
            for feature in (transactions, left_transactions, timers, request_reply, batches):
                nursery.start_soon(feature, cluster, version)
            nursery.start_soon(traces, cluster, version, tmp_path / "mqadmin")
            nursery.start_soon(compression, cluster, version, tmp_path)
        # By themselves: they have the limits of a few seconds that applications have.
        await documents(cluster, tmp_path)
