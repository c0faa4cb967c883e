"""Keys of several proxies over the log of a real Apache broker."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from lanemq.compat import apache_cluster, running
from lanemq.compat.servers._apache import TEST_STORE
from lanemq.proxy.gateway.kv import UpstreamKeys, open_upstream_keys
from lanemq.sdk import open_remoting_client
from lanemq.testkit.proxy.keys_history import KeysHistory

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

NAMES = [b"a", b"b", b"c"]
KILLS = 3
PATIENT_S = 60.0


@asynccontextmanager
async def proxy(name_server: str, *, timeout_s: float = PATIENT_S) -> AsyncIterator[UpstreamKeys]:
    """Open the keys of one proxy."""
    async with (
        open_remoting_client() as client,
        open_upstream_keys(client, [name_server], namespace="test", timeout_s=timeout_s) as keys,
    ):
        yield keys


async def answered(history: KeysHistory, count: int) -> None:
    """Wait until so many more calls have been answered."""
    until = history.answered + count
    while history.answered < until:  # noqa: ASYNC110 - the clients have nobody to tell
        await trio.sleep(0.01)


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_proxies_over_an_apache_broker_that_is_killed_are_one_store(
    version: str, tmp_path: Path
) -> None:
    described = await trio.to_thread.run_sync(
        lambda: apache_cluster(version, tmp_path / "cluster", settings=TEST_STORE)
    )
    history = KeysHistory(NAMES)
    async with running(described, graceful=False) as cluster, AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(proxy(cluster.name_server)) for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for number in range(4):
                keys, rng = proxies[number % 2], random.Random(number)

                async def work(keys: UpstreamKeys, number: int, rng: random.Random) -> None:
                    await history.work(keys, number, rng, pause_mean_s=0.02)

                nursery.start_soon(work, keys, number, rng)
            for _ in range(KILLS):
                with trio.fail_after(120):
                    await answered(history, 40)
                await cluster.broker.kill()
                await cluster.broker.start()
            with trio.fail_after(120):
                await answered(history, 40)
            nursery.cancel_scope.cancel()
        async with proxy(cluster.name_server) as third:
            for name in NAMES:
                values = [await keys.read(name) for keys in (*proxies, third)]
                assert values[0] == values[1] == values[2] is not None
            # A proxy that has just started writes, too.
            assert await third.put(NAMES[0], b"by the third") is not None
    assert history.is_linearizable
