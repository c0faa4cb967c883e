"""Name servers and brokers of different makers work together."""

from pathlib import Path

import pytest

from lanemq.compat import (
    APACHE_VERSIONS,
    Cell,
    Cluster,
    Outgoing,
    apache_broker,
    apache_name_server,
    free_port,
    lanemq_broker,
    lanemq_name_server,
    open_client,
    running,
)
from lanemq.compat.servers._waiting import until

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]


async def a_java_client_gets_its_messages_back(cluster: Cluster, folder: Path) -> None:
    async with (
        running(cluster, logs=Path("compat-logs"), graceful=False),
        open_client("java-4.9.7", folder) as driver,
    ):
        cell = Cell("interop", driver, cluster)
        topic = await cell.topic()
        async with cell.consumer(topic) as consumer, cell.producer() as producer:
            bodies = [b"message %d" % number for number in range(20)]
            for body in bodies:
                await producer.send(Outgoing(topic, body))
            await consumer.receive(len(bodies))
            assert sorted(consumer.bodies) == sorted(bodies)


@pytest.mark.parametrize("version", APACHE_VERSIONS)
async def test_a_lanemq_broker_registers_at_an_apache_name_server(
    version: str, tmp_path: Path
) -> None:
    name_server_port, port = free_port(), free_port(1, -2)
    address = f"127.0.0.1:{name_server_port}"
    daemons = [
        apache_name_server(version, tmp_path, port=name_server_port),
        lanemq_broker(tmp_path, port=port, name_server=address),
    ]
    cluster = Cluster("lanemq-broker", address, tmp_path, daemons)
    await a_java_client_gets_its_messages_back(cluster, tmp_path)


@pytest.mark.parametrize("version", APACHE_VERSIONS)
async def test_an_apache_broker_registers_at_a_lanemq_name_server(
    version: str, tmp_path: Path
) -> None:
    name_server_port, port = free_port(), free_port(1, -2)
    address = f"127.0.0.1:{name_server_port}"
    daemons = [
        lanemq_name_server(tmp_path, port=name_server_port),
        apache_broker(version, tmp_path, port=port, name_server=address, store=tmp_path / "store"),
    ]
    cluster = Cluster("apache-broker", address, tmp_path, daemons)
    await a_java_client_gets_its_messages_back(cluster, tmp_path)


async def test_a_stopping_lanemq_broker_leaves_the_name_server(tmp_path: Path) -> None:
    name_server_port, port = free_port(), free_port(1, -2)
    address = f"127.0.0.1:{name_server_port}"
    name_server = apache_name_server("4.9.7", tmp_path, port=name_server_port)
    broker = lanemq_broker(tmp_path, port=port, name_server=address)
    async with running(Cluster("leaving", address, tmp_path, [name_server, broker])) as cluster:
        assert await cluster.control.masters() == [f"127.0.0.1:{port}"]
        assert await broker.stop() == 0

        async def gone() -> bool:
            return await cluster.control.masters() == []

        await until(gone)
