"""Masters and slaves behind an added broker: clients have one list of addresses for all of them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.gateway import RunningGateway
from lanemq.proxy.gateway._members import Members
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.order import added_name
from lanemq.proxy.process import RunningBroker, open_broker
from lanemq.sdk.admin import open_admin
from lanemq.testkit.proxy.brokers import SMALL_STORE, Client
from lanemq.testkit.proxy.gateways import Cluster, clustered, until
from lanemq.testkit.proxy.moves import moved
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_S
from lanemq.wire import HostAddress, RequestCode, ResponseCode
from lanemq.wire.bodies import BrokerData, RegisterBrokerBody, RouteData, TopicConfig
from lanemq.wire.headers import RegisterBroker

Code = RequestCode
LATE: Final = added_name(0)


def listed(**ids: tuple[int, ...]) -> Members:
    members = Members()
    members.note(BrokerData("", name, dict.fromkeys(has, "x:1")) for name, has in ids.items())
    return members


@pytest.mark.parametrize(
    ("has", "asked", "for_reads", "for_others"),
    [
        ((0, 1), 0, 0, 0),
        ((0, 1), 1, 1, 1),
        ((0,), 1, 0, 0),
        ((1, 2), 0, 1, 0),
        ((2,), 1, 2, 1),
        ((), 0, 0, 0),
        ((), 1, 1, 1),
    ],
)
def test_another_member_is_asked_where_one_is_missing(
    has: tuple[int, ...], asked: int, for_reads: int, for_others: int
) -> None:
    members, key = listed(a=has, b=(0, 1)), BrokerKey("a", asked)
    assert members.in_place_of(key, is_read=True) == BrokerKey("a", for_reads)
    assert members.in_place_of(key, is_read=False) == BrokerKey("a", for_others)


def test_the_members_of_several_brokers_are_those_of_any() -> None:
    members = listed(a=(0,), b=(1, 3), c=(7,))
    assert members.ids(["a", "b", "unknown"]) == {0, 1, 3}


async def put(broker: RunningBroker, topic: str, queues: int) -> None:
    async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as admin:
        config = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
        await admin.put_topic(str(broker.address), config)


@asynccontextmanager
async def slave(
    cluster: Cluster, dial: Dial, name: str = "broker-b"
) -> AsyncIterator[RunningBroker]:
    """Run a broker that the name server takes for the slave of another one; it has what is sent to
    it here."""
    config = BrokerConfig(
        broker_name=name,
        bind_address="127.0.0.1",
        listen_port=0,
        store_path_root_dir=cluster.root / f"slave-{name}",
        **SMALL_STORE,  # type: ignore[arg-type]
    )
    async with open_broker(config) as broker:
        client = Client(await dial(HostAddress.parse(cluster.name_server).port))
        header = RegisterBroker(name, str(broker.address), "DefaultCluster", "", 1)
        body = RegisterBrokerBody().encode()
        assert (await client.call(Code.REGISTER_BROKER, header.to_fields(), body)).code == 0
        yield broker


async def route_of(client: Client, topic: str) -> RouteData:
    answer = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    assert answer.code == 0, answer.remark
    return RouteData.decode(answer.body)


async def until_ids(proxy: RunningGateway, *ids: int) -> None:
    await until(lambda: proxy.brokers.members.ids(["broker-b"]) == set(ids))


async def run_master(
    cluster: Cluster,
    stop: trio.Event,
    stopped: trio.Event | None = None,
    *,
    task_status: trio.TaskStatus[RunningBroker] = trio.TASK_STATUS_IGNORED,
) -> None:
    async with cluster.open_broker("broker-b") as broker:
        task_status.started(broker)
        await stop.wait()
    if stopped is not None:
        stopped.set()


@dataclass
class Shared:
    """T is seen at an added broker for broker-b, which has a slave, and U there for broker-c."""

    proxy: RunningGateway
    routes: Client
    replica: Client
    """The slave itself."""
    late: Sequence[Client]
    """The master and the slave of the added broker."""
    addresses: Mapping[int, str]
    stop: trio.Event
    """Ends the master of broker-b."""
    stopped: trio.Event
    """Set once it has ended, and its store may be opened again."""
    nursery: trio.Nursery

    async def seen(self, topic: str) -> tuple[Mapping[int, str], tuple[int, int]]:
        """Return the addresses of the added broker, and how many of its queues can be read, and
        written."""
        route = await route_of(self.routes, topic)
        (broker,) = (one for one in route.broker_datas if one.broker_name == LATE)
        (queues,) = (one for one in route.queue_datas if one.broker_name == LATE)
        return broker.broker_addrs, (queues.read_queue_nums, queues.write_queue_nums)

    async def bodies(self, at: int, topic: str) -> list[bytes]:
        return [one.body for one in await self.late[at].messages(topic, queue_id=0)]


@asynccontextmanager
async def shared(cluster: Cluster, dial: Dial) -> AsyncIterator[Shared]:
    nursery = await cluster.stack.enter_async_context(trio.open_nursery())
    others = [await cluster.broker(f"broker-{letter}") for letter in "acd"]  # a has the log
    stop, stopped = trio.Event(), trio.Event()
    master = await nursery.start(run_master, cluster, stop, stopped)
    proxy = await cluster.proxy(logical=True, settle_seconds=0)
    await until(lambda: not proxy.routes.why_not_ready)
    routes = Client(await dial(proxy.address.port))
    for topic, broker in (("T", master), ("U", others[1])):
        await put(others[2], topic, 1)
        await route_of(routes, topic)
        await put(broker, topic, 2)
        await route_of(routes, topic)
    await until(lambda: proxy.orders and len(proxy.orders.behind_one(0)) == 2)
    async with slave(cluster, dial) as replica:
        await put(replica, "T", 2)
        await until_ids(proxy, 0, 1)
        ports = [proxy.brokers.ports[BrokerKey(LATE, one)].address for one in (0, 1)]
        late = [Client(await dial(one.port)) for one in ports]
        addresses = {one: str(address) for one, address in enumerate(ports)}
        seen_replica = Client(await dial(replica.port))
        yield Shared(proxy, routes, seen_replica, late, addresses, stop, stopped, nursery)
        stop.set()


async def test_a_broker_without_its_master_is_read_behind_an_added_one_that_has_others(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster, shared(cluster, dial) as at:
        # One list for both topics, though broker-c has no slave.
        assert await at.seen("T") == await at.seen("U") == (at.addresses, (2, 2))
        assert (await at.replica.send("T", b"replica", queue_id=0)).code == 0
        assert (await at.late[0].send("T", b"master", queue_id=0)).code == 0
        assert (await at.late[0].send("U", b"u", queue_id=0)).code == 0
        assert await at.bodies(0, "T") == [b"master"]
        assert await at.bodies(1, "T") == [b"replica"]
        assert await at.bodies(0, "U") == await at.bodies(1, "U") == [b"u"]

        at.stop.set()
        await at.stopped.wait()
        await until_ids(at.proxy, 1)
        # Senders leave its queues out; the list of addresses stays, also for U.
        assert await at.seen("T") == (at.addresses, (2, 0))
        assert await at.seen("U") == (at.addresses, (2, 2))
        assert await at.bodies(0, "T") == [b"replica"]
        assert await at.bodies(0, "U") == [b"u"]
        progress = {"consumerGroup": "g", "topic": "T", "queueId": "1", "commitOffset": "7"}
        answer = await at.late[0].call(Code.UPDATE_CONSUMER_OFFSET, progress)
        assert answer.code == 0, answer.remark
        answer = await at.late[1].call(Code.QUERY_CONSUMER_OFFSET, progress)
        assert answer.fields.get("offset") == "7", answer.remark
        assert (await at.late[0].send("U", queue_id=0)).code == 0
        # What clients ask of masters alone, no slave answers for one.
        for answer in (
            await at.late[0].send("T", queue_id=0),
            await at.late[0].call(Code.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}),
        ):
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "broker-b" in (answer.remark or "")

        stop = trio.Event()
        await at.nursery.start(run_master, cluster, stop)
        await until_ids(at.proxy, 0, 1)
        assert await at.bodies(0, "T") == [b"master"]
        assert (await at.late[0].send("T", queue_id=0)).code == 0
        stop.set()


async def test_a_moved_queue_goes_on_at_another_master_for_who_has_a_slave_of_the_first_one(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster:
        nursery = await cluster.stack.enter_async_context(trio.open_nursery())
        await cluster.broker("broker-a")  # has the log
        stop = trio.Event()
        master = await nursery.start(run_master, cluster, stop)
        other = await cluster.broker("broker-c")
        first, lagging = [
            await cluster.stack.enter_async_context(slave(cluster, dial, name))
            for name in ("broker-b", "broker-c")
        ]
        for broker in (master, first, lagging):
            await put(broker, "T", 1)
        proxy = await cluster.proxy(logical=True, moves=True, settle_seconds=0)
        await until(lambda: proxy.moving and proxy.moving.lease.is_sure)
        await route_of(Client(await dial(proxy.address.port)), "T")
        await until(lambda: proxy.orders and proxy.orders.of("T"))
        masters, slaves = [
            Client(await dial(proxy.brokers.ports[BrokerKey("broker-b", one)].address.port))
            for one in (0, 1)
        ]
        assert (await masters.send("T", b"0", queue_id=0)).code == 0
        assert (await Client(await dial(first.port)).send("T", b"0", queue_id=0)).code == 0
        async with open_admin(name_servers=str(proxy.address), timeout_s=PATIENT_S) as admin:
            assert (await moved(admin, 0, "broker-c")).begin == 1
        assert (await masters.send("T", b"1", queue_id=0)).fields["queueOffset"] == "1"
        stop.set()
        await until_ids(proxy, 1)
        for offset in (0, 1):
            (one,) = await slaves.messages("T", queue_id=0, offset=offset)
            assert (one.body, one.queue_offset) == (b"%d" % offset, offset)
        queue = {"topic": "T", "queueId": "0", "consumerGroup": "g"}
        assert (await slaves.call(Code.GET_MAX_OFFSET, queue)).fields["offset"] == "2"
        progress = {**queue, "commitOffset": "2"}
        assert (await slaves.call(Code.UPDATE_CONSUMER_OFFSET, progress)).code == 0
        assert (await slaves.call(Code.QUERY_CONSUMER_OFFSET, queue)).fields["offset"] == "2"
        kept = await Client(await dial(other.port)).call(Code.QUERY_CONSUMER_OFFSET, queue)
        assert kept.fields.get("offset") == "1", kept.remark
