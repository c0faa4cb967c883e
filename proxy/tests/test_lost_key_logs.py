"""Keys at a proxy whose cluster has lost their log: they are refused, and the way on leads on."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from lanemq.proxy.gateway import RunningGateway, open_gateway
from lanemq.proxy.gateway.kv import KEY_LOGS, LOGS, PREFIX
from lanemq.sdk import LanemqError
from lanemq.sdk.admin import open_admin
from lanemq.sdk.kv import KeyValueStore, NoNamespace, open_kv_store
from lanemq.testkit.proxy.gateways import PATIENT_S, Cluster, clustered, until, until_seen
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.kv import DEFAULT_NAMESPACE

NAMES = [b"%d" % number for number in range(8)]
"""Some in each partition."""


@asynccontextmanager
async def proxied(cluster: Cluster, data: Path) -> AsyncIterator[RunningGateway]:
    config = cluster.config(keys=True, state_path=data / "brokers.json")
    async with open_gateway(config) as running:
        yield running


@asynccontextmanager
async def store_at(
    proxy: RunningGateway, namespace: str = "jobs", *, timeout_s: float = PATIENT_S
) -> AsyncIterator[KeyValueStore]:
    address = str(proxy.address)
    async with open_kv_store(
        name_servers=address, namespace=namespace, timeout_s=timeout_s
    ) as store:
        yield store


async def begin(proxy: RunningGateway, data: Path) -> None:
    """Put keys into two namespaces, of one partition and of two."""
    await until_seen(proxy, "broker-a")
    async with store_at(proxy) as store:
        await store.create(2, ["broker-a"])
        for name in NAMES:
            await store.put(name, b"1")
    async with store_at(proxy, DEFAULT_NAMESPACE) as store:
        await store.put(NAMES[0], b"1")
    await until(lambda: len(list((data / KEY_LOGS).iterdir())) == 2)


async def check_refused(proxy: RunningGateway, namespace: str, names: list[bytes]) -> None:
    """Check that no key is told to be missing, and that nothing is written."""
    async with store_at(proxy, namespace, timeout_s=1.0) as store:
        for name in names:
            with pytest.raises(LanemqError) as read:
                await store.get(name)
            with pytest.raises(LanemqError) as written:
                await store.compare_and_set(name, b"mine", version=0)
            for found in (read.value, written.value):
                assert not isinstance(found, NoNamespace)
                assert "nothing is served by a log that may not have all keys" in str(found)


async def until_status(proxy: RunningGateway, problem: str, *, logs: int = 1) -> None:
    """Wait until the status says so of logs of jobs."""
    address = str(proxy.address)
    async with open_admin(name_servers=address, timeout_s=PATIENT_S) as tool:
        with trio.fail_after(PATIENT_S):
            while True:
                keys = (await tool.proxy_status(address)).keys
                if sum(problem in one.problem for one in keys if one.namespace == "jobs") >= logs:
                    return
                await trio.sleep(0.05)


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_log_that_was_deleted_while_the_proxy_was_down_is_missed_until_its_file_is_removed(
    tmp_path: Path, is_made_again: bool
) -> None:
    data, topics = tmp_path / "data", [PREFIX + "jobs", PREFIX + DEFAULT_NAMESPACE]
    async with (
        clustered(tmp_path) as cluster,
        cluster.open_broker() as broker,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        async with proxied(cluster, data) as proxy:
            await begin(proxy, data)
        for topic in topics:
            await admin.delete_topic(str(broker.address), topic)
            await admin.delete_route(topic)
        if is_made_again:  # by a proxy that knows nothing
            async with proxied(cluster, tmp_path / "other") as other, store_at(other) as store:
                await until_seen(other, "broker-a")
                await store.create(2, ["broker-a"])
                await store.put(NAMES[0], b"other")
        async with proxied(cluster, data) as proxy:
            await until_status(proxy, f"remove {KEY_LOGS}/{PREFIX}jobs.json", logs=2)
            await check_refused(proxy, "jobs", NAMES[:2])
            await check_refused(proxy, DEFAULT_NAMESPACE, NAMES[:1])
            async with open_admin(name_servers=str(proxy.address), timeout_s=PATIENT_S) as tool:
                status = await tool.proxy_status(str(proxy.address))
            assert all("stop all proxies" in log.problem for log in status.keys)
            assert {log.namespace for log in status.keys} == {"jobs", DEFAULT_NAMESPACE}
        # The way on, as the text says it.
        for topic in topics:
            await admin.delete_value(LOGS, topic)
            (data / KEY_LOGS / f"{topic}.json").unlink()
        async with proxied(cluster, data) as proxy, store_at(proxy) as store:
            await until_seen(proxy, "broker-a")
            if not is_made_again:
                await store.create(2, ["broker-a"])
            entry = await store.get(NAMES[0])
            assert (entry and entry.value) == (b"other" if is_made_again else None)
            assert (await store.compare_and_set(NAMES[1], b"2", version=0)).done


async def test_a_broker_that_has_lost_its_store_while_the_proxy_runs_serves_no_empty_keys(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    async with clustered(tmp_path) as cluster, proxied(cluster, data) as proxy:
        async with cluster.open_broker():
            await begin(proxy, data)
        shutil.rmtree(tmp_path / "broker-a")
        async with cluster.open_broker() as broker:
            async with store_at(proxy, timeout_s=1.0) as store:
                with pytest.raises(LanemqError) as caught:
                    await store.compare_and_set(NAMES[0], b"mine", version=0)
                assert not isinstance(caught.value, NoNamespace)
            async with open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin:
                config = TopicConfig(PREFIX + "jobs", read_queue_nums=2, write_queue_nums=2)
                await admin.put_topic(str(broker.address), config)
                await until_status(proxy, "without records")
            await check_refused(proxy, "jobs", NAMES[:1])
