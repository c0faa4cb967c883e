"""Members of groups who go direct, where members who come through a proxy see another order."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
from click.testing import CliRunner

from lanemq.proxy.gateway import GatewayFamilies, RunningGateway
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.order import PROXIED
from lanemq.proxy.gateway.rewrites import with_producer_group
from lanemq.proxy.net.http._exposition import render
from lanemq.proxy.process import RunningBroker
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin as admin_command
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.gateways import clustered, until
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_S
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import DirectGroup, MessageModel, TopicConfig

Code = RequestCode
TOPIC: Final = "T"
READS: Final = {"g": {TOPIC: "*"}}


async def put(broker: RunningBroker, queues: int) -> None:
    async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as admin:
        config = TopicConfig(TOPIC, read_queue_nums=queues, write_queue_nums=queues)
        await admin.put_topic(str(broker.address), config)


@dataclass
class Site:
    """Two brokers, and two proxies that keep the order of the topic."""

    brokers: list[RunningBroker]
    proxies: list[RunningGateway]
    dial: Dial
    stop_first: Callable[[], Awaitable[None]]
    """Stops the first broker."""

    async def direct(self, at: int = 0) -> Client:
        return Client(await self.dial(self.brokers[at].port))

    async def proxied(self, by: int = 0, broker: str = "broker-a") -> Client:
        port = self.proxies[by].brokers.ports[BrokerKey(broker, 0)].address.port
        return Client(await self.dial(port))

    async def told(self, by: int = 0) -> tuple[DirectGroup, ...]:
        """Let a proxy look, and return what it tells."""
        proxy = self.proxies[by]
        assert proxy.members is not None
        await proxy.members.look()
        async with open_admin(name_servers=str(proxy.address), timeout_s=PATIENT_S) as admin:
            return (await admin.proxy_status(str(proxy.address))).direct_groups

    async def grow(self) -> None:
        """Give the first broker queues that clients sort before those of the second."""
        await put(self.brokers[0], 4)
        await self.ask()
        for proxy in self.proxies:
            assert proxy.orders is not None
            await until(partial(proxy.orders.others.get, TOPIC))

    async def ask(self) -> None:
        """Let the proxies learn of the topic."""
        for proxy in self.proxies:
            client = Client(await self.dial(proxy.address.port))
            assert (await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})).code == 0


@asynccontextmanager
async def site(tmp_path: Path, dial: Dial) -> AsyncIterator[Site]:
    async with clustered(tmp_path) as cluster:
        second = await cluster.broker("broker-b")
        proxies = [await cluster.proxy(logical=True, settle_seconds=0) for _ in range(2)]
        for proxy in proxies:
            await until(proxy.routes.looked.is_set)
            assert proxy.orders is not None
            await proxy.orders.opened()
        async with AsyncExitStack() as running:
            first = await running.enter_async_context(cluster.open_broker("broker-a"))
            for broker in (first, second):
                await put(broker, 2)
            at = Site([first, second], proxies, dial, running.aclose)
            await at.ask()
            yield at


async def test_a_group_that_comes_both_ways_is_told(
    tmp_path: Path, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    """Members register at any of the topic's brokers, through any proxy."""
    async with site(tmp_path, dial) as at:
        for number, broker in enumerate("ab"):
            await (await at.proxied(number, f"broker-{broker}")).heartbeat(
                f"through-{number}", consumers=READS
            )
            await (await at.direct(number)).heartbeat(f"direct-{number}", consumers=READS)
        assert await at.told() == ()  # everybody sees the cluster's order
        await at.grow()
        (group,) = await at.told(0)
        assert group == DirectGroup(TOPIC, "g", 2, 2, ("direct-0", "direct-1"))
        assert await at.told(1) == (group,)
        assert "group g has members who go direct" in caplog.text
        metrics = b"".join(await render(GatewayFamilies(at.proxies[0]).all())).decode()
        assert "lanemq_proxy_direct_groups 1" in metrics
        assert "lanemq_proxy_divided_groups 1" in metrics
        command = ["proxyStatus", "-n", str(at.proxies[0].address)]
        result = await trio.to_thread.run_sync(CliRunner().invoke, admin_command, command)
        assert "direct-0, direct-1: queues are divided twice" in result.stdout


async def test_a_group_that_goes_direct_alone_is_no_alarm(
    tmp_path: Path, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, dial) as at:
        await at.grow()
        await (await at.direct()).heartbeat("c", consumers=READS)
        assert await at.told() == (DirectGroup(TOPIC, "g", 1, 0, ("c",)),)
        assert "members who go direct" not in caplog.text
        metrics = b"".join(await render(GatewayFamilies(at.proxies[0]).all())).decode()
        assert "lanemq_proxy_divided_groups 0" in metrics


async def test_members_who_share_no_queues_of_the_topic_are_not_counted(
    tmp_path: Path, dial: Dial
) -> None:
    async with site(tmp_path, dial) as at:
        await at.grow()
        client = await at.direct()
        await client.heartbeat("c", consumers={"other": {"U": "*"}})
        await (await at.proxied()).heartbeat("d", consumers={"h": {TOPIC: "*"}})
        everybody = await at.direct()
        await everybody.heartbeat("e", consumers=READS, message_model=MessageModel.BROADCASTING)
        assert await at.told() == ()


async def test_a_broker_that_is_down_hides_no_member_of_the_others(
    tmp_path: Path, dial: Dial
) -> None:
    async with site(tmp_path, dial) as at:
        await at.grow()
        client = await at.direct(1)
        await client.heartbeat("c", consumers=READS)
        await at.stop_first()
        assert await at.told() == (DirectGroup(TOPIC, "g", 1, 0, ("c",)),)


async def test_brokers_list_who_comes_through_proxies(tmp_path: Path, dial: Dial) -> None:
    async with site(tmp_path, dial) as at:
        for by in range(2):
            await (await at.proxied(by)).heartbeat(f"c-{by}", producers=("p",))
        direct = await at.direct()
        await direct.heartbeat("c-2", producers=("p",))
        for group, expected in (PROXIED, {"c-0", "c-1"}), ("p", {"c-0", "c-1", "c-2"}):
            answer = await direct.call(Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})
            assert answer.code == ResponseCode.SUCCESS
            listed = json.loads(answer.body)["connectionSet"]
            assert {one["clientId"] for one in listed} == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"clientID":"c","consumerDataSet":[{"x":1.50}],"producerDataSet":[{"groupName":"p"}]}',
            {
                "clientID": "c",
                "consumerDataSet": [{"x": 1.5}],
                "producerDataSet": [{"groupName": "p"}, {"groupName": "g"}],
            },
        ),
        (b'{ "producerDataSet" : null }', {"producerDataSet": [{"groupName": "g"}]}),
        (b'{"a":{"b":[]}}', {"a": {"b": []}, "producerDataSet": [{"groupName": "g"}]}),
    ],
)
def test_a_heartbeat_gets_one_group_more(body: bytes, expected: object) -> None:
    assert json.loads(with_producer_group(body, "g")) == expected


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"producerDataSet":3}', b"\xff"])
def test_what_is_no_heartbeat_stays_as_it_is(body: bytes) -> None:
    assert with_producer_group(body, "g") == body
