"""`lanemq serve --brokers N`: several processes, one set of logical queues."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.proxy.cli._fleet_topics import LOOK_S
from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Credentials,
    Message,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "lanemq.proxy.cli", "serve", "--port", "0", "--json"]
Fleet = tuple[subprocess.Popen[str], dict[str, Any]]
PATIENCE_S = 300.0
"""Far more than anything here takes: the machine may be busy."""
REQUEST_S = 60.0
"""As long for a single request."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A name server and two brokers, ended by SIGTERM."""
    with started(tmp_path) as fleet:
        yield fleet


@contextmanager
def started(tmp_path: Path, *options: str) -> Iterator[Fleet]:
    """Run a name server and two brokers, ended by SIGTERM."""
    command = [*COMMAND, "--brokers", "2", "--data", str(tmp_path / "data"), *options]
    with (
        (tmp_path / "stderr").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (tmp_path / "stderr").read_text()
        yield process, json.loads(line)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "stderr").read_text()


async def test_all_brokers_are_one_set_of_queues_and_one_that_dies_comes_back(
    fleet: Fleet,
) -> None:
    _, facts = fleet
    assert len(facts["brokers"]) == 2
    seen: set[bytes] = set()
    got_all = trio.Event()

    async def note(messages: list[ReceivedMessage]) -> None:
        seen.update(message.body for message in messages)
        if len(seen) == 16:
            got_all.set()

    async with open_producer(
        "p", name_servers=facts["namesrv"], send_timeout_s=REQUEST_S
    ) as producer:
        await producer.send(Message(topic="fresh", body=b"first"))
        async with open_admin(name_servers=facts["namesrv"], timeout_s=REQUEST_S) as admin:
            with trio.fail_after(PATIENCE_S):
                while await shown(admin, "fresh") != 8:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.1)  # topics are looked for twice a second
    async with open_producer(
        "p", name_servers=facts["namesrv"], send_timeout_s=REQUEST_S
    ) as producer:
        queues = await producer.publish_queues("fresh")
        assert [queue.queue_id for queue in sorted(queues)] == list(range(8))
        assert {queue.broker_name for queue in queues} == {LOGICAL_QUEUE_BROKER}
        for number, queue in enumerate((*queues, *queues)):
            await producer.send(Message(topic="fresh", body=b"%d" % number), queue=queue)
            if number == 7:
                os.kill(facts["brokers"][0]["pid"], signal.SIGKILL)
                await until_replaced(facts["namesrv"], facts["brokers"][0]["broker"])
    async with open_push_consumer(
        "g",
        name_servers=facts["namesrv"],
        subscriptions={"fresh": "*"},
        listener=ConcurrentListener(note),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
    ):
        with trio.fail_after(PATIENCE_S):
            await got_all.wait()


async def shown(admin: AdminClient, topic: str) -> int:
    """The number of logical queues clients are shown; none of a topic made a moment ago."""
    try:
        return len(await admin.routed_logical_queues(topic) or ())
    except RefusedByBroker as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return 0


async def until_replaced(name_server: str, address: str) -> None:
    """Return when both brokers are registered again, the one at ``address`` at a new port."""
    async with open_admin(name_servers=name_server, timeout_s=REQUEST_S) as admin:
        with trio.fail_after(PATIENCE_S):
            while True:
                info = await admin.cluster()
                addresses = [data.broker_addrs[0] for data in info.broker_addr_table.values()]
                if len(addresses) == 2 and address not in addresses:
                    return
                await trio.sleep(0.1)


