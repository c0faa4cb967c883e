"""A proxy reports its status to ``lanemq admin proxyStatus``."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from click.testing import CliRunner

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.gateway import RunningGateway, open_gateway
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.process import open_broker
from lanemq.sdk import Message, open_producer
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.admin.cli import admin as admin_command
from lanemq.sdk.kv import open_kv_store
from lanemq.testkit.proxy.brokers import SMALL_STORE
from lanemq.testkit.proxy.gateways import gateway_config
from lanemq.testkit.servers import PATIENT_PRODUCER
from lanemq.wire.bodies import ProxyStatus

PATIENT_S: Final = 60.0


@asynccontextmanager
async def site(root: Path, *, brokers: int = 1) -> AsyncIterator[tuple[str, trio.Event]]:
    """A name server and brokers, which stop before it where a test sets the event."""
    stop = trio.Event()

    async def run(name_server: str, at: int, task_status: trio.TaskStatus[None]) -> None:
        settings = BrokerConfig(
            broker_name=f"broker-{at}",
            bind_address="127.0.0.1",
            listen_port=0,
            namesrv_addr=name_server,
            store_path_root_dir=root / f"broker-{at}",
            kv_enable=False,
            **SMALL_STORE,  # type: ignore[arg-type]
        )
        async with open_broker(settings):
            task_status.started()
            await stop.wait()

    config = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
    async with open_nameserver(config) as name_server, trio.open_nursery() as nursery:
        for at in range(brokers):
            await nursery.start(run, name_server.address, at)
        yield name_server.address, stop
        stop.set()


@asynccontextmanager
async def proxy(upstream: str, **settings: object) -> AsyncIterator[RunningGateway]:
    config = gateway_config(upstream, leave_seconds=0, **settings)
    async with open_gateway(config) as running:
        yield running


async def until_told(
    client: AdminClient, address: object, condition: Callable[[ProxyStatus], object]
) -> ProxyStatus:
    with trio.fail_after(PATIENT_S):
        while True:
            status = await client.proxy_status(str(address))
            if condition(status):
                return status
            await trio.sleep(0.02)


async def test_it_tells_of_brokers_links_and_other_proxies(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        upstream, stop = await stack.enter_async_context(site(tmp_path, brokers=2))
        one = await stack.enter_async_context(proxy(upstream))
        two = await stack.enter_async_context(proxy(upstream, peers=str(one.address)))
        client = await stack.enter_async_context(
            open_admin(name_servers=str(two.address), timeout_s=PATIENT_S)
        )
        status = await until_told(client, two.address, lambda told: len(told.brokers) == 2)
        assert (status.name, status.name_servers) == (str(two.address), (upstream,))
        assert (status.leaving, status.problem, status.keys) == (False, "", ())
        status = await until_told(client, two.address, lambda told: told.proxies[0].name)
        assert (status.proxies[0].address, status.proxies[0].name) == (str(one.address),) * 2
        async with open_producer(
            "g", name_servers=str(one.address), options=PATIENT_PRODUCER
        ) as producer:
            await producer.send(Message(topic="T", body=b"x"))
            status = await client.proxy_status(str(one.address))
            assert sum(broker.links for broker in status.brokers) >= 1
            assert sum(broker.requests for broker in status.brokers) >= 1
            assert status.connections >= 2, "the producer's for routes, and for a broker"
        for broker in status.brokers:
            port = next(p for key, p in one.brokers.ports.items() if key.name == broker.broker_name)
            assert (broker.address, broker.upstream) == (str(port.address), port.upstream)
            assert broker.listed
            assert not broker.problem
        stop.set()
        told = await until_told(
            client, one.address, lambda told: not any(broker.listed for broker in told.brokers)
        )
        assert len(told.brokers) == 2, "they keep their ports"
        stream = await trio.open_tcp_stream("127.0.0.1", port.address.port)
        await stream.send_all(b"\0\0\0\x15\0\0\0\x11" + b'{"code":34,"o":1}')
        await until_told(
            client,
            one.address,
            lambda told: any("cannot connect" in broker.problem for broker in told.brokers),
        )
        await stream.aclose()


async def test_it_tells_how_far_the_logs_of_keys_are(tmp_path: Path) -> None:
    async with site(tmp_path) as (upstream, _), proxy(upstream, keys=True) as running:
        address = str(running.address)
        async with open_kv_store(name_servers=address) as store:
            await store.put(b"k", b"v")
        async with open_admin(name_servers=address, timeout_s=PATIENT_S) as client:
            # The proxy may be writing a record of its own.
            status = await until_told(
                client, address, lambda told: told.keys and not told.keys[0].lag
            )
            (log,) = status.keys
            assert (log.namespace, log.partition, log.lag, log.problem) == ("default", 0, 0, "")
            assert log.applied == log.end > 0


def invoke(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(admin_command, ["proxyStatus", *args])
    return result.exit_code, result.stdout, result.stderr


async def test_the_command_shows_each_proxy(tmp_path: Path) -> None:
    async with site(tmp_path) as (upstream, _), proxy(upstream) as one, proxy(upstream) as two:
        both = f"{one.address};{two.address}"
        code, text, _ = await trio.to_thread.run_sync(invoke, "-n", both)
        assert code == 0
        for running in (one, two):
            assert f"proxy {running.address}: serves" in text
            assert str(next(iter(running.brokers.ports.values())).address) in text
        assert text.count("broker-0/0") == 2
        code, text, _ = await trio.to_thread.run_sync(
            invoke, "-n", both, "-p", str(two.address), "--json"
        )
        (told,) = json.loads(text)
        assert (code, told["name"]) == (0, str(two.address))
        assert told["brokers"][0]["brokerName"] == "broker-0"
        code, text, errors = await trio.to_thread.run_sync(
            invoke, "-n", f"127.0.0.1:1;{two.address}"
        )
        assert (code, "127.0.0.1:1" in errors) == (0, True)
        assert f"proxy {two.address}: serves" in text
        code, _, errors = await trio.to_thread.run_sync(invoke, "-n", upstream)
        assert code == 1
        assert "is no proxy of lanemq" in errors
