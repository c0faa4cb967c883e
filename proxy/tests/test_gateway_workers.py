"""``lanemq proxy --workers N``: processes that share a proxy's ports."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from click.testing import CliRunner

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.gateway import BrokerNumbers, GatewayConfig, open_gateway
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway._workers import Workers, merged
from lanemq.proxy.net.transport._listen import (
    AddressUnavailable,
    hold_shared,
    listen,
)
from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    Producer,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    open_producer,
    open_push_consumer,
    open_remoting_client,
)
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin
from lanemq.testkit.proxy.gateways import Cluster, clustered
from lanemq.testkit.proxy.partitions import until
from lanemq.testkit.servers import free_port
from lanemq.wire import RequestCode
from lanemq.wire.bodies import ProxiedBroker, ProxyStatus, ProxyWorker
from lanemq.wire.frame import request

LOOPBACK: Final = "127.0.0.1"
PATIENT_S: Final = 120.0
COMMAND: Final = (sys.executable, "-m", "lanemq.proxy.cli", "proxy", "--json", "--http-port=0")


def test_a_port_that_is_held_is_for_those_that_share_it_alone() -> None:
    with hold_shared(LOOPBACK, 0) as held:
        port = held.getsockname()[1]
        with listen(LOOPBACK, port, is_shared=True), listen(LOOPBACK, port, is_shared=True):
            for take in (listen, hold_shared):
                with pytest.raises(AddressUnavailable, match="in use"):
                    take(LOOPBACK, port)


def test_workers_give_a_broker_one_number_in_whatever_order_they_find_it(tmp_path: Path) -> None:
    path, rng = tmp_path / "brokers.json", random.Random(0)
    keys = [BrokerKey(f"broker-{number}", 0) for number in range(12)]
    workers = [BrokerNumbers(path, is_shared=True) for _ in range(3)]
    for worker in workers * 4:
        assert worker.add(rng.sample(keys, 5)) == ""
    for worker in workers:
        assert worker.add(keys) == ""
    first, *others = [[worker.get(key) for key in keys] for worker in workers]
    assert sorted(number for number in first if number is not None) == list(range(12))
    assert others == [first, first]
    assert [BrokerNumbers(path).get(key) for key in keys] == first


def test_a_worker_says_what_keeps_it_from_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "brokers.json"
    path.write_bytes(b"{")
    with pytest.raises(ConfigError, match="does not have the numbers"):
        BrokerNumbers(path, is_shared=True)
    path.unlink()
    worker = BrokerNumbers(path, is_shared=True)
    path.write_bytes(b"{")
    assert "does not have the numbers" in worker.add([BrokerKey("broker-a", 0)])
    assert worker.get(BrokerKey("broker-a", 0)) is None


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"listen_port": 0}, "name the port for routes"),
        ({"broker_port": 0}, "that of the first broker"),
        ({"state_path": None}, "need a directory"),
    ],
)
def test_what_workers_cannot_share_is_refused(
    tmp_path: Path, settings: dict[str, Any], text: str
) -> None:
    options = {"upstream": "127.0.0.1:1", "workers": 2, "state_path": tmp_path / "b", **settings}
    with pytest.raises(ConfigError, match=text):
        GatewayConfig.load(None, options)


def test_workers_share_the_memory_for_peers(tmp_path: Path) -> None:
    options = {"upstream": "127.0.0.1:1", "state_path": tmp_path / "b", "peer_memory_max": 1 << 28}
    alone = GatewayConfig.load(None, options)
    one = GatewayConfig.load(None, {**options, "workers": 4, "worker": 3})
    assert alone.peer_memory_bytes == 4 * one.peer_memory_bytes


async def test_workers_tell_their_status_to_one_another_alone(tmp_path: Path) -> None:
    """Other users of the machine reach their ports, and may take that of one that has ended."""
    status = partial(ProxyStatus, "proxy", connections=7)
    workers = [Workers(tmp_path, number, 2, status) for number in range(2)]
    async with trio.open_nursery() as nursery:
        for worker in workers:
            nursery.start_soon(worker.run)
        files = [tmp_path / f"worker-{number}.port" for number in range(2)]
        with trio.fail_after(PATIENT_S):
            while (await workers[0].all()).connections != 14:  # noqa: ASYNC110 - another's task
                await trio.sleep(0.01)
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        port, secret = files[1].read_text().split()
        wrong: list[dict[str, str]] = [{}, {"seal": ""}, {"once": "x", "seal": secret}]
        async with open_remoting_client() as stranger:
            for fields in wrong:
                with pytest.raises(RefusedByBroker, match="own workers"):
                    await stranger.call(
                        f"{LOOPBACK}:{port}", request(RequestCode.PROXY_STATUS, fields)
                    )
        impostor = Workers(tmp_path, 1, 2, status)
        impostor._answer = lambda frame, _: frame.reply(body=status().encode())  # type: ignore[method-assign]
        nursery.start_soon(impostor.run)
        with trio.fail_after(PATIENT_S):
            while (found := await workers[0].all()).connections == 14:  # noqa: ASYNC110 - as above
                await trio.sleep(0.01)
        assert found.workers[1].problem == "another program has its port"
        nursery.cancel_scope.cancel()


def test_the_status_of_workers_is_one() -> None:
    def told(number: int, *brokers: ProxiedBroker) -> ProxyStatus:
        worker = ProxyWorker(number, pid=number, connections=10 + number)
        return ProxyStatus(
            "proxy",
            connections=10 + number,
            longest_turn_ms=5 - number,
            held_turns=2,
            brokers=brokers,
            workers=(worker,),
        )

    def broker(name: str, count: int, problem: str = "") -> ProxiedBroker:
        return ProxiedBroker(
            name, problem=problem, links=count, requests=count, answers=count, refused=count
        )

    status = merged(
        [
            told(0, broker("a", 1)),
            "no answer",
            told(2, broker("b", 4), broker("a", 2, "is down")),
        ]
    )
    assert (status.connections, status.longest_turn_ms, status.held_turns) == (22, 5, 4)
    assert status.brokers == (broker("a", 3, "is down"), broker("b", 4))
    assert [(one.number, one.pid, one.problem) for one in status.workers] == [
        (0, 0, ""),
        (1, 0, "no answer"),
        (2, 2, ""),
    ]


@asynccontextmanager
async def two_clusters(root: Path) -> AsyncIterator[tuple[Cluster, Cluster]]:
    async with clustered(root / "mine") as mine:
        await mine.broker("broker-a")
        async with clustered(root / "theirs") as theirs:
            await theirs.broker("broker-b")
            yield mine, theirs


def shared(cluster: Cluster, root: Path, broker_port: int, worker: int) -> GatewayConfig:
    """The settings of a worker; the ports for routes differ, which processes would not."""
    return cluster.config(
        workers=2,
        worker=worker,
        listen_port=free_port(),
        broker_port=broker_port,
        state_path=root / "brokers.json",
    )


async def test_workers_share_the_port_of_a_broker_with_no_other_proxy(tmp_path: Path) -> None:
    port = free_port(-2)
    key, other = BrokerKey("broker-a", 0), BrokerKey("broker-b", 0)
    async with two_clusters(tmp_path) as (mine, theirs):
        configs = [shared(mine, tmp_path / "mine", port, number) for number in range(2)]
        stranger = shared(theirs, tmp_path / "theirs", port, 0)
        async with AsyncExitStack() as stack:
            for config in configs:
                running = await stack.enter_async_context(open_gateway(config))
                assert running.brokers.ports[key].address.port == port
            async with open_gateway(stranger) as running:
                assert not running.brokers.ports
        async with open_gateway(stranger) as running:  # it is free again
            assert running.brokers.ports[other].address.port == port


@asynccontextmanager
async def started(root: Path, upstream: str, *options: str) -> AsyncIterator[dict[str, Any]]:
    """A proxy with two workers, which ends by SIGTERM as it should."""
    routes, broker = free_port(), free_port(-2)
    ports = (f"--port={routes}", f"--broker-port={broker}")
    given = (f"--upstream={upstream}", f"--host={LOOPBACK}", f"--data={root / 'proxy'}", *ports)
    process = await trio.lowlevel.open_process(
        [*COMMAND, "--workers=2", *given, *options], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = b""
        with trio.fail_after(PATIENT_S):
            while not line.endswith(b"\n"):
                data = await process.stdout.receive_some()
                assert data, "it has said why"
                line += data
        yield json.loads(line)
        process.terminate()
        with trio.fail_after(PATIENT_S):
            assert await process.wait() == 0
    finally:
        process.kill()


@asynccontextmanager
async def site(root: Path) -> AsyncIterator[tuple[Cluster, dict[str, Any]]]:
    async with clustered(root) as cluster:
        await cluster.broker()
        async with started(root, cluster.name_server) as facts:
            yield cluster, facts


@pytest.mark.slow
async def test_clients_are_divided_among_workers_and_one_that_is_killed_comes_back(
    tmp_path: Path,
) -> None:
    seen, sent = set[bytes](), set[bytes]()

    async def note(messages: list[ReceivedMessage]) -> None:
        seen.update(message.body for message in messages)

    async with AsyncExitStack() as stack:
        _, facts = await stack.enter_async_context(site(tmp_path))
        at = facts["proxy"]
        asking = await stack.enter_async_context(open_admin(name_servers=at, timeout_s=PATIENT_S))
        producers: list[Producer] = []
        for number in range(60):  # each connection comes to one of them, by the hash of its ports
            opened = open_producer(f"p{number}", name_servers=at, send_timeout_s=60)
            producers.append(await stack.enter_async_context(opened))
            await producers[-1].send(Message(topic="T", body=b"first"))
            status = await asking.proxy_status(at)
            if all(worker.connections > 1 for worker in status.workers):
                break
        assert all(worker.connections > 1 for worker in status.workers)
        assert [worker.pid for worker in status.workers] == [one["pid"] for one in facts["workers"]]
        assert status.connections == sum(worker.connections for worker in status.workers)
        with trio.fail_after(PATIENT_S):
            while [one.links for one in status.brokers] != [len(producers)]:
                status = await asking.proxy_status(at)
        options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
        consuming = open_push_consumer(
            "g",
            name_servers=at,
            subscriptions={"T": "*"},
            listener=ConcurrentListener(note),
            options=options,
        )
        await stack.enter_async_context(consuming)
        os.kill(status.workers[1].pid, signal.SIGKILL)
        for number in range(40):
            body = b"%d" % number
            await producers[number % len(producers)].send(Message(topic="T", body=body))
            sent.add(body)
        with trio.fail_after(PATIENT_S):
            while not sent <= seen:  # noqa: ASYNC110 - consumers decide when
                await trio.sleep(0.05)
            while True:
                now = await asking.proxy_status(at)
                if not any(worker.problem for worker in now.workers):
                    break
                await trio.sleep(0.1)
        assert now.workers[0].pid == status.workers[0].pid
        assert now.workers[1].pid != status.workers[1].pid


@pytest.mark.slow
async def test_workers_end_with_their_proxy_and_nobody_else_takes_its_ports(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as (cluster, facts):
        pids = [facts["pid"], *(one["pid"] for one in facts["workers"])]
        assert len({one["http"] for one in facts["workers"]}) == 2

        async def are_ok() -> bool:
            # A worker that answers late, as on a busy machine, is not shown as one that does.
            shown = await trio.to_thread.run_sync(
                lambda: CliRunner().invoke(admin, ["proxyStatus", "-n", facts["proxy"]])
            )
            patterns = (
                rf"^{number} +{one['pid']} +\d+ +\d+ ms  ok$"
                for number, one in enumerate(facts["workers"])
            )
            return all(re.search(one, shown.stdout, re.MULTILINE) for one in patterns)

        await until(are_ok)
        port = int(facts["proxy"].rpartition(":")[2])
        given = (f"--upstream={cluster.name_server}", f"--host={LOOPBACK}", f"--port={port}")
        again = await trio.run_process(
            [*COMMAND, "--workers=2", *given, f"--data={tmp_path / 'other'}"],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert again.returncode == 1
        assert f"cannot listen on {LOOPBACK}:{port}" in again.stderr.decode()
    assert not [pid for pid in pids if await trio.Path(f"/proc/{pid}").exists()]
