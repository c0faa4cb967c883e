"""Several brokers behind one name server, and what an operator does with logical queues there.

The requests are made by the Java client of 5.0.0-PREVIEW, the only other software that has them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from lanemq.wire import RequestCode, fastjson

from ..clients._driver import Driver
from ..peers._programs import java_libraries
from ..servers._apache import TEST_STORE, apache_broker, apache_name_server
from ..servers._clusters import (
    SHORT_DELAYS,
    TEST_SETTINGS,
    Cluster,
    lanemq_broker,
    lanemq_name_server,
)
from ..servers._daemon import Daemon
from ..servers._ports import free_port

PREVIEW = "5.0.0-PREVIEW"
LOGICAL_BROKER = "__logical_queue_broker__"

LOGICAL_PORTS = (10, 8)
"""The distance of the logical listener from its broker's own port, at lanemq."""

Segment = dict[str, Any]
"""One segment as the Java client writes it in JSON."""


class BrokersCluster(Cluster):
    """A name server and brokers ``broker1``, ``broker2`` and so on."""

    addresses: dict[str, str]
    """The addresses of each broker, by its name."""
    brokers: dict[str, Daemon]

    def add(self, name: str, make: Callable[[Path, int], Daemon]) -> None:
        """Describe one more broker, in a folder of its own; ``start`` starts it."""
        port = free_port(1, -2, *LOGICAL_PORTS)
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        self.brokers[name] = make(folder, port)
        self.addresses[name] = f"127.0.0.1:{port}"
        self.daemons.append(self.brokers[name])


def several_brokers(server: str, folder: Path, *, brokers: int = 2) -> BrokersCluster:
    """Describe a cluster of ``lanemq``, or of ``apache-<version>``. Blocks while it is fetched."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    version = server.removeprefix("apache-")
    home = folder / "namesrv"
    home.mkdir(parents=True, exist_ok=True)
    if server == "lanemq":
        name_server = lanemq_name_server(home, port=port)
    else:
        java_libraries(f"server-{version}")
        name_server = apache_name_server(version, home, port=port)
    cluster = BrokersCluster(server, address, folder, [name_server])
    cluster.addresses, cluster.brokers = {}, {}
    for number in range(1, brokers + 1):
        add_broker(cluster, f"broker{number}")
    return cluster


def add_broker(
    cluster: BrokersCluster, name: str, settings: Mapping[str, str] | None = None
) -> None:
    """Describe one more broker of the same make; ``settings`` are more keys of broker.conf."""

    def make(folder: Path, port: int) -> Daemon:
        name_server = cluster.name_server
        if cluster.name == "lanemq":
            # Older clients are asked for queues by logical index, which are those of one broker.
            chosen = {**TEST_SETTINGS, "logicalQueueBrokers": "1", **(settings or {})}
            return lanemq_broker(
                folder, port=port, name_server=name_server, name=name, settings=chosen
            )
        version = cluster.name.removeprefix("apache-")
        chosen = {**TEST_STORE, "messageDelayLevel": SHORT_DELAYS, **(settings or {})}
        store = folder / "store"
        return apache_broker(
            version,
            folder,
            port=port,
            name_server=name_server,
            name=name,
            store=store,
            settings=chosen,
        )

    cluster.add(name, make)


class Operator:
    """Makes and migrates logical queues through a Java driver that knows them."""

    def __init__(self, driver: Driver, cluster: BrokersCluster) -> None:
        self._driver, self._cluster = driver, cluster
        self._opened = False

    # What comes back is JSON.
    async def ask(self, command: str, broker: str, **arguments: object) -> Any:  # noqa: ANN401
        """Make one request to a broker, by its name."""
        if not self._opened:
            where = {"name_server": self._cluster.name_server}
            await self._driver.call("open_producer", name="operator", group="operator", **where)
            self._opened = True
        address = self._cluster.addresses[broker]
        return await self._driver.call(
            f"logical_{command}", producer="operator", broker=address, **arguments
        )

    async def make(self, topic: str, *, queues: int) -> None:
        """Create a topic and map its queues, broker by broker, to logical queues 0, 1 and so on."""
        await self._cluster.control.create_topic(topic, queues)
        for number, broker in enumerate(self._cluster.brokers):
            for queue_id in range(queues):
                index = number * queues + queue_id
                await self.ask("update", broker, topic=topic, queue_id=queue_id, index=index)
        wanted = {str(index) for index in range(queues * len(self._cluster.brokers))}
        with trio.fail_after(60):
            # Brokers tell the name server some time later; no request shows that they have.
            while await self._indices(topic) != wanted:  # noqa: ASYNC110
                await trio.sleep(0.05)

    async def _indices(self, topic: str) -> set[str]:
        name_server, code = self._cluster.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC
        fields = {"topic": topic, "sysFlag": "64"}
        answer = await self._cluster.control.ask(name_server, code, fields)
        route = fastjson.loads(answer.body)
        assert isinstance(route, dict)
        found = route.get("logicalQueuesInfo") or route.get("logicalQueuesInfoUnordered") or {}
        return set(found)

    async def chain(self, broker: str, topic: str, index: int) -> list[Segment]:
        """Return the segments of one logical queue as a broker knows them, all of them."""
        # The first answer that a JVM decodes may hold untyped values.
        await self.ask("query", broker, topic=topic)
        found = await self.ask("query", broker, topic=topic)
        return [] if found is None else list(found.get(str(index), []))

    async def migrate(self, topic: str, index: int, source: str, destination: str) -> Segment:
        """Move the writable end of a logical queue to a new queue, and return its segment."""
        chain = await self.chain(source, topic, index)
        before = next(segment for segment in chain if segment["state"] == "Normal")
        to_make = {"topic": topic, "index": index, "state": "WriteOnly"}
        after = await self.ask("create", destination, **to_make)
        prepared = await self.ask("prepare", source, source=before, destination=after)
        committed = await self.ask("commit", destination, **prepared)
        await self.ask("notify", source, **committed)
        return dict(committed["destination"])


def row(segment: Segment) -> tuple[str, int, int, int, str]:
    """Return broker/queue, delta, offset delta, offset max and state: a row of a chain's table."""
    queue = segment["messageQueue"]
    return (
        f"{queue['brokerName']}/{queue['queueId']}",
        segment["logicalQueueDelta"],
        segment["offsetDelta"],
        segment["offsetMax"],
        segment["state"],
    )
