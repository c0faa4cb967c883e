"""Protection that operators put in front of brokers: signatures that are checked, and TLS."""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from lanemq.compat import Cluster, apache_cluster, lanemq_cluster, running
from lanemq.compat.servers._apache import TEST_STORE, with_tls
from lanemq.compat.servers._clusters import TEST_SETTINGS
from lanemq.compat.servers._waiting import CALL_S, PATIENT_CLIENT, PATIENT_S
from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Credentials,
    LanemqError,
    LitePullOptions,
    Message,
    NoRoute,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import open_admin
from lanemq.wire.bodies import TopicConfig

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

CERTIFICATE = Path(__file__).parents[2] / "sdk" / "tests" / "tls" / "server.pem"
TOPIC, BODIES = "operations", [b"%d" % number for number in range(20)]
CHIEF = Credentials(access_key="lanemqchief", secret_key="chief1234")
CLERK = Credentials(access_key="lanemqclerk", secret_key="clerk1234")
ACCOUNTS = """globalWhiteRemoteAddresses: []
accounts:
  - accessKey: lanemqchief
    secretKey: chief1234
    admin: true
  - accessKey: lanemqclerk
    secretKey: clerk1234
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - operations=PUB|SUB
    groupPerms:
      - readers=SUB
      - listeners=SUB
"""


@asynccontextmanager
async def checking_cluster(server: str, folder: Path) -> AsyncIterator[Cluster]:
    """Apache 4.9.7 or lanemq that lets in who signs."""
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True)
    if server == "lanemq":
        own = {"aclEnable": "true", "rocketmqHome": str(conf.parent)}
        cluster = lanemq_cluster(folder, settings={**TEST_SETTINGS, **own})
    else:
        settings = {**TEST_STORE, "aclEnable": "true"}
        cluster = await trio.to_thread.run_sync(
            lambda: apache_cluster(server, folder, settings=settings)
        )
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    async with running(cluster, graceful=False):
        yield cluster


@asynccontextmanager
async def tls_cluster(version: str, folder: Path) -> AsyncIterator[Cluster]:
    """An Apache cluster whose broker takes no connection without TLS."""
    cluster = await trio.to_thread.run_sync(lambda: apache_cluster(version, folder))
    tls = folder / "tls.properties"
    tls.write_text(
        "tls.test.mode.enable=false\n"
        f"tls.server.certPath={CERTIFICATE}\n"
        f"tls.server.keyPath={CERTIFICATE.with_name('server.key')}\n"
        "tls.server.need.client.auth=none\n"
    )
    for daemon, mode in zip(cluster.daemons, ("permissive", "enforcing"), strict=True):
        daemon.command[:] = with_tls(daemon.command, tls, mode)
    async with running(cluster, graceful=False):
        yield cluster


async def round_trip(cluster: Cluster, client: ClientOptions) -> None:
    """Send, poll, listen and have a message again, all with ``client``."""
    address = cluster.name_server
    async with open_producer(
        "senders",
        name_servers=address,
        options=ProducerOptions(send_timeout_s=CALL_S, client=client),
    ) as producer:
        for body in BODIES[:10]:
            await producer.send(Message(topic=TOPIC, body=body))
        await producer.send_batch([Message(topic=TOPIC, body=body) for body in BODIES[10:]])

    polled: list[bytes] = []
    options = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=client)
    async with open_lite_pull_consumer(
        "readers", name_servers=address, options=options
    ) as consumer:
        await consumer.subscribe(TOPIC)
        with trio.fail_after(60):
            async for message in consumer:
                polled.append(message.body)
                if len(polled) == len(BODIES):
                    break
    assert sorted(polled) == sorted(BODIES)

    heard: list[tuple[bytes, int]] = []
    complete = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        (message,) = messages
        if message.body == b"7" and message.reconsume_times == 0:
            raise ValueError("not yet")
        heard.append((message.body, message.reconsume_times))
        if len(heard) == len(BODIES):
            complete.set()

    async with open_push_consumer(
        "listeners",
        name_servers=address,
        subscriptions={TOPIC: "*"},
        listener=ConcurrentListener(handle),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=client),
    ):
        with trio.fail_after(120):
            await complete.wait()
    assert sorted(body for body, _ in heard) == sorted(BODIES)
    assert (b"7", 1) in heard


async def create_topic(
    cluster: Cluster, *, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None
) -> None:
    async with open_admin(
        name_servers=cluster.name_server, timeout_s=PATIENT_S, credentials=credentials, tls=tls
    ) as admin:
        (address,) = await admin.masters("DefaultCluster")
        await admin.put_topic(address, TopicConfig(TOPIC, 4, 4))
        with trio.fail_after(60):
            while True:
                try:
                    await admin.route(TOPIC)
                except (NoRoute, RefusedByBroker):  # lanemq's broker answers before it registers
                    await trio.sleep(0.1)
                else:
                    return


@pytest.mark.parametrize("server", ["4.9.7", "lanemq"])
async def test_whoever_signs_with_the_right_key_is_let_in(tmp_path: Path, server: str) -> None:
    async with checking_cluster(server, tmp_path) as cluster:
        await create_topic(cluster, credentials=CHIEF)
        await round_trip(cluster, replace(PATIENT_CLIENT, credentials=CLERK))
        # The same, and the broker says no.
        wrong = Credentials(access_key="lanemqclerk", secret_key="not the key")
        for credentials, reason in ((None, "No accessKey"), (wrong, "[Ss]ignature")):
            client = replace(PATIENT_CLIENT, credentials=credentials)
            async with open_producer(
                "senders",
                name_servers=cluster.name_server,
                options=ProducerOptions(send_timeout_s=CALL_S, retries=0, client=client),
            ) as producer:
                with pytest.raises(RefusedByBroker, match=reason):
                    await producer.send(Message(topic=TOPIC, body=b"x"))
        async with open_admin(
            name_servers=cluster.name_server, timeout_s=PATIENT_S, credentials=CLERK
        ) as admin:
            (address,) = await admin.masters("DefaultCluster")
            with pytest.raises(RefusedByBroker, match="admin"):
                await admin.put_topic(address, TopicConfig("other", 4, 4))


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
async def test_brokers_that_insist_on_tls_get_it(tmp_path: Path, version: str) -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with tls_cluster(version, tmp_path) as cluster:
        await create_topic(cluster, tls=trusting)
        await round_trip(cluster, replace(PATIENT_CLIENT, tls=trusting))
        await round_trip(cluster, replace(PATIENT_CLIENT, tls=trusting, namespace="shop"))
        async with open_admin(
            name_servers=cluster.name_server, timeout_s=PATIENT_S, tls=trusting
        ) as admin:
            topics = set(await admin.topics())
        assert {f"shop%{TOPIC}", "%RETRY%shop%listeners"} <= topics
        options = ProducerOptions(retries=0)
        async with open_producer(
            "senders", name_servers=cluster.name_server, options=options
        ) as producer:
            with pytest.raises(LanemqError):
                await producer.send(Message(topic=TOPIC, body=b"in the clear"))
