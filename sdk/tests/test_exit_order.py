"""Clients of a program that ends without closing them: which of them ends when."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.sdk.aio._bridge import Opening as AioOpening
from lanemq.sdk.blocking._bridge import Opening
from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.sdk.faces import _portal, _portal_calls
from lanemq.sdk.faces._portal import Portal
from lanemq.testkit.reading_time import slowness

PATIENCE_S = 30.0


class Face:
    def __init__(self, core: Callable[[str], Any], bridge: Any) -> None:  # noqa: ANN401 - of any
        self.core, self.bridge = core, bridge


class World:
    """Clients that note when they end."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.store_ended = threading.Event()

    @asynccontextmanager
    async def client(
        self, name: str, *, may_end: trio.Event | None = None
    ) -> AsyncIterator[Callable[[str], AbstractAsyncContextManager[Any]]]:
        try:
            yield self.client
        finally:
            with trio.CancelScope(shield=True):  # as for reports of progress
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
                if may_end is not None:
                    await may_end.wait()
            self.said.append(name)
            if name == "store":
                self.store_ended.set()

    def open(
        self, name: str, *, serves_others: bool = False, may_end: trio.Event | None = None
    ) -> Face:
        opening: Opening[Face] = Opening(
            Face, lambda _: self.client(name, may_end=may_end), serves_others=serves_others
        )
        return opening.start()

    def open_in(self, parent: Face, name: str) -> Face:
        opening: Opening[Face] = parent.bridge.open(Face, parent.core, name)
        return opening.start()


def wait_until_over(portal: Portal) -> None:
    over = threading.Event()
    portal.at_end(over.set)
    assert over.wait(PATIENCE_S * slowness())


def test_what_others_need_ends_after_them() -> None:
    world = World()
    early = world.open("early")
    store = world.open("store", serves_others=True)
    faces = [early, store, world.open_in(store, "lease"), world.open_in(store, "lock")]
    faces += [world.open("consumer"), world.open("other consumer")]
    portal = faces[0].bridge.portal
    portal.end_now()
    wait_until_over(portal)
    assert world.said[-3:] == ["lock", "lease", "store"]
    assert sorted(world.said[:-3]) == ["consumer", "early", "other consumer"]


def test_one_that_does_not_end_keeps_no_other_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_portal, "EXIT_GRACE_S", _portal.LAST_S + 0.01)
    world, may_end = World(), trio.Event()
    store = world.open("store", serves_others=True)
    consumer = world.open("consumer", may_end=may_end)
    portal = consumer.bridge.portal
    assert store.bridge.portal is portal
    portal.post(portal._leaving.set)
    assert world.store_ended.wait(PATIENCE_S * slowness())
    portal.post(may_end.set)
    wait_until_over(portal)
    assert world.said == ["store", "consumer"]


def test_what_others_need_ends_after_them_when_their_event_loop_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_portal_calls, "LOOK_S", 0.05)
    world, portals = World(), list[Portal]()

    async def open_all() -> list[object]:
        def opened(name: str, *, serves_others: bool = False) -> AioOpening[Face]:
            return AioOpening(Face, lambda _: world.client(name), serves_others=serves_others)

        store = await opened("store", serves_others=True).start()
        portals.append(store.bridge.portal)
        lease = await store.bridge.open(Face, store.core, "lease").start()
        lock = await store.bridge.open(Face, store.core, "lock").start()
        return [store, lease, lock, await opened("consumer").start()]

    faces = asyncio.run(open_all())
    wait_until_over(portals[0])
    assert world.said == ["consumer", "lock", "lease", "store"]
    assert faces


SCRIPT = """
import sys, threading
from lanemq.sdk import blocking
from lanemq.sdk.blocking import ConcurrentListener, ConsumeFrom, Message
from lanemq.sdk.blocking.kv import KvOffsetStore, open_kv_store

servers, settled = sys.argv[1], threading.Event()
store = open_kv_store(name_servers=servers).start()
lock = store.lock(b"exit-lock", ttl_s=600).start()
producer = blocking.open_producer("pg", name_servers=servers, send_timeout_s=60).start()
producer.send(Message(topic="ExitOrderTopic", body=b"x"))
consumer = blocking.open_push_consumer(
    "ExitOrderGroup", name_servers=servers, subscriptions={"ExitOrderTopic": "*"},
    listener=ConcurrentListener(lambda messages: settled.set()),
    consume_from=ConsumeFrom.FIRST_OFFSET,
    offset_store=KvOffsetStore(store, "exit-order")).start()
assert settled.wait(60)
while not any(consumer.committed_offset(queue) for queue in consumer.queues):
    threading.Event().wait(0.01)
print("ends")
"""


@pytest.mark.slow  # another process, and a server
def test_a_program_that_closes_nothing_gives_up_its_locks_and_reports_to_its_store(
    name_server: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name_server],
        env={"HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_S,
    )
    assert (done.stdout, done.stderr) == ("ends\n", "")
    with open_kv_store(name_servers=name_server, timeout_s=PATIENCE_S) as store:
        assert store.get(b"exit-lock") is None
        (entry,) = store.prefix(b"offsets/exit-order/ExitOrderTopic/").entries
        assert entry.value == b"1"
