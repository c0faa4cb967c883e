"""`lanemq serve --brokers N`: several processes, one set of logical queues."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import ResponseCode
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "lanemq.proxy.cli", "serve", "--port", "0", "--json"]
Fleet = tuple[subprocess.Popen[str], dict[str, Any]]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A name server and two brokers, ended by SIGTERM."""
    command = [*COMMAND, "--brokers", "2", "--data", str(tmp_path / "data")]
    with (
        (tmp_path / "stderr").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (tmp_path / "stderr").read_text()
        yield process, json.loads(line)
        process.terminate()
        assert process.wait(30) == 0, (tmp_path / "stderr").read_text()


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

    async with open_producer("p", name_servers=facts["namesrv"]) as producer:
        await producer.send(Message(topic="fresh", body=b"first"))
        async with open_admin(name_servers=facts["namesrv"]) as admin:
            with trio.fail_after(30):
                while await shown(admin, "fresh") != 8:  # noqa: ASYNC110 - nobody is told
                    await trio.sleep(0.1)  # topics are looked for twice a second
    async with open_producer("p", name_servers=facts["namesrv"]) as producer:
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
        listener=ConcurrentListener(note),  # type: ignore[arg-type]
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
    ):
        with trio.fail_after(30):
            await got_all.wait()


async def shown(admin: AdminClient, topic: str) -> int:
    """How many logical queues clients are shown; none of a topic that was made a moment ago."""
    try:
        return len(await admin.routed_logical_queues(topic) or ())
    except RefusedByBroker as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return 0


async def until_replaced(name_server: str, address: str) -> None:
    """Return when both brokers are registered again, the one at ``address`` at a new port."""
    async with open_admin(name_servers=name_server) as admin:
        with trio.fail_after(30):
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
    process.wait(30)
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_a_listener_s_port_cannot_be_shared(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("logicalListenPort=12345\n")
    command = [*COMMAND, "--brokers", "2", "-c", str(conf), "--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "logicalListenPort is 12345, which 2 brokers cannot share" in done.stderr
