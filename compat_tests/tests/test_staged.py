"""Stages with real software: lanemq's listener at Apache brokers, Java listeners at lanemq's."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from lanemq.compat import APACHE_VERSIONS, Cell, Outgoing, open_client, run_server
from lanemq.compat.servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER, PATIENT_S, until
from lanemq.sdk import (
    ConsumeFrom,
    Message,
    OrderlyListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    Stages,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import open_admin
from lanemq.wire.bodies import SubscriptionGroupConfig
from lanemq.wire.message import StageRecord, stage_group

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

SIZES, COUNT = [5, 10, 25], 60
STAGES = Stages(SIZES)
# A consumer commits when it gives a queue up, and not now and then before: Apache's brokers may
# take two commits of an offset in the wrong order.
OPTIONS = PushOptions(
    consume_from=ConsumeFrom.FIRST_OFFSET, offset_persist_interval_s=3600, client=PATIENT_CLIENT
)


class Witness:
    """A listener that fails now and then, and sees whether stages stay apart."""

    def __init__(self) -> None:
        self.rng = random.Random(5)
        self.finished: set[int] = set()
        self.runs = 0
        self.wanted = COUNT
        self.done = trio.Event()

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome:
        self.runs += 1
        numbers = {int(message.body) for message in messages}
        (stage,) = {STAGES.stage_of(number) for number in numbers}
        before = {number for number in range(COUNT) if STAGES.stage_of(number) < stage}
        assert before <= self.finished, f"{numbers} before {before - self.finished}"
        await trio.sleep(self.rng.uniform(0, 0.05))
        if self.rng.random() < 0.1:
            return Outcome.SUSPEND_CURRENT_QUEUE
        self.finished |= numbers
        if len(self.finished) >= self.wanted:
            self.done.set()
        return Outcome.SUCCESS


async def consume(name_server: str, topic: str, listener: object, done: trio.Event) -> None:
    with trio.fail_after(150):
        async with open_push_consumer(
            "stagers",
            name_servers=name_server,
            subscriptions={topic: "Counts"},
            listener=listener,  # type: ignore[arg-type]
            options=OPTIONS,
        ):
            await done.wait()


@pytest.mark.parametrize("server", ["lanemq", *(f"apache-{v}" for v in APACHE_VERSIONS)])
async def test_stages_stay_apart_over_several_consumers_of_a_group(server: str) -> None:
    topic, rng = "staged", random.Random(3)
    async with run_server(server, logs=Path("compat-logs")) as cluster:
        await cluster.control.create_topic(topic, 1)
        address = cluster.name_server
        async with open_producer(
            "senders", name_servers=address, options=PATIENT_PRODUCER
        ) as producer:
            (queue,) = await producer.publish_queues(topic)
            for number in range(COUNT):
                for _ in range(rng.choice([0, 1, 2])):
                    await producer.send(Message(topic=topic, body=b"x", tags="Other"))
                await producer.send(Message(topic=topic, body=b"%d" % number, tags="Counts"))
        witness = Witness()
        listener = StagedConcurrentListener(witness, SIZES, suspend_s=0.2)
        for wanted in (3, 12, 33, COUNT):  # each consumer stops in the middle of a stage
            witness.wanted, witness.done = wanted, trio.Event()
            await consume(address, topic, listener, witness.done)
        async with open_admin(name_servers=address, timeout_s=PATIENT_S) as admin:
            (broker,) = await admin.masters("DefaultCluster")
            end = await admin.max_offset(broker, queue)

            async def committed() -> bool:  # a consumer that ends waits 3 s for a broker's answer
                kept = await admin.group_offset(broker, stage_group("stagers"), queue)
                settled = StageRecord(end, COUNT, settled=True)
                return (
                    kept is not None
                    and StageRecord.unpack(kept) == settled
                    and await admin.group_offset(broker, "stagers", queue) == end
                )

            await until(committed)
        assert witness.finished == set(range(COUNT))


@pytest.mark.parametrize("server", ["lanemq", *(f"apache-{v}" for v in APACHE_VERSIONS)])
async def test_orderly_consumers_share_queues_by_their_locks(server: str) -> None:
    topic = "orderly"
    async with run_server(server, logs=Path("compat-logs")) as cluster:
        await cluster.control.create_topic(topic, 4)
        address = cluster.name_server
        async with open_producer(
            "senders", name_servers=address, options=PATIENT_PRODUCER
        ) as producer:
            queues = await producer.publish_queues(topic)
        seen: dict[int, list[int]] = {queue.queue_id: [] for queue in queues}
        owner_of: dict[int, int] = {}
        owners: set[int] = set()
        each = 0
        begun, done, all_sent = trio.Event(), trio.Event(), trio.Event()
        failed: set[tuple[int, int]] = set()

        def look() -> None:
            if all_sent.is_set() and sum(map(len, seen.values())) == each * len(queues):
                done.set()

        async def send() -> None:
            """Send until both consumers have been given some, and for a while."""
            nonlocal each
            async with open_producer(
                "senders", name_servers=address, options=PATIENT_PRODUCER
            ) as producer:
                while each < 60 or owners != {0, 1}:
                    for queue in queues:
                        message = Message(topic=topic, body=b"%d" % each, tags="Counts")
                        await producer.send(message, queue=queue)
                    each += 1
                    await trio.sleep(0.03)
            all_sent.set()
            look()

        def listener_of(owner: int) -> OrderlyListener:
            async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
                (message,) = messages
                queue_id, number = message.queue.queue_id, int(message.body)
                await trio.sleep(0.05)
                if number % 10 == 7 and (queue_id, number) not in failed:
                    failed.add((queue_id, number))
                    return Outcome.SUSPEND_CURRENT_QUEUE
                # Apache's brokers may take two commits of an offset in the wrong order: then the
                # next owner is given the last messages once more.
                is_handed_over = owner_of.get(queue_id, owner) != owner
                owner_of[queue_id] = owner
                if is_handed_over and server != "lanemq":
                    if done.is_set():
                        return Outcome.SUCCESS
                    del seen[queue_id][number:]
                seen[queue_id].append(number)
                owners.add(owner)
                begun.set()
                look()
                return Outcome.SUCCESS

            return OrderlyListener(handle, suspend_s=0.1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(consume, address, topic, listener_of(0), done)
            await begun.wait()
            nursery.start_soon(consume, address, topic, listener_of(1), done)
        assert seen == {queue_id: list(range(each)) for queue_id in seen}


@pytest.mark.parametrize("client", ["java-3.2.6", "java-4.9.7"])
async def test_java_listeners_consume_in_the_stages_that_lanemq_keeps(
    client: str, tmp_path: Path
) -> None:
    async with (
        run_server("lanemq", logs=Path("compat-logs")) as cluster,
        open_client(client, tmp_path) as driver,
    ):
        cell = Cell("staged", driver, cluster)
        topic, fours = await cell.topic(queues=1), Stages([4] * 12)
        group, plain = cell.name("group"), cell.name("group")
        async with open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin:
            (broker,) = await admin.masters("DefaultCluster")
            config = SubscriptionGroupConfig(group_name=group, extra={"stages": list(fours.sizes)})
            await admin.put_group(broker, config)
        async with cell.producer() as producer:
            for number in range(COUNT):
                await producer.send(Outgoing(topic, b"%d" % number), queue_id=0)

        async def stages_seen(group: str) -> list[int]:
            async with cell.consumer(topic, group=group, takes_ms=200) as consumer:
                await consumer.receive(COUNT)
            numbers = [int(body) for body in consumer.bodies]
            assert sorted(numbers) == list(range(COUNT))
            return [fours.stage_of(number) for number in numbers]

        in_stages = await stages_seen(group)
        assert in_stages == sorted(in_stages)
        without = await stages_seen(plain)
        assert without != sorted(without), "or the test above proves nothing"
