"""The broker of a log over a cluster, as the cluster's name servers keep it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from lanemq.proxy.gateway.kv import NotYet
from lanemq.proxy.gateway.kv._topics import LOGS, note_broker, noted_broker
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.sdk import open_remoting_client
from lanemq.sdk.admin import AdminClient, open_admin

TOPIC = "LANEMQ_PROXY_queues"


@pytest.fixture
async def servers() -> AsyncIterator[list[str]]:
    """Two name servers."""
    async with AsyncExitStack() as stack:
        config = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
        opened = [await stack.enter_async_context(open_nameserver(config)) for _ in range(2)]
        yield [one.address for one in opened]


async def noted(*servers: str) -> str | None:
    async with open_remoting_client() as client:
        return await noted_broker(client, AdminClient(client, servers, timeout_s=3), TOPIC)


async def test_one_name_server_that_knows_is_enough_and_tells_the_others(
    servers: list[str],
) -> None:
    assert await noted(*servers) is None
    async with open_admin(name_servers=servers[1]) as admin:
        await note_broker(admin, TOPIC, "broker-b")
    async with open_admin(name_servers=servers[0]) as new:
        assert await new.value(LOGS, TOPIC) is None
        assert await noted(*servers) == "broker-b"
        assert await new.value(LOGS, TOPIC) == "broker-b"


async def test_nobody_takes_a_log_for_new_while_one_that_may_know_is_silent(
    servers: list[str],
) -> None:
    down = "127.0.0.1:1"
    with pytest.raises(NotYet, match=down):
        await noted(*servers, down)
    async with open_admin(name_servers=servers[0]) as admin:
        await note_broker(admin, TOPIC, "broker-a")
    assert await noted(*servers, down) == "broker-a"


async def test_name_servers_that_do_not_agree_are_named_with_the_way_on(
    servers: list[str],
) -> None:
    for server, broker in zip(servers, ("broker-a", "broker-b"), strict=True):
        async with open_admin(name_servers=server) as admin:
            await note_broker(admin, TOPIC, broker)
    with pytest.raises(NotYet, match=r"broker-a and broker-b.*updateKvConfig"):
        await noted(*servers)
