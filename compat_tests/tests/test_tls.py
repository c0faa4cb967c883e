"""Java clients that speak TLS with lanemq's servers, and those that are not let in."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.compat import (
    Cell,
    Cluster,
    CommandRefused,
    Daemon,
    Outgoing,
    apache_broker,
    apache_cluster,
    apache_name_server,
    free_port,
    lanemq_broker,
    lanemq_cluster,
    lanemq_name_server,
    open_client,
)
from lanemq.compat import running as running_cluster
from lanemq.compat.clients._driver import Driver
from lanemq.compat.servers._apache import with_tls
from lanemq.compat.servers._clusters import TEST_SETTINGS
from lanemq.compat.servers._control import Control
from lanemq.compat.servers._proxy import behind_proxy
from lanemq.compat.servers._waiting import CALL_S, PATIENT_CLIENT, PATIENT_S, until
from lanemq.sdk import (
    ConsumeFrom,
    LitePullOptions,
    Message,
    ProducerOptions,
    open_lite_pull_consumer,
    open_producer,
)
from lanemq.sdk.admin import open_admin
from lanemq.testkit.proxy.brokers import send_header
from lanemq.testkit.proxy.certificates import Authority, Pair
from lanemq.wire import RequestCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import encode_frame, request

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

VERSIONS: Final = ("4.9.7", "5.3.3")
COUNT: Final = 20


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def cluster_with_tls(
    authority: Authority, folder: Path, mode: str, *, certificates: bool = False
) -> AsyncIterator[Cluster]:
    """lanemq with TLS, which with ``certificates`` lets in nobody who has none."""
    own = authority.issue()
    tls = folder / "tls.properties"
    tls.write_text(
        f"tls.server.certPath={own.certificate}\n"
        f"tls.server.keyPath={own.key}\n"
        f"tls.client.trustCertPath={authority.path}\n"
        f"tls.client.certPath={own.certificate}\n"
        f"tls.client.keyPath={own.key}\n"
        f"tls.server.need.client.auth={'require' if certificates else 'none'}\n"
        f"tls.server.trustCertPath={authority.path}\n"
    )
    settings = {**TEST_SETTINGS, "tls.server.mode": mode, "tls.config.file": str(tls)}
    described = lanemq_cluster(folder, settings=settings, tls=authority.trusted(own))
    async with running_cluster(described, logs=Path("compat-logs")) as cluster:
        yield cluster


def java_options(folder: Path, trusted: Path, pair: Pair | None = None) -> Sequence[str]:
    """The options of a Java client that checks its servers, and may have a certificate."""
    folder.mkdir(exist_ok=True)
    client = folder / "client.properties"
    lines = [
        "tls.test.mode.enable=false",
        "tls.client.authServer=true",
        f"tls.client.trustCertPath={trusted}",
    ]
    if pair is not None:
        lines += [f"tls.client.certPath={pair.certificate}", f"tls.client.keyPath={pair.key}"]
    client.write_text("".join(f"{line}\n" for line in lines))
    return ("-Dtls.enable=true", f"-Dtls.config.file={client}")


def secure_client(
    version: str, folder: Path, trusted: Path, pair: Pair | None = None
) -> AbstractAsyncContextManager[Driver]:
    """A Java client that speaks TLS; as ``java_options``."""
    options = java_options(folder, trusted, pair)
    return open_client(f"java-{version}", folder, java_options=options)


async def exchange(sending: Cell, receiving: Cell) -> None:
    """Messages of every size from one client to the other."""
    topic = await sending.topic()
    bodies = [b"%d " % number + bytes(number * 5000) for number in range(COUNT)]
    async with sending.producer() as producer, receiving.consumer(topic) as consumer:
        for body in bodies:
            await producer.send(Outgoing(topic, body))
        await consumer.receive(COUNT)
        assert sorted(consumer.bodies) == sorted(bodies)


async def exchange_with_sdk(cluster: Cluster, java: Cell, context: ssl.SSLContext) -> None:
    """Messages of the SDK to a Java client, and back."""
    topic, client = await java.topic(), replace(PATIENT_CLIENT, tls=context)
    async with (
        open_producer(
            "senders",
            name_servers=cluster.name_server,
            options=ProducerOptions(send_timeout_s=CALL_S, client=client),
        ) as producer,
        java.consumer(topic) as consumer,
    ):
        for number in range(COUNT):
            await producer.send(Message(topic=topic, body=b"%d" % number))
        await consumer.receive(COUNT)
    options = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=client)
    back, got = await java.topic(), set()
    async with (
        java.producer() as producer,
        open_lite_pull_consumer(
            "readers", name_servers=cluster.name_server, options=options
        ) as reader,
    ):
        await producer.send(Outgoing(back, b"back"))
        await reader.subscribe(back)
        async for message in reader:
            got.add(message.body)
            break
    assert got == {b"back"}


async def is_refused(cell: Cell, topic: str) -> str:
    """The error of a client that cannot send."""
    async with cell.producer() as producer:
        with pytest.raises(CommandRefused) as caught:
            await producer.send(Outgoing(topic, b"in the clear"))
    return str(caught.value)


async def until_logged(cluster: Cluster, text: str) -> None:
    """Wait for a line of the broker's log: its peer may notice the end of a connection first."""

    async def logged() -> bool:
        return text in cluster.broker.log.read_text()

    await until(logged)


