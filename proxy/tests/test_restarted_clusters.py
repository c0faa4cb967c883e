"""Clusters that are restarted as a whole: their proxies find the log of orders, and begin no other.

Name servers know nothing then, as new ones, and list one master after another.
"""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest
import trio

from lanemq.proxy.gateway.order import LOG_PREFIX, NAMESPACE, TOPICS
from lanemq.testkit.simulation._determinism import determined_by, simulated_clock
from lanemq.testkit.simulation._proxy_cluster import ProxyCluster
from lanemq.testkit.simulation._proxy_process import ProxyProcess
from lanemq.testkit.simulation._proxy_sockets import sockets_of

LOG: Final = LOG_PREFIX + NAMESPACE
SETTLE_S: Final = 40
REGISTERS_S: Final = 30.0
"""Most seconds until another master is listed: brokers register so often."""
LATE_S: Final = 300.0
READY_S: Final = 120.0
KEY: Final = TOPICS + b"%RETRY%no order"
WRITTEN: Final = b"before"


async def until_ready(proxy: ProxyProcess, seconds: float = READY_S) -> None:
    with trio.fail_after(seconds):
        while proxy.running.routes.why_not_ready:  # noqa: ASYNC110 - others decide when
            await trio.sleep(0.1)


def logs_of(cluster: ProxyCluster) -> Mapping[str, int]:
    """Return the number of records of the log at each broker that has some."""
    found = dict[str, int]()
    for name, broker in cluster.brokers.items():
        if broker.is_up:
            least, end = broker.running.context.store.bounds(LOG, 0)
            found |= {name: end - least} if end > least else {}
    return found


async def _restart_all(cluster: ProxyCluster, has_data: tuple[bool, bool]) -> None:
    """Kill all programs, and start them again: the broker of the log at last, and where a proxy
    knows of the log, much later."""
    (of_log,) = logs_of(cluster)
    programs = [*cluster.proxies, *cluster.brokers.values(), *cluster.name_servers]
    for program in programs:
        await program.kill()
    for proxy, keeps in zip(cluster.proxies, has_data, strict=True):
        assert proxy.config.state_path is not None
        for file in proxy.config.state_path.parent.iterdir() if not keeps else ():
            file.unlink()
    for server in cluster.name_servers:
        await server.start()
    async with trio.open_nursery() as nursery:
        for proxy in cluster.proxies:
            nursery.start_soon(proxy.start)
        others = [name for name in cluster.brokers if name != of_log]
        for name in (*cluster.rng.sample(others, len(others)), of_log):
            is_late = name == of_log and any(has_data)
            await trio.sleep(LATE_S if is_late else cluster.rng.uniform(0, REGISTERS_S))
            await cluster.brokers[name].restart("kill")


async def _restarted(seed: int, directory: Path, has_data: tuple[bool, bool]) -> None:
    rng = Random(seed)
    async with trio.open_nursery() as nursery:
        cluster = ProxyCluster(rng, nursery, {}, directory)
        for proxy in cluster.proxies:
            proxy.config.settle_seconds = SETTLE_S
        with sockets_of(cluster.network):
            for program in (*cluster.name_servers, *cluster.brokers.values()):
                await program.start()
            async with trio.open_nursery() as starting:
                for proxy in cluster.proxies:
                    starting.start_soon(proxy.start)
            for proxy in cluster.proxies:
                await until_ready(proxy)
            orders = cluster.proxies[0].running.orders
            assert orders is not None
            await orders.keys.put(KEY, WRITTEN)
            await _restart_all(cluster, has_data)
            for proxy in cluster.proxies:
                await until_ready(proxy)
                assert proxy.running.orders is not None
                entry = proxy.running.orders.keys.get(KEY)
                assert entry is not None, f"seed {seed}: {logs_of(cluster)}"
                assert entry.value == WRITTEN
            assert len(logs_of(cluster)) == 1
            nursery.cancel_scope.cancel()


def restarted(seed: int, directory: Path, has_data: tuple[bool, bool]) -> None:
    with determined_by(seed):
        trio.run(_restarted, seed, directory, has_data, clock=simulated_clock())


def test_proxies_without_data_wait_for_all_masters_before_they_begin_a_log(tmp_path: Path) -> None:
    for seed in range(2):
        restarted(seed, tmp_path / str(seed), (False, False))


@pytest.mark.parametrize("has_data", [(True, True), (True, False), (False, True)])
def test_proxies_wait_for_the_log_that_one_of_them_knows(
    has_data: tuple[bool, bool], tmp_path: Path
) -> None:
    restarted(1, tmp_path, has_data)


async def _one_after_another(directory: Path) -> None:
    rng = Random(1)
    async with trio.open_nursery() as nursery:
        cluster = ProxyCluster(rng, nursery, {}, directory)
        with sockets_of(cluster.network):
            for program in (*cluster.name_servers, *cluster.brokers.values()):
                await program.start()
            for proxy in cluster.proxies:
                proxy.config.settle_seconds = SETTLE_S
                assert proxy.config.other_proxies
                await proxy.start()
                await until_ready(proxy)
            assert len(logs_of(cluster)) == 1
            nursery.cancel_scope.cancel()


def test_a_first_proxy_begins_the_log_while_its_peer_is_not_there(tmp_path: Path) -> None:
    with determined_by(1):
        trio.run(_one_after_another, tmp_path, clock=simulated_clock())
