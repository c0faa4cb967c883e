"""A proxy that keeps the order of queues before a cluster with accounts, of 4.x or 5.x."""

from pathlib import Path
from typing import Any, Final

import pytest

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.gateway import RunningGateway
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.order import added_name
from lanemq.proxy.process import RunningBroker, open_broker
from lanemq.sdk import Credentials
from lanemq.sdk.admin import open_admin
from lanemq.testkit.proxy.accounts import ACCOUNTS, CHIEF, KINDS
from lanemq.testkit.proxy.brokers import SMALL_STORE, Client
from lanemq.testkit.proxy.gateways import Cluster, clustered, until
from lanemq.testkit.proxy.peers import Dial
from lanemq.wire import RequestCode
from lanemq.wire.bodies import RouteData, TopicConfig

Code = RequestCode
TOPIC: Final = "victim"
LATE: Final = added_name(0)


def settings(root: Path, kind: str, accounts: str) -> dict[str, Any]:
    if kind == "4.x":
        path = root / "conf" / "plain_acl.yml"
        path.parent.mkdir(parents=True)
        path.write_text(accounts)
        return {"acl_enable": True, "rocketmq_home": root}
    return {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": '{{"username":"{}","password":"{}"}}'.format(*CHIEF),
    }


async def guarded(
    cluster: Cluster, name: str, kind: str, accounts: str = ACCOUNTS
) -> RunningBroker:
    """Start a broker with accounts."""
    root = cluster.root / name
    config = BrokerConfig(
        broker_name=name,
        bind_address="127.0.0.1",
        listen_port=0,
        namesrv_addr=cluster.name_server,
        store_path_root_dir=root / "store",
        **SMALL_STORE,  # type: ignore[arg-type]
        **settings(root, kind, accounts),
    )
    return await cluster.stack.enter_async_context(open_broker(config))


async def signing(dial: Dial, port: int) -> Client:
    client = Client(await dial(port))
    client.account = CHIEF
    return client


async def put(broker: RunningBroker, queues: int) -> None:
    chief = Credentials(access_key=CHIEF[0], secret_key=CHIEF[1])
    async with open_admin(name_servers="127.0.0.1:1", credentials=chief) as admin:
        config = TopicConfig(TOPIC, read_queue_nums=queues, write_queue_nums=queues)
        await admin.put_topic(str(broker.address), config)


async def told(dial: Dial, proxy: RunningGateway) -> RouteData | str:
    """Return the route, or why there is none."""
    client = await signing(dial, proxy.address.port)
    answer = await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
    return answer.remark or RouteData.decode(answer.body)


def port_of(proxy: RunningGateway, name: str) -> int:
    return proxy.brokers.ports[BrokerKey(name, 0)].address.port


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cluster_with_accounts_is_refused_with_the_way_on(
    tmp_path: Path, dial: Dial, kind: str
) -> None:
    async with clustered(tmp_path) as cluster:
        broker = await guarded(cluster, "broker-a", kind)
        await put(broker, 2)
        proxy = await cluster.proxy(logical=True, settle_seconds=0)
        await until(lambda: "has accounts" in proxy.routes.why_not_ready)
        assert "has accounts, and a proxy has none" in str(await told(dial, proxy))
        assert "without --logical" in str(await told(dial, proxy))
        # Clients that have a route from before go on, and stay in their groups.
        client = await signing(dial, port_of(proxy, "broker-a"))
        answer = await client.heartbeat("c", consumers={"victim": {TOPIC: "*"}})
        assert answer.code == 0, answer.remark
        answer = await client.call(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "victim"})
        assert b'"c"' in answer.body
        assert (await client.send(TOPIC, b"signed", queue_id=1)).code == 0
        assert [one.body for one in await client.messages(TOPIC, queue_id=1)] == [b"signed"]


async def test_a_proxy_whose_address_a_white_list_has_keeps_the_order(
    tmp_path: Path, dial: Dial
) -> None:
    accounts = "globalWhiteRemoteAddresses: [127.0.0.1]\n" + ACCOUNTS
    async with clustered(tmp_path) as cluster:
        first = await guarded(cluster, "broker-a", "4.x", accounts)
        second = await guarded(cluster, "broker-b", "4.x", accounts)
        for broker in (first, second):
            await put(broker, 2)
        proxy = await cluster.proxy(logical=True, settle_seconds=0)
        await until(lambda: not proxy.routes.why_not_ready)
        await told(dial, proxy)
        await put(first, 4)
        route = await told(dial, proxy)
        assert isinstance(route, RouteData), route
        assert {one.broker_name for one in route.queue_datas} == {"broker-a", "broker-b", LATE}
        client = await signing(dial, port_of(proxy, LATE))
        assert (await client.send(TOPIC, b"signed", queue_id=1)).code == 0
        client.account = None
        assert [one.body for one in await client.messages(TOPIC, queue_id=1)] == [b"signed"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_broker_that_asks_for_accounts_behind_an_added_one_is_explained(
    tmp_path: Path, dial: Dial, kind: str
) -> None:
    async with clustered(tmp_path) as cluster:
        last = [await cluster.broker(name) for name in ("broker-a", "broker-c")][1]  # a has the log
        proxy = await cluster.proxy(logical=True, settle_seconds=0)
        await until(lambda: not proxy.routes.why_not_ready)
        async with cluster.open_broker("broker-b") as plain:
            for broker in (plain, last):
                await put(broker, 2)
            await told(dial, proxy)
            await put(plain, 4)
            await told(dial, proxy)
        broker = await guarded(cluster, "broker-b", kind)
        await put(broker, 4)
        await until(
            lambda: proxy.brokers.ports[BrokerKey("broker-b", 0)].upstream == str(broker.address)
        )
        client = await signing(dial, port_of(proxy, LATE))
        for answer in (
            await client.send(TOPIC, queue_id=1),
            await client.call(Code.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}),
        ):
            assert answer.code
            assert "no signature of a client holds there" in (answer.remark or "")
        own = await signing(dial, port_of(proxy, "broker-b"))
        assert (await own.send(TOPIC, queue_id=1)).code == 0
