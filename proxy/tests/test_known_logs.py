"""The log of orders as a proxy knows it: another one is not served, and the way on is named."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.gateway.kv import FILE, KnownLog, NotYet, make_keys
from lanemq.proxy.gateway.kv._follower import OTHER_S
from lanemq.proxy.gateway.kv._known import PEERS_S
from lanemq.proxy.gateway.order import QueueOrders
from lanemq.testkit.proxy.gateways import until
from lanemq.testkit.proxy.upstream_log import UpstreamLog

TOPIC = "LANEMQ_PROXY_queues"
BROKER = "broker-b"


@asynccontextmanager
async def following(log: UpstreamLog, known: KnownLog) -> AsyncIterator[QueueOrders]:
    async with trio.open_nursery() as nursery:
        queues, snapshots = [log.queue(nursery)], [log.snapshots.queue(nursery)]
        keys = make_keys(queues, snapshots, namespace="queues", birth=lambda: known.birth)
        keys.logs[0].follower.check = partial(known.check, broker=BROKER)
        orders = QueueOrders(keys, settle_s=0)
        nursery.start_soon(orders.run)
        yield orders
        nursery.cancel_scope.cancel()


def known_at(path: Path) -> KnownLog:
    return KnownLog(path / FILE, TOPIC)


def log_of(seed: int) -> UpstreamLog:
    return UpstreamLog(random.Random(seed))


async def begun(log: UpstreamLog, known: KnownLog) -> str:
    """Have a proxy begin a log, or follow it; returns its birth."""
    async with following(log, known) as orders:
        await orders.keys.put(b"key", b"")
        await until(known.told)
    return known.birth


async def test_another_log_is_not_served_until_the_file_is_removed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    one, other = log_of(1), log_of(2)
    birth = await begun(one, known_at(tmp_path))
    assert known_at(tmp_path).birth == birth
    second = await begun(other, KnownLog(None, TOPIC))
    assert second != birth
    for log, found in ((other, f"begun as {second}"), (log_of(3), "without records")):
        count = len(log.records)
        async with following(log, known_at(tmp_path)) as orders:
            await trio.sleep(3 * OTHER_S)
            assert found in orders.why_unknown
            assert f"{tmp_path / FILE} knows that at broker {BROKER}" in orders.why_unknown
            assert "updateKvConfig" in orders.why_unknown
            assert orders.position < 0
            assert orders.keys.get(b"key") is None
        assert len(log.records) == count
    assert known_at(tmp_path).birth == birth
    (tmp_path / FILE).unlink()
    assert await begun(other, known_at(tmp_path)) == second


async def test_a_log_that_is_lost_as_a_whole_begins_again_as_the_same(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A proxy that has followed it writes back what is lost; one that starts waits for that."""
    log = log_of(1)
    known = known_at(tmp_path)
    async with following(log, known) as orders:
        await until(known.told)
        birth = known.birth
        log.is_down = True
        await trio.sleep(20)  # in which pulls that wait end
        del log.records[:]
        log.is_down = False
        late = known_at(tmp_path)
        async with following(log, late) as others:
            await others.opened()
            await orders.opened()
            assert (late.birth, known.birth) == (birth, birth)
    assert await begun(log, KnownLog(None, TOPIC)) == birth


async def test_proxies_tell_one_another_and_none_begins_a_log_where_another_knows_one(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    first = known_at(tmp_path)
    birth = await begun(log_of(1), first)
    new = KnownLog(None, TOPIC, settle_s=40)
    new.note_told("q:1", "")
    assert new.check_broker("broker-c") == "broker-c"
    new.note_told("p:1", first.told())
    with pytest.raises(NotYet, match="the proxy at p:1 knows"):
        new.check_begin(40)
    assert (new.birth, new.check_broker(None)) == (birth, BROKER)
    with pytest.raises(NotYet, match="broker-c, and by the proxy at p:1 it is at broker-b"):
        new.check_broker("broker-c")
    with pytest.raises(NotYet, match="the proxy at p:1 knows that"):
        new.check("other", BROKER)
    new.note_told("q:1", '{"birth":"other","broker":"broker-c"}')
    with pytest.raises(NotYet, match=r"p:1 that at broker-b and q:1 that at broker-c"):
        new.check_broker(None)
    new.note_told("q:1", "")
    assert new.check_broker(None) == BROKER
    new.note_told("p:1", "")  # their files were removed
    assert (new.birth, new.check_broker(None)) == ("", None)
    first.note_told("q:1", '{"birth":"other","broker":"broker-c"}')
    first.note_told("p:1", "no log")
    assert "one of the two serves" in first.why_differs("q:1")
    assert not first.why_differs("p:1")
    said = [one.message for one in caplog.records if one.levelname == "ERROR"]
    assert len(said) == 2
    alone = KnownLog(None, TOPIC, settle_s=40)
    with pytest.raises(NotYet, match="the same for 40 s"):
        alone.check_begin(39)
    alone.check_begin(40)


async def test_who_knows_no_log_takes_none_before_the_other_proxies_have_said_which_they_know(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Both may have been restarted: each serves its port after it has read a log."""
    first, other = known_at(tmp_path), log_of(2)
    birth = await begun(log_of(1), first)
    second = await begun(other, KnownLog(None, TOPIC))
    new = KnownLog(None, TOPIC, peers=["p:1", "q:1"])
    async with following(other, new) as orders:
        new.note_told("q:1", "")
        await until(lambda: "the proxy at p:1 has not said yet" in orders.why_unknown)
        assert (orders.position, new.told()) == (-1, "")
        with pytest.raises(NotYet, match="p:1 has not said yet"):
            new.check_begin(0)
        with pytest.raises(NotYet, match="p:1 has not said yet"):
            new.check("", BROKER)
        new.note_told("p:1", first.told())
        await until(lambda: f"the proxy at p:1 knows that at broker {BROKER}" in orders.why_unknown)
        assert (new.told(), new.birth) == ("", birth)
    # One that does not answer is not waited for for ever, nor by who knows a log.
    silent = KnownLog(None, TOPIC, peers=["p:1"])
    async with following(other, silent) as orders:
        await trio.sleep(PEERS_S / 2)
        assert not silent.told()
        await orders.opened()
        assert silent.birth == second
    knows = KnownLog(tmp_path / FILE, TOPIC, peers=["p:1"])
    knows.check(birth, BROKER)


async def test_a_file_that_cannot_be_read_is_named_and_one_that_cannot_be_written_is_tried_again(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(b"[]")
    with pytest.raises(ConfigError, match="does not name the log LANEMQ_PROXY_queues"):
        known_at(tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / "file").write_bytes(b"")
    known = known_at(tmp_path / "file")
    known.check("birth", BROKER)
    assert "cannot be written" in caplog.text
    KnownLog(tmp_path / FILE, TOPIC, saves=False).check("birth", BROKER)  # of another worker
    assert not (tmp_path / FILE).exists()
    (tmp_path / "file").unlink()
    known.check("birth", BROKER)
    assert known_at(tmp_path / "file").birth == "birth"
