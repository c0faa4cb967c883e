"""Finding stored messages: by key, by unique key, by where they lie."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from .._errors import CommandRefused, NotApplicable, ScenarioFailed
from ..cells._cell import Cell
from ..cells._facts import asks_all_brokers
from ..cells._scenario import expect_equal, scenario
from ..clients._messages import Outgoing

INDEX_S = 60.0
"""Seconds that the index may be behind: Apache's broker answers a send before it is written."""

Found = TypeVar("Found")


async def eventually(ask: Callable[[], Awaitable[Found]], *, count: int = 1) -> Found:
    """Ask until a query finds something (lists: ``count`` of it), or the index had time enough."""
    with trio.move_on_after(INDEX_S):
        while True:
            try:
                found = await ask()
            except CommandRefused:
                found = None
            if found is not None and not (isinstance(found, list) and len(found) < count):
                return found
            await trio.sleep(0.1)
    return await ask()


@scenario("query-by-key")
async def query_by_key(cell: Cell) -> None:
    """A message is found by each of its keys, in its span of time, and no other."""
    if reason := asks_all_brokers(cell.client, cell.cluster.maker):
        raise NotApplicable(reason)
    topic = await cell.topic()
    async with cell.producer() as producer:
        # First of all, so that a client without queries says so at once.
        await _expect_nothing(cell, topic, "never-sent")
        await producer.send(Outgoing(topic, b"one", keys="k1 shared"))
        await producer.send(Outgoing(topic, b"two", keys="k2 shared"))
        await producer.send(Outgoing(topic, b"none"))

        found = await eventually(lambda: producer.query_by_key(topic, "k1"))
        expect_equal("k1", [message.body for message in found], [b"one"])
        expect_equal("keys", found[0].keys, "k1 shared")
        found = await eventually(lambda: producer.query_by_key(topic, "shared"), count=2)
        expect_equal("shared", sorted(message.body for message in found), [b"one", b"two"])
        stored_ms = min(message.store_timestamp_ms for message in found)
        await _expect_nothing(cell, topic, "shared", end_ms=stored_ms - 60_000)


async def _expect_nothing(cell: Cell, topic: str, key: str, *, end_ms: int = 1 << 62) -> None:
    """Ask for a key that has no message: clients differ in whether that is an error."""
    async with cell.producer() as producer:
        try:
            found = await producer.query_by_key(topic, key, end_ms=end_ms)
        except CommandRefused:
            return
        expect_equal(f"messages with key {key}", found, [])


@scenario("query-by-unique-key")
async def query_by_unique_key(cell: Cell) -> None:
    """A message is found by the unique key that its sender gave it."""
    if reason := asks_all_brokers(cell.client, cell.cluster.maker):
        raise NotApplicable(reason)
    topic = await cell.topic()
    async with cell.producer() as producer:
        sent = [await producer.send(Outgoing(topic, b"%d" % n)) for n in range(3)]
        for number, one in enumerate(sent):
            asking = partial(producer.query_by_unique_key, topic, one.message_id)
            found = await eventually(asking)
            expect_equal("body", found.body, b"%d" % number)
            expect_equal("id", found.message_id, one.message_id)
            place = (one.queue_id, one.queue_offset)
            expect_equal("place", (found.queue_id, found.queue_offset), place)


@scenario("view-by-offset-id")
async def view_by_offset_id(cell: Cell) -> None:
    """A message is found by its offset id; an id that points nowhere is an error."""
    topic = await cell.topic()
    async with cell.producer() as producer:
        sent = await producer.send(Outgoing(topic, b"here", tags="T", keys="k"))
        found = await producer.view(topic, sent.offset_id)
        expect_equal("body", found.body, b"here")
        expect_equal("topic, tags, keys", (found.topic, found.tags, found.keys), (topic, "T", "k"))
        expect_equal("queue offset", found.queue_offset, sent.queue_offset)
        beyond = sent.offset_id[:16] + f"{1 << 40:016X}"
        try:
            await producer.view(topic, beyond)
        except CommandRefused:
            return
        raise ScenarioFailed("an offset id beyond the log was answered with a message")
