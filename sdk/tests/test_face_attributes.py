"""Attributes of the blocking and asyncio clients are there without a wait for the core."""

import ast
import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import lanemq.sdk
from lanemq.sdk import ClientClosed, ConsumeFrom, Message, aio, blocking
from lanemq.sdk.aio import admin as aio_admin
from lanemq.sdk.aio import kv as aio_kv
from lanemq.sdk.blocking import kv as blocking_kv
from lanemq.sdk.faces._portal import find_portal
from lanemq.sdk.kv.requests._feed import Feed
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S
from lanemq.wire.kv import Change

PATIENCE_S = 60.0
AT_ONCE_S = 5.0
"""Longer than any attribute takes, and shorter than the core is kept busy."""


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep the core's thread from doing anything, for ``AT_ONCE_S`` and more at most."""
    go_on, begun = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go_on.wait(2 * AT_ONCE_S)

    find_portal().post(job)
    assert begun.wait(PATIENCE_S)
    started_s = time.monotonic()
    try:
        yield
        assert time.monotonic() - started_s < AT_ONCE_S, "it waited for the core"
    finally:
        go_on.set()


def properties(path: Path) -> Iterator[tuple[str, str]]:
    """The properties of a module's public classes: their names, and their code."""
    for kind in ast.parse(path.read_text()).body:
        if isinstance(kind, ast.ClassDef) and not kind.name.startswith("_"):
            for node in kind.body:
                if isinstance(node, ast.FunctionDef) and any(
                    isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list
                ):
                    yield f"{kind.name}.{node.name}", ast.unparse(node)


@pytest.mark.parametrize("face", ["aio", "blocking"])
def test_no_property_of_a_client_asks_the_core(face: str) -> None:
    folder = Path(lanemq.sdk.__path__[0]) / face
    found = {
        name: code
        for path in sorted(folder.rglob("*.py"))
        if path.read_text().startswith('"""Generated from')
        for name, code in properties(path)
    }
    assert {"PushConsumer.queues", "Lock.is_held", "Watch.position"} <= found.keys()
    assert [name for name, code in found.items() if "_bridge" in code] == []


@pytest.mark.slow
def test_attributes_are_read_on_a_loop_while_the_core_is_busy(name_server: str) -> None:
    async def main() -> None:
        async with (
            aio.open_producer("ap", name_servers=name_server, options=PATIENT_PRODUCER) as producer,
            aio.open_lite_pull_consumer(
                "al", name_servers=name_server, consume_from=ConsumeFrom.FIRST_OFFSET
            ) as reader,
            aio_admin.open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin,
            aio_kv.open_kv_store(name_servers=name_server, namespace="attributes") as store,
            store.lock(b"aio lock") as lock,
        ):
            await producer.send(Message(topic="AttributeTopic", body=b"makes the topic"))
            async with (
                producer.staged("key", [2]) as staged,
                aio.open_push_consumer(
                    "ac",
                    name_servers=name_server,
                    subscriptions={"AttributeTopic": "*"},
                    listener=_ignore,
                    consume_from=ConsumeFrom.FIRST_OFFSET,
                ) as consumer,
            ):
                await staged.send(Message(topic="AttributeTopic", body=b"first"))
                await reader.assign(await reader.queues_of("AttributeTopic"))
                reader.pause(reader.queues[:1])
                consumer.set_concurrency(3)
                consumer.pause()
                await store.put(b"aio first", b"1")
                watch = store.watch(b"aio", position=0)
                change = await anext(aiter(watch))
                with busy_core():
                    assert consumer.paused == consumer.queues
                    assert consumer.concurrency == 3
                    assert len(reader.queues) > len(reader.paused) == 1
                    assert staged.number == 1
                    assert staged.queue is not None
                    assert admin.name_servers == (name_server,)
                    assert admin.client_options.call_timeout_s > 0
                    assert lock.key == lock.check.key == b"aio lock"
                    assert lock.fencing >= 1
                    assert lock.is_held
                    position = watch.position
                assert isinstance(position, int)
                assert position >= change.position

    asyncio.run(main())


async def _ignore(messages: object) -> None:
    pass


@pytest.mark.slow
def test_attributes_of_a_closed_client_are_what_they_are_on_trio(name_server: str) -> None:
    with blocking.open_producer(
        "ap", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        producer.send(Message(topic="AttributeTopic", body=b"makes the topic"))
    with blocking.open_push_consumer(
        "ac", name_servers=name_server, subscriptions={"AttributeTopic": "*"}, listener=print
    ) as consumer:
        consumer.set_concurrency(7)
    with blocking.open_lite_pull_consumer("al", name_servers=name_server) as reader:
        assert reader.queues == ()
    assert consumer.concurrency == 7
    with pytest.raises(ClientClosed):
        _ = reader.queues


@pytest.mark.slow
def test_a_change_that_a_cancelled_task_did_not_see_is_not_behind_the_position(
    name_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = threading.Event()
    take = Feed.take

    def noted(feed: Feed) -> Change:
        change = take(feed)
        taken.set()
        return change

    def hold_core(loop: asyncio.AbstractEventLoop, turns: int = 100) -> None:
        """Keep the core's thread from doing anything for some turns of the loop."""
        go_on = threading.Event()

        def count(left: int) -> None:
            if left:
                loop.call_soon(count, left - 1)
            else:
                go_on.set()

        find_portal().post(partial(go_on.wait, PATIENCE_S))
        count(turns)

    async def main() -> None:
        async with aio_kv.open_kv_store(name_servers=name_server, namespace="unseen") as store:
            await store.put(b"before", b"1")
            watch = store.watch(b"unseen", position=0)
            task = asyncio.ensure_future(anext(aiter(watch)))
            await asyncio.sleep(0)  # the task calls the core in its first turn
            monkeypatch.setattr(Feed, "take", noted)
            with blocking_kv.open_kv_store(name_servers=name_server, namespace="unseen") as other:
                other.put(b"unseen", b"2")  # the loop stands still meanwhile, and below
                assert taken.wait(PATIENCE_S)
                with busy_core():  # the change is on its way to the loop
                    pass
            task.cancel()
            hold_core(asyncio.get_running_loop())
            with pytest.raises(asyncio.CancelledError):
                await task
            position = watch.position
            change = await anext(aiter(watch))
            assert change.key == b"unseen"
            assert isinstance(position, int)
            assert position <= change.position
            again = await anext(aiter(store.watch(b"unseen", position=position)))
            assert again == change

    asyncio.run(main())
