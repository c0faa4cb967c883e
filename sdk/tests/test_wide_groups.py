"""Topics of very many queues, and groups of very many members, hold nobody's event loop."""

from types import SimpleNamespace
from typing import Any, Final

import pytest
import trio

from lanemq.sdk import (
    AllocateConsistentHash,
    AllocateMachineRoomNearby,
    ConsumerOptions,
    MessageQueue,
)
from lanemq.sdk.consumer._allocation import allocated
from lanemq.sdk.consumer._queue_changes import QueueChanges
from lanemq.sdk.consumer._rebalance import Rebalance
from lanemq.sdk.net._route_table import TopicRoute
from lanemq.sdk.net._routes import Routes
from lanemq.testkit.calls import calls_of_steps, calls_of_this_thread
from lanemq.testkit.reading_time import slowness, time_s
from lanemq.wire.bodies import BrokerData, QueueData, RouteData
from lanemq.wire.frame import Frame

CALLS_MAX: Final = 50_000
"""Calls of one turn, some 10 ms."""


async def nothing(*_: object, **__: object) -> None:
    pass


async def zero(*_: object) -> int:
    return 0


@pytest.mark.parametrize("count", [200, 2000])
async def test_taking_and_giving_up_queues_costs_as_much_as_there_are_queues(count: int) -> None:
    offsets: Any = SimpleNamespace(load=zero, persist=nothing, forget=lambda *_: None)
    client: Any = SimpleNamespace(client_id="c", clock_ms=lambda: 0)
    calls: Any = None
    queues = [MessageQueue("T", "b", number) for number in range(count)]
    async with trio.open_nursery() as nursery:
        rebalance = Rebalance(
            client, calls, offsets, ConsumerOptions(), {}, QueueChanges(None, ""), nursery
        )
        pulls: Any = SimpleNamespace(run=nothing)
        rebalance.pull_with(pulls)
        with calls_of_this_thread() as made:
            await rebalance.hold_exactly(queues)
            assert rebalance.count("T") == len(rebalance.held) == count
            for queue in queues[: count // 2]:
                assert rebalance.remove(queue) is not None
            assert rebalance.count("T") == count - count // 2
            await rebalance.hold_exactly(())
        assert not rebalance.held
        assert made.count <= 400 * count


async def test_a_reader_of_the_queues_held_sees_no_later_changes() -> None:
    offsets: Any = SimpleNamespace(load=zero, persist=nothing, forget=lambda *_: None)
    client: Any = SimpleNamespace(client_id="c", clock_ms=lambda: 0)
    calls: Any = None
    async with trio.open_nursery() as nursery:
        options = ConsumerOptions()
        rebalance = Rebalance(client, calls, offsets, options, {}, QueueChanges(None, ""), nursery)
        pulls: Any = SimpleNamespace(run=nothing)
        rebalance.pull_with(pulls)
        first, second = MessageQueue("T", "b", 0), MessageQueue("U", "b", 0)
        rebalance.start(first, 0)
        before = rebalance.held
        rebalance.start(second, 0)
        assert set(before) == {first}
        assert set(rebalance.held) == {first, second}
        rebalance.remove(first)
        assert set(rebalance.held) == {second}
        assert (rebalance.count("T"), rebalance.count("U")) == (0, 1)


def test_rooms_without_members_are_divided_among_very_many() -> None:
    ids = sorted(f"room@{number:05}" for number in range(20_000))
    queues = [MessageQueue("T", f"b{number:04}", 0) for number in range(2000)]
    nearby = AllocateMachineRoomNearby(lambda queue: queue.broker_name, lambda _: "room")
    assert time_s(lambda _: nearby(ids[-1], queues, ids), None) <= 0.1 * slowness()
    assert nearby("room@00000", queues, ids) == queues


async def test_a_long_ring_of_hashes_is_made_beside_the_loop() -> None:
    ids = [f"10.0.0.1@{number:05}" for number in range(3000)]
    queues = [MessageQueue("T", "b", number) for number in range(100)]
    ring = AllocateConsistentHash()
    with calls_of_steps() as steps:
        found = [await allocated(ring, client_id, queues, ids) for client_id in ids[:2]]
        await trio.lowlevel.checkpoint()
    assert found == [ring(client_id, queues, ids) for client_id in ids[:2]]
    assert steps.most <= CALLS_MAX


async def test_a_wide_route_is_read_and_compared_beside_the_loop() -> None:
    brokers = [f"b{number:03}" for number in range(64)]
    bodies = [
        RouteData(
            tuple(QueueData(name, queues, queues) for name in reversed(brokers)),
            tuple(BrokerData("c", name, {0: "10.0.0.1:10911"}) for name in brokers),
        ).encode()
        for queues in (1024, 1024, 1023)
    ]

    async def call(frame: Frame) -> Frame:
        await trio.lowlevel.checkpoint()
        return frame.reply(body=bodies.pop(0))

    name_servers: Any = SimpleNamespace(call=call)
    routes, changed, found = Routes(name_servers), list[str](), list[TopicRoute | None]()
    routes.on_change(changed.append)
    with calls_of_steps() as steps:
        await trio.lowlevel.checkpoint()
        for _ in range(3):
            found.append(await routes.refresh("T"))
        await trio.lowlevel.checkpoint()
    first, same, last = found
    assert first is same
    assert first is not None
    assert last is not None
    assert first.subscribe_queues == tuple(sorted(first.subscribe_queues))
    assert (len(first.subscribe_queues), len(last.subscribe_queues)) == (64 * 1024, 64 * 1023)
    assert changed == ["T", "T"]
    assert steps.most <= CALLS_MAX
