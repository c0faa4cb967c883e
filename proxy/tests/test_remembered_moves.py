"""Moves, and who stands in, that the log of orders has lost, and proxies know of: written back."""

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from lanemq.proxy.gateway.kv import KeysUnavailable, make_keys
from lanemq.proxy.gateway.moves import MovingQueues
from lanemq.proxy.gateway.moves._remembered import written_back
from lanemq.proxy.gateway.moves._stands import (
    Stand,
    change_stand,
    decode_stand,
    stand_key,
    version_of_stand,
)
from lanemq.proxy.gateway.order import TOPICS, MovedQueue, Part, QueueOrder, QueueOrders, _changes
from lanemq.proxy.gateway.order._order import Run
from lanemq.testkit.proxy.gateways import until
from lanemq.testkit.proxy.upstream_log import UpstreamLog, UpstreamLogQueue
from lanemq.wire import Refused

A, B, C = "a", "b", "c"
KEY = TOPICS + b"T"


def moved(*parts: Part) -> QueueOrder:
    """Return an order with two queues of a broker, of which the first has moved."""
    queues = (MovedQueue(parts),) if len(parts) > 1 else ()
    return QueueOrder(((A, 2),), (), queues, tuple(part.place for part in parts[1:]))


TWICE = moved(Part(A, 0, 5), Part(B, 0, 7), Part(C, 0))


@pytest.mark.parametrize(
    ("log", "is_written", "is_contradicted"),
    [
        (None, True, False),
        (QueueOrder(), True, False),
        (QueueOrder(((A, 1),)), True, False),
        (moved(), True, False),
        (moved(Part(A, 0, 5), Part(B, 0)), True, False),
        (TWICE, False, False),
        (moved(Part(A, 0, 5), Part(B, 0, 7), Part(C, 0, 1), Part(A, 2)), False, False),
        # It has gone on elsewhere, or has ended elsewhere.
        (moved(Part(A, 0, 5), Part(C, 0)), False, True),
        (moved(Part(A, 0, 6), Part(B, 0)), False, True),
        (moved(Part(A, 0, 5), Part(C, 0, 7), Part(B, 0)), False, True),
        (moved(Part(A, 0, 5), Part(C, 0, 7), Part(B, 0, 9), Part(A, 2)), False, True),
    ],
)
def test_a_queue_gets_back_the_parts_that_continue_those_of_the_log(
    log: QueueOrder | None, is_written: bool, is_contradicted: bool
) -> None:
    back, contradicted = written_back(TWICE, log)
    assert back == (TWICE if is_written else log)
    assert bool(contradicted) == is_contradicted
    assert QueueOrder.decode(back.encode()) == back


def test_what_the_log_has_besides_stays() -> None:
    other = MovedQueue((Part(A, 1),), Part(B, 1))
    log = QueueOrder(((A, 2), (B, 0)), (), (other,), ((B, 1),))
    back, _ = written_back(TWICE, log)
    assert back.first == log.first
    assert back.moved_at(A, 1) == other
    assert back.moved_at(A, 0) == TWICE.moved[0]
    assert QueueOrder.decode(back.encode()) == back


@pytest.mark.parametrize("end", [None, 5, 9])
def test_moves_since_the_log_was_broken_stay_where_queues_come_back(end: int | None) -> None:
    """The log has fewer queues than before, and a queue of these has moved since."""
    place = 1 if end is None else 0
    known = QueueOrder(
        ((A, 2),),
        (Run(0, A, 3, 1),),  # the queue between was made for a move that was called off
        (MovedQueue((Part(A, place, 5), Part(B, 0))),),
        ((A, 2), (B, 0)),
    )
    since = MovedQueue((Part(A, 0, end or 5), Part(C, 0)))
    log = QueueOrder(((A, 1),), (), (since,), ((C, 0),))
    back, contradicted = written_back(known, log)
    assert (back.first, back.runs) == (known.first, known.runs)
    assert back.moved_at(A, 0) == since
    assert {*back.kept} == {(A, 2), (B, 0), (C, 0)}
    if end is None:
        assert back.moved_at(A, 1) == known.moved[0]
        assert not contradicted
    else:
        assert contradicted == list(known.moved)
    assert QueueOrder.decode(back.encode()) == back


def test_a_queue_that_was_made_for_a_move_since_does_not_come_back_as_another_one() -> None:
    known = QueueOrder(((A, 2), (B, 1)), (), (MovedQueue((Part(A, 1, 5), Part(C, 0))),), ((C, 0),))
    log = QueueOrder(((A, 2),), (), (MovedQueue((Part(A, 0, 5), Part(B, 0))),), ((B, 0),))
    back, _ = written_back(known, log)
    assert back.first == log.first
    assert {*back.moved} == {*log.moved, *known.moved}
    assert QueueOrder.decode(back.encode()) == back


