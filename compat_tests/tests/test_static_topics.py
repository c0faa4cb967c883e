"""Static topics of 5.x, made by mqadmin at Apache's brokers: the SDK and its tools use them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from lanemq.compat import Cluster, apache_broker, apache_name_server, free_port, running
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._mqadmin import MqadminShell, open_mqadmin
from lanemq.compat.servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER, PATIENT_S, until
from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Message,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.admin.cli import admin as admin_commands
from lanemq.wire.bodies import MessageQueue

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

TOPIC = "Static"


def two_brokers(folder: Path) -> Cluster:
    address = f"127.0.0.1:{free_port()}"
    daemons = [apache_name_server("5.3.3", folder / "names", port=int(address.split(":")[1]))]
    for name in ("broker-a", "broker-b"):
        home = folder / name
        home.mkdir(parents=True)
        daemons.append(
            apache_broker(
                "5.3.3",
                home,
                port=free_port(1, -2),
                name_server=address,
                store=home / "store",
                name=name,
                settings={**TEST_STORE, "timerWheelEnable": "true"},
                heap="256m",
            )
        )
    return Cluster("apache-static", address, folder, daemons)


async def test_the_sdk_sends_to_a_static_topic_and_reads_it_while_it_is_moved(
    tmp_path: Path,
) -> None:
    (tmp_path / "names").mkdir()
    cluster = await trio.to_thread.run_sync(two_brokers, tmp_path)
    received: list[tuple[int, int, bytes]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            received.append((message.queue.queue_id, message.queue_offset, message.body))

    async with (
        running(cluster, logs=Path("compat-logs"), graceful=False),
        open_mqadmin("5.3.3", tmp_path / "mqadmin") as shell,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        await run(shell, cluster, "updateStaticTopic", "-b", "broker-a", "-qn", "3")
        await until_at(admin, "broker-a", 3)
        options = PushOptions(
            consume_from=ConsumeFrom.FIRST_OFFSET,
            rebalance_interval_s=0.5,
            client=replace(PATIENT_CLIENT, route_refresh_s=0.5),
        )
        async with (
            open_producer(
                "static_senders", name_servers=cluster.name_server, options=PATIENT_PRODUCER
            ) as producer,
            open_push_consumer(
                "static_readers",
                name_servers=cluster.name_server,
                subscriptions={TOPIC: "*"},
                listener=ConcurrentListener(handle),
                options=options,
            ),
        ):
            places = []
            for number in range(6):
                queue = MessageQueue(TOPIC, "broker-a", number % 3)
                message = Message(topic=TOPIC, body=b"%d" % number)
                sent = await producer.send(message, queue=queue)
                places.append((sent.queue.queue_id, sent.queue_offset, message.body))
            assert places == [(n % 3, n // 3, b"%d" % n) for n in range(6)]
            await until_received(received, 6)
            assert sorted(received) == sorted(places)
        await run(shell, cluster, "remappingStaticTopic", "-b", "broker-b")
        await until_at(admin, "broker-b", 3)
        received.clear()
        async with (
            open_producer(
                "static_senders", name_servers=cluster.name_server, options=PATIENT_PRODUCER
            ) as producer,
            open_push_consumer(
                "static_later_readers",
                name_servers=cluster.name_server,
                subscriptions={TOPIC: "*"},
                listener=ConcurrentListener(handle),
                options=options,
            ),
        ):
            for number in range(6, 9):
                queue = MessageQueue(TOPIC, "broker-b", number % 3)
                message = Message(topic=TOPIC, body=b"%d" % number)
                sent = await producer.send(message, queue=queue)
                places.append((sent.queue.queue_id, sent.queue_offset, message.body))
            await until_received(received, 9)
            # In their queues, at the offsets that their senders were told, from both brokers.
            assert sorted(received) == sorted(places)
        shown = await trio.to_thread.run_sync(show, cluster)
        assert [line for line in shown.splitlines() if line.startswith("Static topic:")] == [
            f"Static topic: queue {number} is queue {number} of broker-b" for number in range(3)
        ]


async def run(shell: MqadminShell, cluster: Cluster, command: str, *arguments: str) -> None:
    printed = await shell.run(command, "-n", cluster.name_server, "-t", TOPIC, *arguments)
    assert "Exception" not in printed.err, printed.err


async def until_received(received: Sequence[object], count: int) -> None:
    async def enough() -> bool:
        return len(received) >= count

    await until(enough)


async def until_at(admin: AdminClient, broker: str, queues: int) -> None:
    async def mapped() -> bool:
        try:
            places = (await admin.route(TOPIC)).static_queues()
        except LanemqError:
            return False
        return [place.broker_name for place in places.values()] == [broker] * queues

    await until(mapped)


def show(cluster: Cluster) -> str:
    arguments = ["topicRoute", "-n", cluster.name_server, "-t", TOPIC, "-l"]
    arguments += ["--timeout", str(PATIENT_S)]
    result = CliRunner().invoke(admin_commands, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout
