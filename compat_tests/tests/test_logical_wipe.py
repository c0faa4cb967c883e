"""mqadmin's wipeWritePerm at `lanemq serve --brokers 2`: what each kind of client sees then."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import pytest
import trio

from lanemq.compat import Cell, Outgoing, open_client
from lanemq.compat.logical._bench import until_logical
from lanemq.compat.servers._clusters import LANEMQ, Cluster
from lanemq.compat.servers._mqadmin import open_mqadmin
from lanemq.compat.servers._waiting import PATIENT_PRODUCER, PATIENT_S, until
from lanemq.sdk import Message, open_producer
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import retry_topic
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import logical_broker_number

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

QUEUES: Final = 4
"""On each of the two brokers."""
FAKE_BROKERS: Final = 4
RW, R = 6, 4


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[dict[str, Any]]:
    """The first line of a running `serve --brokers 2`."""
    command = [*LANEMQ, "serve", "--brokers", "2", "--port", "0", "--json"]
    command += ["--data", str(folder / "data"), "--log-level", "error"]
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[trio.Process]) -> None:
            await trio.run_process(command, stdout=PIPE, check=False, task_status=task_status)

        process = await nursery.start(run)
        line = b""
        with trio.fail_after(180):
            while not line.endswith(b"\n"):
                line += await process.stdout.receive_some()
        yield json.loads(line)
        process.terminate()


async def permissions(admin: AdminClient, topic: str) -> dict[int, int]:
    """The permission of each broker that old clients see, by its number."""
    route = await admin.route(topic)
    found = {logical_broker_number(data.broker_name): data.perm for data in route.queue_datas}
    return {number: perm for number, perm in found.items() if number is not None}


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_what_clients_see_of_a_broker_that_is_closed_for_writing(
    version: str, tmp_path: Path
) -> None:
    async with (
        fleet(tmp_path) as facts,
        open_mqadmin(version, tmp_path / "mqadmin") as mqadmin,
        open_client("java-4.9.7", tmp_path) as driver,
        open_admin(name_servers=facts["namesrv"], timeout_s=PATIENT_S) as admin,
    ):
        cell = Cell("wipe", driver, Cluster("fleet", facts["namesrv"], tmp_path, []))
        topic, closed = cell.name("topic"), facts["brokers"][0]["broker_name"]
        for broker in facts["brokers"]:
            await admin.put_topic(broker["broker"], TopicConfig(topic, QUEUES, QUEUES))

        await until_logical(admin, topic, 2 * QUEUES)
        queues = await admin.routed_logical_queues(topic)
        assert queues is not None
        normal = {index: queues[index].normal for index in queues}
        ends = {index: end.broker_name for index, end in normal.items() if end is not None}
        numbers = {index % FAKE_BROKERS for index, name in ends.items() if name == closed}
        assert len(numbers) == FAKE_BROKERS / 2  # none ends at both real brokers
        assert await permissions(admin, topic) == dict.fromkeys(range(FAKE_BROKERS), RW)
        group, addresses = cell.name("group"), [one["broker"] for one in facts["brokers"]]
        async with cell.consumer(topic, group=group) as consumer:
            # A broker that registers a new topic takes back what was wiped before.
            await cell.cluster.control.until_routed(retry_topic(group), addresses)
            async with cell.producer() as producer:
                before = [b"before %d" % number for number in range(8)]
                for body in before:
                    await producer.send(Outgoing(topic, body))
            printed = await mqadmin.run("wipeWritePerm", "-n", facts["namesrv"], "-b", closed)
            assert f"wipe write perm of broker[{closed}] in name server" in printed.out
            expected = {n: R if n in numbers else RW for n in range(FAKE_BROKERS)}
            assert await permissions(admin, topic) == expected
            async with cell.producer() as producer:  # one that knows of it from its start
                sent = [
                    await producer.send(Outgoing(topic, b"after %d" % number))
                    for number in range(16)
                ]
            seen = {logical_broker_number(one.broker_name) for one in sent}
            assert seen == set(range(FAKE_BROKERS)) - numbers
            # It moves no queue: who knows logical queues still sees all of them, and writes there.
            async with open_producer(
                "sdk", name_servers=facts["namesrv"], options=PATIENT_PRODUCER
            ) as aware:
                shown = sorted(await aware.publish_queues(topic))
                assert [queue.queue_id for queue in shown] == list(range(2 * QUEUES))
                for queue in shown:
                    result = await aware.send(Message(topic=topic, body=b"sdk"), queue=queue)
                    assert result.origin is not None
                    assert result.origin.broker_name == ends[queue.queue_id]
            wanted = {*before, *(b"after %d" % number for number in range(16))}

            async def all_came() -> bool:
                return wanted <= set(consumer.bodies)

            await until(all_came)
            await mqadmin.run("addWritePerm", "-n", facts["namesrv"], "-b", closed)
            assert await permissions(admin, topic) == dict.fromkeys(range(FAKE_BROKERS), RW)