async def until_closed(stream: trio.SocketStream) -> None:
    """Wait until the server has closed a connection, without an answer."""
    with suppress(trio.BrokenResourceError):  # it had not read everything
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("version", VERSIONS)
async def test_java_clients_speak_tls_beside_plain_ones(
    version: str, authority: Authority, tmp_path: Path
) -> None:
    async with (
        cluster_with_tls(authority, tmp_path, "permissive") as cluster,
        secure_client(version, tmp_path / "tls", authority.path) as secure,
        open_client(f"java-{version}", tmp_path / "plain") as plain,
    ):
        over_tls, in_the_clear = Cell("tls", secure, cluster), Cell("plain", plain, cluster)
        await exchange(over_tls, in_the_clear)
        await exchange(in_the_clear, over_tls)
        await exchange_with_sdk(cluster, over_tls, authority.trusted())


@pytest.mark.parametrize("version", VERSIONS)
async def test_enforcing_servers_take_java_clients_with_tls_alone(
    version: str, authority: Authority, tmp_path: Path
) -> None:
    strangers = Authority(tmp_path, "strangers")
    async with (
        cluster_with_tls(authority, tmp_path, "enforcing") as cluster,
        secure_client(version, tmp_path / "tls", authority.path) as secure,
        open_client(f"java-{version}", tmp_path / "plain") as plain,
        secure_client(version, tmp_path / "wrong", strangers.path) as wrong,
    ):
        over_tls = Cell("tls", secure, cluster)
        await exchange(over_tls, over_tls)
        await exchange_with_sdk(cluster, over_tls, authority.trusted())
        topic = await over_tls.topic()
        await is_refused(Cell("plain", plain, cluster), topic)
        await is_refused(Cell("wrong", wrong, cluster), topic)
        await until_logged(cluster, "speaks no TLS, which this port insists on")
        await until_logged(
            cluster, "no TLS handshake: the peer refuses this server's certificate: "
        )


@pytest.mark.parametrize("version", VERSIONS)
async def test_java_clients_show_certificates_where_servers_insist(
    version: str, authority: Authority, tmp_path: Path
) -> None:
    known = authority.issue("client")
    async with (
        cluster_with_tls(authority, tmp_path, "enforcing", certificates=True) as cluster,
        secure_client(version, tmp_path / "known", authority.path, known) as secure,
        secure_client(version, tmp_path / "unknown", authority.path) as unknown,
    ):
        over_tls = Cell("tls", secure, cluster)
        await exchange(over_tls, over_tls)
        await exchange_with_sdk(cluster, over_tls, authority.trusted(known))
        await is_refused(Cell("unknown", unknown, cluster), await over_tls.topic())
        await until_logged(cluster, "the peer has no certificate")


# Beside Apache's servers


def settings_file(authority: Authority, folder: Path) -> Path:
    """One tls.properties for servers of both makers: TLS with servers of ``authority`` alone."""
    own, tls = authority.issue(), folder / "tls.properties"
    tls.write_text(
        "tls.test.mode.enable=false\n"
        f"tls.server.certPath={own.certificate}\n"
        f"tls.server.keyPath={own.key}\n"
        "tls.server.need.client.auth=none\n"
        "tls.client.authServer=true\n"
        f"tls.client.trustCertPath={authority.path}\n"
    )
    return tls


def enforcing(daemon: Daemon, tls: Path, ready: Callable[[], Awaitable[bool]]) -> Daemon:
    """The same server, enforcing TLS."""
    command = list(daemon.command)
    if command[0] == "java":
        command = with_tls(command, tls, "enforcing")
    else:
        command += ["--tls-config", str(tls)]
    return Daemon(daemon.title, command, folder=daemon.folder, ready=ready)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name_server_is_ours", [True, False])