@asynccontextmanager
async def moving_at(log: UpstreamLog, name: str) -> AsyncIterator[MovingQueues]:
    async with trio.open_nursery() as nursery:
        queues, snapshots = [log.queue(nursery)], [log.snapshots.queue(nursery)]
        rng = random.Random(name)
        keys = make_keys(queues, snapshots, namespace="queues", rng=rng)
        orders = QueueOrders(keys, settle_s=0)
        moving = MovingQueues(orders, name, nursery=nursery, links_to=lambda _: ())
        for run in (orders.run, moving.lease.run, moving.run):
            nursery.start_soon(run)
        await moving.lease.granted.wait()
        yield moving
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_regrown", [False, True])
async def test_a_move_that_the_log_has_lost_is_written_back_before_anything_is_served(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, is_regrown: bool
) -> None:
    log = UpstreamLog(random.Random(1))
    async with moving_at(log, "p") as p, moving_at(log, "q") as q:
        await p.orders.keys.put(KEY, moved().encode())
        kept = len(log.records)
        for parts in (TWICE.moved[0].parts[:1], TWICE.moved[0].parts):
            await p.orders.keys.put(KEY, moved(*parts).encode())
        await until(lambda: q.now("T", (A, 0)).parts == TWICE.moved[0].parts)
        eras = [one.lease.era for one in (p, q)]
        log.is_down = True
        await trio.sleep(20)  # in which pulls that wait end
        lost = log.records[kept:]
        del log.records[kept:]
        for one in lost if is_regrown else ():  # as many records, which others have written since
            log.store(b"no record", one.properties)
        log.is_down = False

        def is_served(by: MovingQueues) -> bool:
            """Look at a queue as a request does."""
            try:
                by.check_sure()
            except Refused:
                return False
            assert by.now("T", (A, 0)).parts == TWICE.moved[0].parts
            return True

        def has_seen(by: MovingQueues, era: int) -> bool:
            return not is_served(by) or by.lease.era > era

        with caplog.at_level(logging.CRITICAL):
            # One of them may be served again before the other one has seen the loss.
            for by, era in zip((p, q), eras, strict=True):
                await until(partial(has_seen, by, era))
            await until(lambda: is_served(p) and is_served(q))
        for by, era in zip((p, q), eras, strict=True):
            assert by.orders.of("T") == TWICE
            assert by.lease.era > era
        assert sum("had lost moves" in record.message for record in caplog.records) >= 1
        async with moving_at(log, "r") as r:
            assert r.now("T", (A, 0)).parts == TWICE.moved[0].parts


U_KEY = TOPICS + b"U"
MOVED_ONCE = moved(Part(A, 0, 5), Part(B, 0))


@asynccontextmanager
async def after_moves_of_two_topics_are_lost() -> AsyncIterator[MovingQueues]:
    """Give a proxy that knows of moves of topics T and U that the log has lost; it is down."""
    log = UpstreamLog(random.Random(1))
    async with moving_at(log, "p") as p:
        await p.orders.keys.put(b"other", b"")
        kept = len(log.records)
        for key, order in ((KEY, TWICE), (U_KEY, MOVED_ONCE)):
            await p.orders.keys.put(key, order.encode())
        await until(lambda: p.of_topic("T") and p.of_topic("U"))
        log.is_down = True
        await trio.sleep(20)  # in which pulls that wait end
        del log.records[kept:]
        log.is_down = False
        yield p


