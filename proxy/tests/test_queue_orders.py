"""Orders of queues of several proxies over one log: they agree, whatever is lost between."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from unittest.mock import Mock

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.gateway.kv import make_keys
from lanemq.proxy.gateway.order import (
    QueueOrder,
    QueueOrders,
    SeenQueue,
    _growth,
    _orders,
    _settling,
    extended,
)
from lanemq.proxy.gateway.order._order import ADDED_MAX, encode_behind
from lanemq.proxy.gateway.order._orders import AGAIN_S, RECORD_S
from lanemq.proxy.gateway.order._route import TOPIC_CHARACTERS_MAX
from lanemq.proxy.gateway.order._settling import FORGOTTEN_S
from lanemq.testkit.proxy.upstream_log import UpstreamLog, UpstreamLogQueue
from lanemq.wire import ROUTE_QUEUES_MAX, Permission
from lanemq.wire.bodies import BrokerData, QueueData, RouteData

TOPICS = ("T", "U", "V")
BROKERS = ("a", "a-b", "b", "c")
PROXIES = 3


@asynccontextmanager
async def orders_of(
    log: UpstreamLog, *, seed: int = 0, settle_s: float = 0.0
) -> AsyncIterator[tuple[QueueOrders, UpstreamLogQueue]]:
    """Run the orders of one proxy over ``log``."""
    async with trio.open_nursery() as nursery:
        queue, snapshots = log.queue(nursery), log.snapshots.queue(nursery)
        keys = make_keys([queue], [snapshots], namespace="queues", rng=random.Random(seed))
        orders = QueueOrders(keys, settle_s=settle_s)
        nursery.start_soon(orders.run)
        yield orders, queue
        nursery.cancel_scope.cancel()


@pytest.fixture
def log() -> UpstreamLog:
    return UpstreamLog(random.Random(1))


def route_of(told: Mapping[str, int]) -> RouteData:
    return RouteData(
        queue_datas=tuple(QueueData(name, count, count) for name, count in told.items()),
        broker_datas=tuple(BrokerData("C", name, {0: f"{name}:1"}) for name in told),
    )


async def test_a_topic_has_no_order_before_its_queues_have_settled(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with orders_of(log, settle_s=60) as (orders, _):
        await orders.opened()
        route = route_of({"b": 2})
        assert await orders.noted("T", route) is None
        await trio.sleep(59)
        assert await orders.noted("T", route) is None
        both = route_of({"a": 2, "b": 2})
        assert await orders.noted("T", both) is None  # begins again
        await trio.sleep(59)
        assert await orders.noted("T", both) is None
        await trio.sleep(1)
        order = await orders.noted("T", both)
        assert order is not None
        assert order.is_the_clusters
        assert not orders.behind
        assert len(order.queues()) == 4


async def test_every_topic_settles_however_many_there_are(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_settling, "SETTLING_MAX", 10)
    async with orders_of(log, settle_s=60) as (orders, _):
        await orders.opened()
        topics = [f"T{number}" for number in range(25)]
        for number in range(10):  # nobody asks for these any more
            await orders.noted(f"Gone{number}", route_of({"a": 2}))
        await trio.sleep(FORGOTTEN_S)
        for _ in range(12):  # as clients do
            for topic in topics:
                await orders.noted(topic, route_of({"a": 2}))
            assert len(orders._settling._topics) <= 10
            await trio.sleep(30)
        assert [topic for topic in topics if orders.of(topic) is None] == []
        assert not orders._settling._topics


async def test_orders_leave_room_in_the_log_to_leases(
    log: UpstreamLog,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Topics and brokers are whoever's makes them, and without a lease a proxy serves none."""
    monkeypatch.setattr(_growth, "ORDERS_BYTES_MAX", 5_000)
    monkeypatch.setattr(_growth, "ORDER_BYTES_MAX", 1_000)
    monkeypatch.setattr(_orders, "extended", extensions := Mock(wraps=extended))
    async with orders_of(log) as (orders, _):
        await orders.opened()
        many = route_of({f"{number:03}{'b' * 200}": 2 for number in range(9)})
        for _ in range(10):
            assert await orders.noted("Wide", many) is None
        assert extensions.call_count == 1, "it is not worked out for each question"
        kept = [await orders.noted(f"T{number}", route_of({"a": 2})) for number in range(100)]
        assert 5 < sum(order is not None for order in kept) < 30
        assert await orders.keys.put(b"lease/p1", b"x" * 100) == 1
        assert await orders.noted("T0", route_of({"a": 2})) is not None
    said = [record.getMessage() for record in caplog.records]
    assert sum("new topics, and new queues, get none" in text for text in said) == 1
    assert sum("topic Wide has queues at too many brokers" in text for text in said) == 1


