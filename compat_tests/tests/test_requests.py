"""Requests and replies over several brokers, and through logical queues."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.compat import Cell, Outgoing, open_client
from lanemq.compat.logical._bench import Bench, servers
from lanemq.compat.logical._brokers import BrokersCluster, several_brokers
from lanemq.compat.servers._clusters import running
from lanemq.compat.servers._waiting import PATIENT_S
from lanemq.sdk.admin import open_admin
from lanemq.wire import RequestCode

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

CLIENTS: Final = ("java-4.9.7", "java-5.3.3", "python")
PAIRS: Final = [(asking, replying) for asking in CLIENTS for replying in CLIENTS]
REQUESTS: Final = 6
REPLY_S: Final = 50.0


@asynccontextmanager
async def cells(cluster: BrokersCluster, folder: Path) -> AsyncIterator[dict[str, Cell]]:
    async with (
        open_client(CLIENTS[0], folder / "0") as first,
        open_client(CLIENTS[1], folder / "1") as second,
        open_client(CLIENTS[2], folder / "2") as third,
    ):
        drivers = (first, second, third)
        yield {driver.client: Cell("requests", driver, cluster) for driver in drivers}


async def ask(asking: Cell, replying: Cell, topic: str) -> None:
    async with replying.replier(topic), asking.producer() as producer:
        for number in range(REQUESTS):
            body = f"request {number}".encode()
            reply = await producer.request(Outgoing(topic, body), timeout_s=REPLY_S)
            assert reply.body == body.upper()


@pytest.mark.parametrize("server", ["apache-4.9.7", "apache-5.3.3", "lanemq"])
async def test_replies_find_their_way_over_two_brokers(server: str, tmp_path: Path) -> None:
    """Also where the topic is at one of them, and the replier chooses the other for its reply."""
    described = await trio.to_thread.run_sync(partial(several_brokers, server, tmp_path))
    async with (
        running(described, graceful=False) as cluster,
        cells(described, tmp_path) as by_client,
        trio.open_nursery() as nursery,
    ):
        only_here = {
            "topic": "only-here",
            "defaultTopic": "TBW102",
            "topicFilterType": "SINGLE_TAG",
        }
        queues = {"readQueueNums": "2", "writeQueueNums": "2", "perm": "6", "topicSysFlag": "0"}
        await cluster.control.ask(
            described.addresses["broker1"],
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {**only_here, **queues, "order": "false"},
        )
        await cluster.control.until_routed("only-here")
        for asking, replying in PAIRS:
            topic = await by_client[asking].topic()
            nursery.start_soon(ask, by_client[asking], by_client[replying], topic)
        for client in CLIENTS:
            nursery.start_soon(ask, by_client[client], by_client[client], "only-here")


async def test_replies_find_their_way_through_logical_queues(tmp_path: Path) -> None:
    """One listener serves the older clients, so only one of three brokers knows who asks."""
    async with (
        servers(tmp_path, brokers=3, settings={"logicalQueueBrokers": "1"}) as cluster,
        cells(cluster, tmp_path) as by_client,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        for asking, replying in PAIRS:
            topic = await Bench(cluster, by_client[asking], admin).topic()
            nursery.start_soon(ask, by_client[asking], by_client[replying], topic)
