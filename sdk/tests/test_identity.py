"""No two clients share an id or a message id, whatever they share otherwise."""

import os
import re
import subprocess
import sys
from textwrap import dedent

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import ConcurrentListener, Message, ProducerOptions
from lanemq.sdk.net import _client
from lanemq.sdk.net._identity import new_client_id, new_unique_keys
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire.message import unique_key_time_ms

IP = bytes((10, 0, 0, 1))
FORKED = """
    import asyncio, itertools, os, sys
    import trio
    import lanemq.sdk, lanemq.sdk.aio, lanemq.sdk.blocking
    from lanemq.sdk import ConcurrentListener, Message, ProducerOptions
    from lanemq.sdk.net import _identity

    os.getpid = lambda: 1
    server, options = sys.argv[1], ProducerOptions(send_timeout_s=60)

    async def sent(opening):
        async with opening as producer:
            for _ in range(20):
                result = await producer.send(Message(topic="ForkTopic", body=b"x"))
                print(producer.client_id, result.message_id)

    def sent_by_threads():
        opening = lanemq.sdk.blocking.open_producer("f", name_servers=server, options=options)
        with opening as producer:
            for _ in range(20):
                result = producer.send(Message(topic="ForkTopic", body=b"x"))
                print(producer.client_id, result.message_id)

    def sent_by_all_faces():
        trio.run(sent, lanemq.sdk.open_producer("f", name_servers=server, options=options))
        asyncio.run(sent(lanemq.sdk.aio.open_producer("f", name_servers=server, options=options)))
        sent_by_threads()
        sys.stdout.flush()

    sent_by_all_faces()  # what the children inherit has been used
    for _ in range(3):
        _identity._NUMBERS = itertools.count(1)  # as in another container
        if not (child := os.fork()):
            sent_by_all_faces()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
"""


def test_containers_with_one_address_and_process_id_have_ids_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    ids = [new_client_id(IP, "default") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {re.sub(r"#\d+#[0-9a-f]{16}$", "", client_id) for client_id in ids} == {"10.0.0.1@1"}
    sources = [new_unique_keys(IP) for _ in range(1000)]
    keys = [source.next(1_700_000_000_123) for source in sources for _ in range(300)]
    assert len(set(keys)) == len(keys)


def test_unique_keys_can_still_be_read_as_apache_reads_them() -> None:
    for ip, digits in ((IP, 32), (bytes(range(16)), 56)):
        for _ in range(100):
            key = new_unique_keys(ip).next(1_700_000_000_123)
            assert len(key) == digits
            assert bytes.fromhex(key)[: len(ip)] == ip
            assert bytes.fromhex(key)[len(ip) :][:2] == (os.getpid() & 0xFFFF).to_bytes(2, "big")
            assert unique_key_time_ms(key, 1_700_000_000_124) == 1_700_000_000_123


async def test_two_consumers_alike_in_everything_share_the_queues(
    cluster: FakeCluster, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers behind one address: their process ids and addresses are the same."""
    cluster.create_topic("T", 8)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(_client, "local_ip", lambda towards: IP)
    async with (
        lite_pull_consumer_of(cluster) as first,
        lite_pull_consumer_of(cluster) as second,
    ):
        await first.subscribe("T")
        await second.subscribe("T")
        with trio.fail_after(60):
            while len(first.queues) != 4 or len(second.queues) != 4:
                await first.poll(timeout_s=1)
        assert not set(first.queues) & set(second.queues)


async def test_the_instance_is_part_of_the_id(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async def ignore(messages: object) -> None: ...

    cluster.create_topic("T", 1)
    async with (
        producer_of(cluster, instance="orders-1") as producer,
        push_consumer_of(cluster, ConcurrentListener(ignore), instance="orders-1") as push,
        lite_pull_consumer_of(cluster, instance="orders-1") as pull,
    ):
        ids = {producer.client_id, push.client_id, pull.client_id}
        assert len(ids) == 3
        assert all(f"@orders-1#{os.getpid()}#" in client_id for client_id in ids)


async def test_ids_of_messages_differ_between_clients_that_are_alike(
    cluster: FakeCluster, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("T", 1)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    found: list[str] = []
    for _ in range(4):
        async with producer_of(cluster, ProducerOptions(send_timeout_s=60)) as producer:
            for _ in range(300):
                found.append((await producer.send(Message(topic="T", body=b"x"))).message_id)
    assert len(set(found)) == len(found)


@pytest.mark.slow  # a server of its own, and interpreters that fork
def test_forked_processes_share_no_ids_on_any_face(name_server: str) -> None:
    script = dedent(FORKED)
    done = subprocess.run(
        [sys.executable, "-c", script, name_server], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == 4 * 3 * 20
    assert len({client_id for client_id, _ in rows}) == 4 * 3
    assert len({message_id for _, message_id in rows}) == len(rows)