async def test_a_topic_that_is_not_written_yet_holds_up_no_other_one_and_says_why(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with after_moves_of_two_topics_are_lost() as p:
        is_full, put = True, p.orders.keys.put

        async def put_with_room(
            name: bytes, value: bytes, *, expected: int | None = None, ttl_s: float = 0.0
        ) -> int | None:
            if is_full and name == KEY:
                raise KeysUnavailable("there is no room")
            return await put(name, value, expected=expected, ttl_s=ttl_s)

        monkeypatch.setattr(p.orders.keys, "put", put_with_room)
        await until(lambda: "topic T is not yet: there is no room" in p.lease.why)
        assert (p.orders.of("T"), p.orders.of("U")) == (None, MOVED_ONCE)
        with pytest.raises(Refused, match="there is no room"):
            p.check_sure()
        is_full = False
        await until(lambda: p.lease.is_sure)
        assert (p.orders.of("T"), p.orders.of("U")) == (TWICE, MOVED_ONCE)
        p.check_sure()


async def test_a_topic_that_can_never_be_written_is_said_and_holds_up_no_other_one(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with after_moves_of_two_topics_are_lost() as p:
        monkeypatch.setattr(_changes, "BEHIND_MAX", 2)
        with caplog.at_level(logging.CRITICAL):
            await until(lambda: not p.lease.is_sure)
            await until(lambda: p.lease.is_sure)
        assert (p.orders.of("T"), p.orders.of("U")) == (None, MOVED_ONCE)
        said = "topic T: lost moves cannot be written back: 2 brokers have added or moved queues"
        assert [said in record.message for record in caplog.records].count(True) == 1


@pytest.mark.parametrize("since", [None, Stand(C)], ids=["", "changed since"])
async def test_who_stands_in_is_written_back_before_anything_is_served(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, since: Stand | None
) -> None:
    log = UpstreamLog(random.Random(1))
    async with moving_at(log, "p") as p, moving_at(log, "q") as q:
        keys = p.orders.keys
        await change_stand(keys, A, Stand(A, B), 0)
        await keys.put(stand_key("e"), b"no entry")
        kept = len(log.records)
        await change_stand(keys, A, Stand(B), version_of_stand(keys, A))
        await change_stand(keys, C, Stand(B, "", True), 0)
        await until(lambda: p.stands.is_drained(C) and q.stands.is_drained(C))
        known = dict(p.stands.known)
        assert known == {A: known[A], C: known[C]}
        if since is not None:  # by who knew a later entry
            known[A] = replace(since, number=known[A].number + 1)
        eras = {one: one.lease.era for one in (p, q)}
        log.is_down = True
        await trio.sleep(20)  # in which pulls that wait end
        del log.records[kept:]
        log.is_down = False
        with caplog.at_level(logging.CRITICAL):
            await until(lambda: all(one.lease.era > eras[one] for one in (p, q)))
            if since is not None:
                await keys.put(stand_key(A), msgspec.json.encode(known[A]))
                await until(lambda: p.stands.of(A) == q.stands.of(A) == known[A])

            def is_served(by: MovingQueues) -> bool:
                try:
                    by.check_sure()
                except Refused:
                    return False
                assert by.stands.known == known
                return by.stands.is_unreadable("e")

            await until(lambda: is_served(p) and is_served(q))
            async with moving_at(log, "r") as r:
                assert r.stands.known == known
    said = [one.message for one in caplog.records if "that b stands in for it" in one.message]
    assert len({one.split(":")[0] for one in said}) >= 1 + (since is None)


@pytest.mark.parametrize("since", [Stand(A, is_ended=True), Stand(C)], ids=["ended", "again"])
@pytest.mark.parametrize("is_lost", [True, False])
async def test_who_was_cut_off_writes_back_nothing_that_has_ended_or_was_decided_again(
    autojump_clock: MockClock, since: Stand, is_lost: bool
) -> None:
    """The log has lost records, that of the entry among them or later ones alone."""
    log = UpstreamLog(random.Random(1))
    async with moving_at(log, "p") as p:
        keys = p.orders.keys
        kept = len(log.records)
        for at in range(40):  # more than others write since
            await keys.put(b"other", b"%d" % at)
        await change_stand(keys, A, Stand(B), 0)
        if not is_lost:
            kept = len(log.records)
            await keys.put(b"other", b"")
        await until(lambda: p.stands.is_drained(A))
        queue = keys.logs[0]._queue
        assert isinstance(queue, UpstreamLogQueue)
        queue.is_cut = True
        await trio.sleep(20)  # in which the pull that waits ends
        del log.records[kept:]
        async with moving_at(log, "r") as r:
            version = version_of_stand(r.orders.keys, A)
            assert bool(version) != is_lost
            assert await change_stand(r.orders.keys, A, since, version)
            await until(lambda: r.stands.of(A) == now_of(r, since))
            now, era = dict(r.stands.all()), p.lease.era
            queue.is_cut = False
            await until(lambda: p.lease.era > era)
            await until(lambda: p.lease.is_sure)
            p.check_sure()
            assert p.stands.all() == now
            assert r.stands.all() == now


def now_of(by: MovingQueues, stand: Stand) -> Stand | None:
    """Return an entry as it is seen once it is put."""
    by.refresh()
    return None if stand.is_ended else replace(stand, number=by.stands.all()[A].number)


async def test_a_later_entry_has_a_greater_number(autojump_clock: MockClock) -> None:
    async with moving_at(UpstreamLog(random.Random(1)), "p") as p:
        keys, numbers = p.orders.keys, list[int]()
        for stand in (Stand(A, B), Stand(B), Stand(A, is_ended=True), Stand(A, C, number=1)):
            assert await change_stand(keys, A, stand, version_of_stand(keys, A))
            entry = keys.get(stand_key(A))
            assert entry is not None
            numbers.append(decode_stand(entry.value).number)
        assert numbers == sorted(set(numbers))
