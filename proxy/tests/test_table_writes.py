"""While topics and groups are written, everyone else is served; nobody is answered too early."""

import errno
from collections.abc import Iterator
from typing import Any, final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.wire import RequestCode
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig, TopicConfigList

CREATE: dict[str, str] = {
    "topic": "made",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


@final
class Disk:
    """A disk whose writes of topics and groups begin, and end when it is told."""

    def __init__(self) -> None:
        self.begun = 0
        self.ends = trio.Event()
        self.is_full = False

    def hold(self, write: Any) -> Any:  # noqa: ANN401 - a method of a backend
        async def held(source: object) -> None:
            self.begun += 1
            await self.ends.wait()
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            await write(source)

        return held


@pytest.fixture
def disk(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    held, tables = Disk(), broker.context.store.tables
    for table in (tables.topics, tables.groups):
        write = held.hold(table.backend.write_off_loop)  # type: ignore[attr-defined]
        monkeypatch.setattr(table.backend, "write_off_loop", write)
    yield held
    held.ends.set()


async def created(client: Client, way: str) -> int:
    """Create a topic or a group, in one of the ways that there are; return the code."""
    if way == "operator":
        return (await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, CREATE)).code
    if way == "list":
        body = TopicConfigList((TopicConfig("made", 4, 4),)).encode()
        return (await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code
    if way == "group":
        body = SubscriptionGroupConfig("made").encode()
        return (await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code
    return (await client.send("made")).code


WAYS = ["operator", "list", "group", "send"]


@pytest.mark.parametrize("way", WAYS)
async def test_others_are_served_while_a_creation_is_written(
    broker: TestBroker, client: Client, disk: Disk, way: str
) -> None:
    codes: list[int] = []
    other, another = broker.connect(), broker.connect()
    disk.ends.set()
    assert (await client.send("known")).code == 0
    disk.ends = trio.Event()
    disk.begun = 0

    async def create(client: Client) -> None:
        codes.append(await created(client, way))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create, client)
        await wait_all_tasks_blocked()
        assert disk.begun == 1
        # Who uses what is not written yet waits, too; nobody else does.
        nursery.start_soon(create, another)
        await wait_all_tasks_blocked()
        with trio.fail_after(60):
            assert (await other.send("known")).code == 0
            assert len(await other.all_messages("known")) == 2
        assert codes == []
        disk.ends.set()
    assert codes == [0, 0]
    path = broker.context.store.tables.topics.backend.path
    if way == "group":
        path = broker.context.store.tables.groups.backend.path
    assert b'"made"' in path.read_bytes()


@pytest.mark.parametrize("way", WAYS)
async def test_a_creation_that_cannot_be_written_is_refused(
    client: Client, disk: Disk, way: str
) -> None:
    disk.is_full = True
    disk.ends.set()
    assert await created(client, way) == 1
    disk.is_full = False
    assert await created(client, way) == 0


async def test_a_connection_may_end_while_its_topic_is_written(
    broker: TestBroker, client: Client, disk: Disk
) -> None:
    await client.peer.send(client.frame(RequestCode.UPDATE_AND_CREATE_TOPIC, CREATE))
    await wait_all_tasks_blocked()
    assert disk.begun == 1

    for connection in list(broker.broker.server.connections):
        connection.abort()
    disk.ends.set()
    await wait_all_tasks_blocked()
    assert not broker.broker.server.connections
    assert (await broker.connect().send("made")).code == 0
