"""The SDK's key-value store: at Apache brokers, which have none, and beside a Java client."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from lanemq.compat import (
    Cell,
    Outgoing,
    apache_cluster,
    lanemq_cluster,
    open_client,
    running,
)
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk.kv import KvNotSupported, open_kv_store
from lanemq.storage.tools import verify_kv

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_an_apache_broker_is_named_as_one_that_keeps_no_keys(
    version: str, tmp_path: Path
) -> None:
    described = await trio.to_thread.run_sync(
        lambda: apache_cluster(version, tmp_path / "cluster", settings=TEST_STORE)
    )
    async with (
        running(described, graceful=False) as cluster,
        open_kv_store(name_servers=cluster.name_server, timeout_s=PATIENT_S) as store,
    ):
        with pytest.raises(KvNotSupported, match="keeps no keys and values"):
            await store.put(b"k", b"v")
        with pytest.raises(KvNotSupported):
            await store.get(b"k")


async def test_a_java_client_works_on_a_broker_whose_keys_are_written_all_the_time(
    tmp_path: Path,
) -> None:
    """And what its log makes of the keys afterwards is the state that was served."""
    count, versions = 200, 0
    described = lanemq_cluster(tmp_path / "cluster")
    async with (
        running(described) as cluster,
        open_client("java-4.9.7", tmp_path) as java,
        open_kv_store(name_servers=cluster.name_server, timeout_s=PATIENT_S) as store,
        trio.open_nursery() as nursery,
    ):

        async def put() -> None:
            nonlocal versions
            while True:
                versions = await store.put(b"k", b"%d" % versions)

        def written_since(known: int) -> Callable[[], Awaitable[bool]]:
            async def written() -> bool:
                return versions > known

            return written

        await store.create()
        cell = Cell("keys", java, cluster)
        topic = await cell.topic()
        nursery.start_soon(put)
        bodies = [b"message %d" % number for number in range(count)]
        async with cell.producer() as producer, cell.consumer(topic) as consumer:
            for number, body in enumerate(bodies):
                await producer.send(Outgoing(topic, body))
                if number % 10 == 0:
                    await until(written_since(versions))
            await consumer.receive(count)
            assert sorted(consumer.bodies) == sorted(bodies)
        nursery.cancel_scope.cancel()
    report = verify_kv(described.store)
    assert report.is_sound, report.findings
    (one,) = report.namespaces
    assert one.replayed_hash == one.hash