def test_brokers_end_with_the_process_that_started_them(fleet: Fleet) -> None:
    process, facts = fleet
    started = [broker["pid"] for broker in facts["brokers"]]
    assert all(Path(f"/proc/{pid}").exists() for pid in started)
    process.terminate()
    process.wait(PATIENCE_S)
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_a_listener_s_port_cannot_be_shared(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("logicalListenPort=12345\n")
    command = [*COMMAND, "--brokers", "2", "-c", str(conf), "--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert "logicalListenPort is 12345, which 2 brokers cannot share" in done.stderr


@contextmanager
def running(folder: Path, brokers: int) -> Iterator[dict[str, Any]]:
    command = [*COMMAND, "--brokers", str(brokers), "--data", str(folder / "data")]
    with (
        (folder / "stderr").open("a") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "stderr").read_text()
        try:
            yield json.loads(line)
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, (folder / "stderr").read_text()


async def test_a_fleet_that_grows_has_as_many_logical_queues_as_before(tmp_path: Path) -> None:
    with running(tmp_path, 2) as facts:
        async with (
            open_admin(name_servers=facts["namesrv"], timeout_s=REQUEST_S) as admin,
            open_producer("p", name_servers=facts["namesrv"], send_timeout_s=REQUEST_S) as producer,
        ):
            await producer.send(Message(topic="fresh", body=b"first"))
            with trio.fail_after(PATIENCE_S):
                while await shown(admin, "fresh") != 8:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.1)
    with running(tmp_path, 3) as facts:
        async with open_admin(name_servers=facts["namesrv"], timeout_s=REQUEST_S) as admin:
            with trio.fail_after(PATIENCE_S):
                while len(await ends(admin, "fresh")) != 3:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.1)
            assert await shown(admin, "fresh") == 8


async def ends(admin: AdminClient, topic: str) -> set[str]:
    """The brokers that logical queues of a topic end on."""
    if not await shown(admin, topic):
        return set()
    queues = await admin.routed_logical_queues(topic)
    assert queues is not None
    found = (chain.writable for chain in queues.values())
    return {end.broker_name for end in found if end is not None}


async def test_a_topic_that_is_deleted_does_not_come_back(fleet: Fleet) -> None:
    _, facts = fleet
    async with open_admin(name_servers=facts["namesrv"], timeout_s=REQUEST_S) as admin:
        names = [f"short-{number}" for number in range(20)]
        addresses = [broker["broker"] for broker in facts["brokers"]]
        for name in names:
            await admin.put_topic(addresses[0], TopicConfig(name, 2, 2))
        with trio.fail_after(PATIENCE_S):
            for name in names:
                while await shown(admin, name) != 4:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.05)
        for name in names:
            for address in addresses:
                await admin.delete_topic(address, name)
                await trio.sleep(0.1)  # as an operator's tool that is slow: the keeper looks
        await trio.sleep(2 * LOOK_S)
        for address in addresses:
            assert not set(names) & set((await admin.topic_configs(address)).topic_config_table)


async def test_brokers_with_accounts_are_one_set_of_queues(tmp_path: Path) -> None:
    accounts = tmp_path / "conf" / "plain_acl.yml"
    accounts.parent.mkdir()
    accounts.write_text(
        "accounts:\n"
        "  - {accessKey: operator, secretKey: of-operator, admin: true}\n"
        "  - {accessKey: service, secretKey: of-service, topicPerms: [fresh=PUB]}\n"
    )
    inner = '{"accessKey":"operator","secretKey":"of-operator"}'
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"aclEnable=true\nrocketmqHome={tmp_path}\n"
        f"innerClientAuthenticationCredentials={inner}\nautoCreateTopicEnable=false\n"
    )
    operator = Credentials(access_key="operator", secret_key="of-operator")
    service = Credentials(access_key="service", secret_key="of-service")
    with started(tmp_path, "-c", str(conf)) as (_, facts):
        async with open_admin(
            name_servers=facts["namesrv"], credentials=operator, timeout_s=REQUEST_S
        ) as admin:
            for address in await admin.masters("DefaultCluster"):
                await admin.put_topic(address, TopicConfig("fresh", 4, 4))
            with trio.fail_after(PATIENCE_S):
                while await shown(admin, "fresh") != 8:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.1)
        async with open_producer(
            "p",
            name_servers=facts["namesrv"],
            credentials=service,
            send_timeout_s=REQUEST_S,
        ) as producer:
            for queue in await producer.publish_queues("fresh"):
                await producer.send(Message(topic="fresh", body=b"x"), queue=queue)
        async with open_producer(
            "p", name_servers=facts["namesrv"], retries=0, send_timeout_s=REQUEST_S
        ) as producer:
            with pytest.raises(RefusedByBroker, match="No accessKey is configured"):
                await producer.send(Message(topic="fresh", body=b"x"))
    assert "'operator'" not in (tmp_path / "stderr").read_text(), "brokers let each other in"