async def test_nothing_waits_for_a_log_that_takes_nothing(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with orders_of(log) as (orders, queue):
        await orders.opened()
        before = await orders.noted("T", route_of({"a": 2, "b": 2}))
        queue.is_cut = True
        grown = route_of({"a": 4, "b": 2})
        begun_s = trio.current_time()
        assert await orders.noted("T", grown) == before
        assert trio.current_time() - begun_s <= RECORD_S
        begun_s = trio.current_time()
        for _ in range(100):
            assert await orders.noted("T", grown) == before
        assert trio.current_time() == begun_s
        queue.is_cut = False
        await trio.sleep(AGAIN_S)
        order = await orders.noted("T", grown)
        assert order is not None
        assert before is not None
        assert order.queues()[:4] == before.queues()
        assert len(order.queues()) == 6


async def test_the_order_is_not_known_before_the_log_is_read(
    log: UpstreamLog, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        await orders.noted("T", route_of({"a": 2}))
    log.begin = len(log.records)  # there is neither the log nor a snapshot
    async with orders_of(log, seed=2) as (orders, _):
        with trio.move_on_after(60):
            await orders.opened()
        assert "nothing is served" in orders.why_unknown
        assert "'LANEMQ_PROXY_queues' and 'LANEMQ_PROXY_%SNAPSHOTS%queues'" in orders.why_unknown
        assert orders.why_unknown in caplog.text
        assert orders.of("T") is None
        # The operator deletes the topics, and starts the proxies again.
    async with orders_of(UpstreamLog(random.Random(2)), seed=3) as (orders, _):
        await orders.opened()
        assert not orders.why_unknown
        assert await orders.noted("T", route_of({"a": 2})) is not None
        # Queues had moved from b, which is read-only since, to c, which got one for readers.
        left = QueueData("b", 2, 2, Permission.READ)
        made = QueueData("c", 1, 0)
        told = route_of({"a": 2})
        told = replace(told, queue_datas=(*told.queue_datas, left, made))
        assert "can be written" not in caplog.text
        assert await orders.noted("U", told) is not None
        assert "topic U: no queue can be written at b, c. If they had moved" in caplog.text


async def test_what_is_no_order_counts_as_none(
    log: UpstreamLog, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        for name, value in ((b"topic/T", b"{}"), (b"added", b"7"), (b"topic/\xff", b"[[],[]]")):
            await orders._keys.put(name, value)
        for _ in range(10):
            assert orders.of("T") is None
            assert orders.behind == ()
        assert await orders.noted("T", route_of({"a": 2})) is None
        assert sum("topic T has no order of queues" in one.message for one in caplog.records) == 1


async def test_names_that_clients_make_up_take_little_room(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        longest = "t" * TOPIC_CHARACTERS_MAX
        assert await orders.noted(longest, route_of({"a": 2})) is not None
        assert orders.of(longest) is not None
        for number in range(100):
            assert orders.of(f"{number}{'x' * 100_000}") is None
        assert sum(map(len, orders._known)) < 1000


async def test_a_topic_of_more_queues_than_an_order_has_keeps_its_order(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        before = await orders.noted("T", route_of({"a": 2, "b": 2}))
        assert before is not None
        for count in (ROUTE_QUEUES_MAX + 1, 1 << 20):
            order = await orders.noted("T", route_of({"a": count, "b": 2}))
            assert order is not None
            assert order.known_of("a") == ROUTE_QUEUES_MAX
            assert order.queues()[:4] == before.queues()
        assert await orders.noted("U", route_of({"a": 1 << 20})) is not None


async def test_a_topic_that_gets_an_order_of_its_own_has_none_here_any_more(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        for told in ({"a": 2, "b": 2}, {"a": 4, "b": 2}):
            assert await orders.noted("T", route_of(told)) is not None
        route = route_of({"a": 6, "b": 2})
        static = replace(route, extra={"topicQueueMappingByBroker": {"a": {"epoch": 1}}})
        assert await orders.noted("T", static) is None
        assert orders.of_route("T", static) is None
        order = orders.of_route("T", route)
        assert order is not None
        assert order.known_of("a") == 4


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g"])
async def test_topics_of_groups_that_appear_broker_by_broker_have_the_clusters_order(
    topic: str, log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        # An earlier version has kept one.
        kept, added = extended(QueueOrder((("b", 1),)), {"a": 1, "b": 1}, ())
        await orders._keys.put(b"topic/" + topic.encode(), kept.encode())
        await orders._keys.put(b"added", encode_behind(added))
        for told in ({"b": 1}, {"a": 1, "b": 1}, {"a": 1, "a-b": 1, "b": 1}):
            assert await orders.noted(topic, route_of(told)) is None
        assert orders.of(topic) is None
        assert orders.seen(topic, "a", 0) is None
        assert orders.behind == added
        await wait_all_tasks_blocked()
        assert not orders.others


async def test_topics_that_appear_broker_by_broker_share_added_brokers(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = [f"broker-{number:02}" for number in range(16)]
    async with orders_of(log) as (orders, _):
        await orders.opened()
        for number in range(12):
            told: dict[str, int] = {}
            for broker in random.Random(number).sample(brokers, len(brokers)):
                told[broker] = 1
                order = await orders.noted(f"T{number}", route_of(told))
                assert order is not None
                assert not order.lacks(told)
        assert orders.width <= len(brokers)
        assert not orders.why_unseen
        await wait_all_tasks_blocked()
        for number in range(orders.width):
            behind = {
                run.broker
                for order in orders.others.values()
                for run in order.runs
                if run.number == number
            }
            assert orders.behind_one(number) == sorted(behind)


async def test_queues_without_a_place_are_reported_with_the_way_on(
    log: UpstreamLog, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        await orders.noted("T", route_of({"b": 1}))
        told = {"a": 1, "b": 1}
        for number in range(ADDED_MAX):
            told["b" if number % 2 else "a"] += 1
            assert not orders.why_unseen
            await orders.noted("T", route_of(told))
        told["a"] += 1
        await orders.noted("T", route_of(told))
        assert "create another topic" in orders.why_unseen
        assert orders.why_unseen in caplog.text
        # Other topics have all their queues.
        for told in ({"b": 1}, {"a": 1, "b": 1}):
            order = await orders.noted("U", route_of(told))
            assert order is not None
            assert not order.lacks(told)


async def test_what_is_no_order_holds_up_no_other_topic(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with orders_of(log) as (orders, _):
        await orders.opened()
        await orders._keys.put(b"topic/T", b"{}")
        assert await orders.noted("T", route_of({"a": 2})) is None
        assert await orders.noted("U", route_of({"a": 2})) is not None


@pytest.mark.parametrize("seed", range(12))
async def test_proxies_agree_for_ever_whatever_is_lost(
    seed: int, autojump_clock: MockClock
) -> None:
    """Topics grow, proxies ask name servers that are behind, are cut off and killed."""
    rng = random.Random(seed)
    log = UpstreamLog(rng)
    log.faults = rng.choice((0.0, 0.05, 0.2))
    told: dict[str, dict[str, int]] = {topic: {"b": 2} for topic in TOPICS}
    history: dict[str, list[dict[str, int]]] = {topic: [{"b": 2}] for topic in TOPICS}
    meaning: dict[tuple[str, SeenQueue], tuple[str, int]] = {}
    seen: dict[str, list[list[SeenQueue]]] = {topic: [] for topic in TOPICS}

    def note(orders: QueueOrders, topic: str, known: Mapping[str, int]) -> None:
        order = orders.of(topic)
        if order is None:
            return
        seen[topic].append(order.queues())
        for broker, count in known.items():
            for number in range(count):
                at = order.seen(broker, number)
                if at is not None:
                    place = (broker, number)
                    assert meaning.setdefault((topic, at), place) == place

    async def proxy(number: int) -> None:
        while True:
            with trio.move_on_after(rng.expovariate(1 / 60)):  # then it is killed
                async with orders_of(log, seed=rng.getrandbits(32)) as (orders, queue):
                    await orders.opened()
                    while True:
                        queue.is_cut = rng.random() < 0.1
                        topic = rng.choice(TOPICS)
                        known = rng.choice(history[topic][-2:])
                        await orders.noted(topic, route_of(known))
                        note(orders, topic, known)
                        await trio.sleep(rng.expovariate(1))
            await trio.sleep(rng.expovariate(1 / 5))

    async with trio.open_nursery() as nursery:
        for number in range(PROXIES):
            nursery.start_soon(proxy, number)
        for _ in range(40):
            await trio.sleep(rng.expovariate(1 / 5))
            topic, broker = rng.choice(TOPICS), rng.choice(BROKERS)
            told[topic][broker] = told[topic].get(broker, 0) + rng.randrange(1, 4)
            history[topic].append(dict(told[topic]))
        nursery.cancel_scope.cancel()
    log.faults = 0.0
    async with orders_of(log, seed=99) as (last, _):
        await last.opened()
        for topic in TOPICS:
            order = await last.noted(topic, route_of(told[topic]))
            assert order is not None
            assert not order.lacks(told[topic])
            note(last, topic, told[topic])
            assert order.queues() == sorted(order.queues())
            for queues in seen[topic]:
                assert order.queues()[: len(queues)] == queues