async def test_name_servers_and_brokers_of_both_makers_meet_over_tls(
    name_server_is_ours: bool, version: str, authority: Authority, tmp_path: Path
) -> None:
    """With one file of settings; neither takes a plain connection."""
    tls = settings_file(authority, tmp_path)
    name_server_port, port = free_port(), free_port(1, -2)
    address = f"127.0.0.1:{name_server_port}"
    if name_server_is_ours:
        tls.write_text(tls.read_text() + "tls.server.mode=enforcing\n")  # Apache's passes over it
        first = lanemq_name_server(tmp_path, port=name_server_port)
        store = tmp_path / "store"
        second = apache_broker(version, tmp_path, port=port, name_server=address, store=store)
    else:
        first = apache_name_server(version, tmp_path, port=name_server_port)
        settings = {**TEST_SETTINGS, "tls.server.mode": "enforcing"}
        second = lanemq_broker(tmp_path, port=port, name_server=address, settings=settings)
    control = Control(address, tls=authority.trusted())

    async def is_routed() -> bool:
        return await control.serves("TBW102", f"127.0.0.1:{port}")

    daemons = [enforcing(first, tls, control.answers), enforcing(second, tls, is_routed)]
    described = Cluster("mixed", address, tmp_path, daemons, made_control=control)
    async with (
        running_cluster(described, logs=Path("compat-logs"), graceful=False) as cluster,
        secure_client(version, tmp_path / "tls", authority.path) as secure,
    ):
        over_tls = Cell("tls", secure, cluster)
        await exchange(over_tls, over_tls)
        await exchange_with_sdk(cluster, over_tls, authority.trusted())


@pytest.mark.parametrize(("server", "done"), [("lanemq", 0), ("4.9.7", 3), ("5.3.3", 3)])
async def test_a_plain_request_to_an_enforcing_broker(
    server: str, done: int, authority: Authority, tmp_path: Path
) -> None:
    """Both close its connection; Apache's have done by then what it asks for."""
    if server == "lanemq":
        tls = settings_file(authority, tmp_path)
        settings = {**TEST_SETTINGS, "tls.config.file": str(tls), "tls.server.mode": "enforcing"}
        described = lanemq_cluster(tmp_path, settings=settings, tls=authority.trusted())
    else:
        described = await trio.to_thread.run_sync(apache_cluster, server, tmp_path)
        tls = settings_file(authority, tmp_path)
        for daemon, mode in zip(described.daemons, ("permissive", "enforcing"), strict=True):
            daemon.command[:] = with_tls(daemon.command, tls, mode)
        described.made_control = Control(described.name_server, tls=authority.trusted())
    async with (
        running_cluster(described, logs=Path("compat-logs"), graceful=False) as cluster,
        open_admin(
            name_servers=cluster.name_server, timeout_s=PATIENT_S, tls=authority.trusted()
        ) as admin,
    ):
        await cluster.control.create_topic("T", 1)
        (broker,) = await admin.masters("DefaultCluster")
        host, _, port = broker.rpartition(":")
        asked = request(RequestCode.SEND_MESSAGE, send_header("T").to_fields(), b"in the clear")
        for _ in range(3):
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(encode_frame(asked))
                await until_closed(stream)
        (name,) = {data.broker_name for data in (await admin.route("T")).broker_datas}
        end = MessageQueue("T", name, 0)
        with trio.move_on_after(60):  # Apache's do it beside the closing
            while await admin.max_offset(broker, end) < done:  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert await admin.max_offset(broker, end) == done


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_proxy_speaks_tls_with_clients_and_with_apache_s_servers(
    version: str, authority: Authority, tmp_path: Path
) -> None:
    """Neither the proxy nor the broker behind it takes a plain connection."""
    described = await trio.to_thread.run_sync(apache_cluster, version, tmp_path)
    tls = settings_file(authority, tmp_path)
    for daemon, mode in zip(described.daemons, ("permissive", "enforcing"), strict=True):
        daemon.command[:] = with_tls(daemon.command, tls, mode)
    described.made_control = Control(described.name_server, tls=authority.trusted())
    of_proxy = tmp_path / "proxy.properties"
    of_proxy.write_text(tls.read_text() + "tls.server.mode=enforcing\n")
    async with (
        running_cluster(described, logs=Path("compat-logs"), graceful=False) as cluster,
        behind_proxy(cluster, tls_config=of_proxy, tls=authority.trusted()) as proxied,
        secure_client(version, tmp_path / "tls", authority.path) as secure,
        open_client(f"java-{version}", tmp_path / "plain") as plain,
    ):
        over_tls = Cell("tls", secure, proxied)
        await exchange(over_tls, over_tls)
        await exchange_with_sdk(proxied, over_tls, authority.trusted())
        await is_refused(Cell("plain", plain, proxied), await over_tls.topic())
