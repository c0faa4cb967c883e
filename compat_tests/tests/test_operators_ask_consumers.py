"""Operators ask a consumer through its broker: the real mqadmin asks, the SDK answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from lanemq.compat import Cluster, apache_cluster, lanemq_cluster, running
from lanemq.compat.servers._mqadmin import open_mqadmin
from lanemq.compat.servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER, PATIENT_S, until
from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LitePullOptions,
    Message,
    OrderlyListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    Sql,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import open_admin
from lanemq.wire.bodies import TopicConfig

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

TOPIC, GROUP, READERS = "asked", "asked_listeners", "asked_readers"
QUICK = replace(PATIENT_CLIENT, route_refresh_s=1.0)
SERVERS: dict[str, Callable[[Path], Cluster]] = {
    "lanemq": lanemq_cluster,
    "apache-4.9.7": lambda folder: apache_cluster("4.9.7", folder),
}


@pytest.mark.parametrize("make", [ConcurrentListener, OrderlyListener])
@pytest.mark.parametrize("server", SERVERS)
async def test_a_listener_tells_operators_the_truth(
    server: str, make: type[ConcurrentListener] | type[OrderlyListener], tmp_path: Path
) -> None:
    heard: list[bytes] = []
    four = trio.Event()
    direct: dict[bytes, Outcome | Exception] = {}

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        (message,) = messages
        heard.append(message.body)
        if len(heard) == 4:
            four.set()
        outcome = direct.get(message.body)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    cluster = await trio.to_thread.run_sync(SERVERS[server], tmp_path / "cluster")
    async with (
        running(cluster, graceful=server == "lanemq"),
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        open_mqadmin("4.9.7", tmp_path / "tools") as tools,
    ):
        (broker,) = await admin.masters("DefaultCluster")
        await admin.put_topic(broker, TopicConfig(TOPIC, 1, 1))
        await cluster.control.until_routed(TOPIC)
        async with open_producer(
            "asked_senders", name_servers=cluster.name_server, options=PATIENT_PRODUCER
        ) as producer:
            sent = [
                await producer.send(Message(topic=TOPIC, body=b"%d" % n, properties={"a": str(n)}))
                for n in range(5)
            ]
        async with open_push_consumer(
            GROUP,
            name_servers=cluster.name_server,
            subscriptions={TOPIC: Sql("a < 4")},
            listener=make(handle, 7),
            options=PushOptions(
                consume_from=ConsumeFrom.FIRST_OFFSET, pull_suspend_s=1, client=QUICK
            ),
        ) as consumer:
            with trio.fail_after(60):
                await four.wait()
            (queue,) = [queue for queue in consumer.queues if queue.topic == TOPIC]

            async def passed_over() -> bool:  # the last one, by a pull of its own
                offsets = await admin.consumer_offsets(broker, GROUP, TOPIC)
                return offsets == {consumer.client_id: {queue: 5}}

            await until(passed_over)

            status = await tools.run(
                *("consumerStatus", "-n", cluster.name_server, "-g", GROUP),
                *("-i", consumer.client_id, "-s", "true"),
            )
            assert "Exception" not in status.err, status.err
            words = status.out.split()
            assert "#Consumer" in words
            for expected in ("PROP_THREADPOOL_CORE_SIZE", "7", "CONSUME_PASSIVELY", "V4_9_8"):
                assert expected in status.out
            assert "a < 4" in status.out
            ordered = str(make is OrderlyListener).lower()
            assert f"PROP_CONSUMEORDERLY{' ' * 21}: {ordered}" in status.out
            assert "trio" in status.out  # where the tasks are
            assert "_pull_loop.py" in status.out

            outcomes: list[tuple[Outcome | Exception | None, str]] = [
                (None, "CR_SUCCESS"),
                (Outcome.RETRY, "CR_LATER"),
                (ValueError("not this one"), "CR_THROW_EXCEPTION"),
            ]
            for outcome, expected in outcomes:
                if outcome is not None:
                    direct[b"4"] = outcome
                result = await admin.consume_directly(
                    broker, GROUP, consumer.client_id, sent[4].offset_id
                )
                assert result.consume_result == expected
            assert result.remark == "ValueError: not this one"
            direct.clear()
            printed = await tools.run(
                *("queryMsgById", "-n", cluster.name_server, "-i", sent[2].offset_id),
                *("-g", GROUP, "-d", consumer.client_id),
            )
            assert "consumeResult=CR_SUCCESS" in printed.out, printed
        assert 2 <= heard.count(b"2") <= 1 + printed.runs
        assert heard.count(b"4") == 3


@pytest.mark.parametrize("server", SERVERS)
async def test_a_reader_tells_operators_the_truth(server: str, tmp_path: Path) -> None:
    cluster = await trio.to_thread.run_sync(SERVERS[server], tmp_path / "cluster")
    async with (
        running(cluster, graceful=server == "lanemq"),
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        open_mqadmin("4.9.7", tmp_path / "tools") as tools,
    ):
        (broker,) = await admin.masters("DefaultCluster")
        await admin.put_topic(broker, TopicConfig(TOPIC, 1, 1))
        await cluster.control.until_routed(TOPIC)
        async with open_producer(
            "asked_senders", name_servers=cluster.name_server, options=PATIENT_PRODUCER
        ) as producer:
            for n in range(5):
                await producer.send(Message(topic=TOPIC, body=b"%d" % n))
        options = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=QUICK)
        async with open_lite_pull_consumer(
            READERS, name_servers=cluster.name_server, options=options
        ) as consumer:
            await consumer.subscribe(TOPIC)
            seen = 0
            with trio.fail_after(60):
                async for _ in consumer:
                    seen += 1
                    if seen == 3:
                        break
            await consumer.commit()
            (queue,) = consumer.queues

            async def told() -> bool:  # a broker leaves out who does not answer it within 5 s
                offsets = await admin.consumer_offsets(broker, READERS, TOPIC)
                return offsets == {consumer.client_id: {queue: 3}}

            await until(told)
            status = await tools.run(
                *("consumerStatus", "-n", cluster.name_server, "-g", READERS),
                *("-i", consumer.client_id),
            )
            assert "CONSUME_ACTIVELY" in status.out, status
            times = await consumer.offsets_for_times({queue: 0})
            assert times == {queue: 0}
