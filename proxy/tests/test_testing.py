"""``lanemq.testing``: a server in memory for tests of applications; its page runs as it is."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from lanemq.sdk import (
    Message,
    NoRoute,
    ReceivedMessage,
    TransactionState,
    aio,
    open_producer,
    open_transaction_producer,
)
from lanemq.sdk.blocking import open_producer as open_blocking_producer
from lanemq.testing import ConfigError, ServerClosed, TestServer, open_test_server
from lanemq.testkit.reading_time import slowness

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(encoding="utf-8"), re.DOTALL
)


def server_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "lanemq-test-server"]


async def test_what_was_sent_can_be_looked_at() -> None:
    async with (
        open_test_server() as server,
        open_producer("g", name_servers=server.name_servers, send_timeout_s=60) as producer,
    ):
        for number in range(20):
            await producer.send(Message(topic="T", body=b"%d" % number, tags="even"))
        found = server.messages("T")
        assert [message.body for message in found] == [b"%d" % n for n in range(20)]
        assert {message.queue.queue_id for message in found} == {0, 1, 2, 3}
        assert server.messages("nobody sent to it") == []


def test_on_asyncio_and_in_threads() -> None:
    async def main() -> None:
        async with open_test_server() as server:
            async with aio.open_producer(
                "g", name_servers=server.name_servers, send_timeout_s=60
            ) as producer:
                await producer.send(Message(topic="T", body=b"1"))
            assert len(server.messages("T")) == 1

    asyncio.run(main())
    with open_test_server() as server:
        with open_blocking_producer("g", name_servers=server.name_servers) as producer:
            producer.send(Message(topic="T", body=b"1"))
        assert len(server.messages("T")) == 1
    assert server_threads() == []


async def test_a_producer_is_asked_about_its_transaction_when_the_clock_is_moved() -> None:
    asked = trio.Event()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.set()
        return TransactionState.COMMIT

    async def forgets(message: Message, transaction_id: str) -> TransactionState:
        return TransactionState.UNKNOWN

    async with (
        open_test_server() as server,
        open_transaction_producer(
            "g", check=check, name_servers=server.name_servers, topics=["T"]
        ) as producer,
    ):
        await producer.send_in_transaction(Message(topic="T", body=b"half"), forgets)
        server.advance(7)
        with trio.fail_after(60):
            await asked.wait()
            while not server.messages("T"):  # noqa: ASYNC110 - the answer is under way
                await trio.sleep(0.01)


async def test_delayed_messages_come_when_the_clock_is_moved() -> None:
    async with (
        open_test_server() as server,
        open_producer("g", name_servers=server.name_servers, send_timeout_s=60) as producer,
    ):
        for level in (18, 9, 5):  # 2 h, 5 min, 1 min
            await producer.send(Message(topic="T", body=b"%d" % level, delay_level=level))
        before_ms = server.now_ms
        for seconds, bodies in ((30, []), (60, [b"5"]), (300, [b"5", b"9"])):
            server.advance(seconds)
            assert [message.body for message in server.messages("T")] == bodies
        server.advance(7200)
        assert len(server.messages("T")) == 3
        assert server.now_ms - before_ms >= 7_590_000
        newest = server.messages("T")[-1].stored
        assert newest.store_timestamp_ms >= before_ms + 7_590_000


async def test_a_topic_is_in_the_routes_as_soon_as_it_is_created() -> None:
    async with (
        open_test_server({"autoCreateTopicEnable": "false"}) as server,
        open_producer("g", name_servers=server.name_servers, send_timeout_s=60) as producer,
    ):
        server.create_topic("Mine", queues=7)
        queues = await producer.publish_queues("Mine")
        assert len(queues) == 7
        with pytest.raises(NoRoute):
            await producer.send(Message(topic="Other", body=b"1"))


def test_servers_beside_each_other_share_nothing() -> None:
    with open_test_server() as one, open_test_server() as other:
        assert one.name_servers != other.name_servers
        with open_blocking_producer("g", name_servers=one.name_servers) as producer:
            producer.send(Message(topic="T", body=b"1"))
        other.advance(3600)
        assert (len(one.messages("T")), len(other.messages("T"))) == (1, 0)
        assert abs(one.now_ms - time.time() * 1000) < 60_000


def test_nothing_can_be_asked_of_a_server_that_is_closed() -> None:
    with open_test_server() as server:
        pass
    for use in (lambda: server.advance(1), lambda: server.messages("T")):
        with pytest.raises(ServerClosed, match="use it within its block"):
            use()


@pytest.mark.parametrize("seconds", [-1, -0.001, float("-inf"), float("nan")])
def test_the_clock_does_not_go_back(seconds: float) -> None:
    with open_test_server() as server:
        with pytest.raises(ValueError, match=r"^seconds is .*: the clock moves forward only"):
            server.advance(seconds)
        assert server.messages("T") == []


@pytest.mark.parametrize("seconds", [float("inf"), 1e20, 10**30, 101 * 366 * 86_400])
def test_the_clock_does_not_leave_the_century(seconds: float) -> None:
    with open_test_server() as server, pytest.raises(ValueError, match=r"^seconds is") as caught:
        server.advance(seconds)
    assert "it must be 0 to 3162240000, for the clock may be a hundred years ahead" in str(
        caught.value
    )


def test_the_clock_has_one_century_in_all() -> None:
    with open_test_server() as server:
        server.advance(99 * 366 * 86_400)
        with pytest.raises(ValueError, match="it must be 0 to 31622400,"):
            server.advance(2 * 366 * 86_400)
        server.create_topic("T")
        with open_blocking_producer("g", name_servers=server.name_servers) as producer:
            producer.send(Message(topic="T", body=b"in 99 years"))
        assert [message.body for message in server.messages("T")] == [b"in 99 years"]


@pytest.mark.parametrize("queues", [1.5, 2.0, True, "2", None])
def test_a_number_of_queues_is_a_whole_number(queues: Any) -> None:  # noqa: ANN401 - a mistake
    with open_test_server() as server:
        with pytest.raises(ValueError, match="queues of a topic are a whole number, not"):
            server.create_topic("T", queues=queues)
        server.create_topic("T", queues=2)
        with open_blocking_producer("g", name_servers=server.name_servers) as producer:
            assert len(producer.publish_queues("T")) == 2, "registration goes on"


@pytest.mark.parametrize(
    ("topic", "queues"),
    [("a b!", 1), ("t" * 400, 1), ("", 1), ("RMQ_SYS_TRANS_HALF_TOPIC", 1)]
    + [("T", queues) for queues in (0, -3, 1 << 20)],
)
def test_a_topic_that_no_broker_takes_is_refused(topic: str, queues: int) -> None:
    with open_test_server() as server:
        with pytest.raises(ValueError, match="topic"):
            server.create_topic(topic, queues=queues)
        assert server.messages(topic) == []


def test_several_threads_move_the_clock() -> None:
    with open_test_server() as server, ThreadPoolExecutor(8) as pool:
        before_ms = server.now_ms
        assert list(pool.map(server.advance, [60.0] * 40)) == [None] * 40
        assert server.now_ms - before_ms >= 2_400_000


@pytest.mark.parametrize(
    "settings",
    [
        {"brokerName": "a b"},
        {"storeType": "defaultRocksDB"},  # its files would be on the disk, in the root directory
        {"rocksdbCQDoubleWriteEnable": "true"},
        {"listenPort": "10911"},
        {"storePathRootDir": "/data"},
        {"autoCreateTopicEnable": cast(str, False)},
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        open_test_server(settings)


def test_what_keeps_a_server_from_starting_is_raised_as_it_is(tmp_path: Path) -> None:
    opening = open_test_server({"aclEnable": "true", "rocketmqHome": str(tmp_path / "nothing")})
    with pytest.raises(ConfigError, match="rocketmqHome"):
        opening.start()
    opening.close()


def test_a_server_without_a_block_runs_once() -> None:
    opening = open_test_server()
    server = opening.start()
    try:
        assert server.messages("T") == []
        with pytest.raises(RuntimeError, match="starts once"):
            opening.start()
    finally:
        opening.close()
    opening.close()
    assert server_threads() == []
    with pytest.raises(RuntimeError, match="starts once"), opening:
        pass


def test_a_start_that_is_cancelled_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun, go_on = TestServer._start, threading.Event(), threading.Event()

    def slow(server: TestServer) -> None:
        begun.set()
        assert go_on.wait(60)
        start(server)

    monkeypatch.setattr(TestServer, "_start", slow)

    async def main() -> None:
        async def use() -> None:
            async with open_test_server():
                raise AssertionError("the block must not begin")

        task = asyncio.ensure_future(use())
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert server_threads() == []


async def test_an_error_in_the_block_is_the_one_that_is_seen() -> None:
    async def fail() -> None:
        async with open_test_server():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


def test_a_start_takes_less_than_a_tenth_of_a_second() -> None:
    """Of processor time, the best of five: the machine may be busy with something else."""
    taken = []
    for _ in range(5):
        begun = time.process_time()
        with open_test_server():
            taken.append(time.process_time() - begun)
    assert min(taken) < 0.1 * slowness()


def run_pytest(path: Path) -> subprocess.CompletedProcess[str]:
    """Run a test file as a project does that has lanemq installed, and its plugin with it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "lanemq.pytest_plugin", str(path)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_documented_tests_pass(tmp_path: Path) -> None:
    assert len(BLOCKS) >= 5
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"test_block_{number}.py").write_text(block)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(re.findall('def test_', ''.join(BLOCKS)))} passed" in done.stdout


@pytest.mark.slow
def test_the_plugin_imports_nothing_for_those_who_do_not_use_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    assert 'trio' not in sys.modules\n"
    )
    done = run_pytest(tmp_path / "test_it.py")
    assert done.returncode == 0, done.stdout + done.stderr
