"""Logs of keys as a proxy knows them: keys that are lost are never told to have never been."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.gateway.kv import (
    PREFIX,
    KeysUnavailable,
    KnownLog,
    KnownLogs,
    NotYet,
    UpstreamKeys,
    check_births,
    make_keys,
)
from lanemq.proxy.gateway.kv._follower import OTHER_S, SHRUNK_S
from lanemq.proxy.gateway.kv._known import PEERS_S
from lanemq.testkit.proxy.gateways import until
from lanemq.testkit.proxy.upstream_log import UpstreamLog
from lanemq.wire.kv import OpType, encode_drop, partition_of

TOPIC = PREFIX + "n"
BROKER = "broker-b"


def logs_of(seed: int, partitions: int = 1) -> list[UpstreamLog]:
    return [UpstreamLog(random.Random(seed + number)) for number in range(partitions)]


def known_at(path: Path | None) -> KnownLog:
    return KnownLogs(path).of("n")


@asynccontextmanager
async def proxy(
    logs: Sequence[UpstreamLog], known: KnownLog, *, seed: int = 0, timeout_s: float = 5.0
) -> AsyncIterator[UpstreamKeys]:
    async with trio.open_nursery() as nursery:
        keys = make_keys(
            [log.queue(nursery) for log in logs],
            [log.snapshots.queue(nursery) for log in logs],
            namespace="n",
            timeout_s=timeout_s,
            rng=random.Random(seed),
        )

        def check(birth: str, is_dropped: bool, *, partition: int) -> None:
            known.check(birth, BROKER, is_dropped, partition=partition, partitions=len(logs))

        check_births(keys, check)
        nursery.start_soon(keys.run)
        yield keys
        nursery.cancel_scope.cancel()


def names_in(partition: int, partitions: int) -> bytes:
    """Return a key of a partition."""
    names = (b"%d" % number for number in range(1000))
    return next(name for name in names if partition_of(name, partitions) == partition)


async def begun(
    logs: Sequence[UpstreamLog], known: KnownLog, value: bytes = b"1", *, seed: int = 0
) -> Sequence[str]:
    """Have a proxy put a key into each partition; returns the births of the logs."""
    async with proxy(logs, known, seed=seed) as keys:
        for number in range(len(logs)):
            await keys.put(names_in(number, len(logs)), value)
    assert known.own is not None
    return known.own.births


async def lose(log: UpstreamLog) -> None:
    """Take all records of a log away, as a broker that has lost its disk."""
    log.is_down = True
    await trio.sleep(20)  # in which pulls that wait end
    del log.records[:]
    log.is_down = False


async def check_refused(keys: UpstreamKeys, name: bytes, why: str) -> None:
    """Check that neither a read nor a compare-and-set of a key is answered."""
    with pytest.raises(KeysUnavailable, match=why):
        await keys.read(name)
    with pytest.raises(KeysUnavailable, match=why):
        await keys.put(name, b"mine", expected=0)
    assert keys.get(name) is None


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("lost", [0, -1])
async def test_a_log_that_is_lost_while_proxies_run_is_not_served_as_an_empty_one(
    tmp_path: Path, autojump_clock: MockClock, partitions: int, lost: int
) -> None:
    logs = logs_of(1, partitions)
    number = lost % partitions
    name = names_in(number, partitions)
    await begun(logs, known_at(tmp_path))
    async with (
        proxy(logs, known_at(tmp_path), seed=1) as one,
        proxy(logs, known_at(tmp_path), seed=2) as two,
    ):
        assert await one.read(name) == await two.read(name) == (b"1", 1)
        await lose(logs[number])
        await trio.sleep(2 * SHRUNK_S)
        for keys in (one, two):
            await check_refused(keys, name, f"{TOPIC}.json knows that at broker broker-b")
            for other in {*range(partitions)} - {number}:
                assert await keys.read(names_in(other, partitions)) == (b"1", 1)
        # Writes that were under way may come, and are not answered; nobody begins it again.
        assert not any(b"kv_identity" in record.properties for record in logs[number].records)


async def test_a_log_that_is_made_again_while_a_proxy_runs_answers_none_of_its_writes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Whoever knows of no log begins it, as a proxy without --data. It has more records then."""
    (log,) = logs = logs_of(1)
    await begun(logs, known_at(tmp_path))
    async with proxy(logs, known_at(tmp_path), seed=1, timeout_s=60.0) as one:
        await one.put(b"0", b"2")
        log.is_down = True
        answered: list[object] = []

        async def put() -> None:
            with pytest.raises(KeysUnavailable):
                answered.append(await one.put(b"other", b"mine", expected=0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put)
            await lose(log)
            async with proxy(logs, known_at(None), seed=2) as new:
                for _ in range(20):
                    await new.put(b"0", b"new")
            await trio.sleep(2 * SHRUNK_S)
            assert any(b"mine" in record.body for record in log.records), "it is in the log"
        assert not answered
        await check_refused(one, b"0", "is a log begun as")


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_log_that_is_lost_or_made_again_while_no_proxy_runs_is_refused(
    tmp_path: Path, autojump_clock: MockClock, partitions: int
) -> None:
    logs, other = logs_of(1, partitions), logs_of(9, partitions)
    births = await begun(logs, known_at(tmp_path))
    seconds = await begun(other, known_at(None), b"other", seed=5)
    assert not {*births} & {*seconds}
    file = tmp_path / f"{TOPIC}.json"
    ways = (f"deleteKvConfig -s LANEMQ_LOGS -k {TOPIC}", f"remove key-logs/{TOPIC}.json")
    for found, why in ((other, "begun as"), (logs_of(20, partitions), "without records")):
        counts = [len(log.records) for log in found]
        async with proxy(found, known_at(tmp_path), seed=2) as keys:
            for number in range(partitions):
                await check_refused(keys, names_in(number, partitions), why)
                status = keys.statuses()[number]
                assert str(file) in status.problem
                assert all(way in status.problem for way in ways)
            await trio.sleep(2 * OTHER_S)
        assert [len(log.records) for log in found] == counts
    assert known_at(tmp_path).own is not None
    file.unlink()  # the way on
    async with proxy(other, known_at(tmp_path), seed=3) as keys:
        assert await keys.read(names_in(0, partitions)) == (b"other", 1)


async def test_one_queue_alone_that_is_made_again_with_the_identity_of_the_namespace_is_noticed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A proxy that knows no log begins it again as a partition of the same namespace."""
    logs = logs_of(1, 3)
    await begun(logs, known_at(tmp_path))
    identity = ""
    del logs[2].records[:]
    async with proxy(logs, known_at(None), seed=1) as new:
        await new.put(names_in(2, 3), b"new", expected=0)
        identities = {log.state.meta.identity for log in new.logs}
        assert len(identities) == 1
        (identity,) = identities
    async with proxy(logs, known_at(tmp_path), seed=2) as keys:
        await check_refused(keys, names_in(2, 3), "in queue 2")
        assert await keys.read(names_in(1, 3)) == (b"1", 1)
        assert keys.logs[0].state.meta.identity == identity


async def drop(keys: UpstreamKeys) -> None:
    for log in keys.logs:
        await log.write(OpType.DROP, encode_drop(log.state.meta.identity))


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_namespace_that_is_dropped_and_begun_again_is_in_the_same_log(
    tmp_path: Path, autojump_clock: MockClock, partitions: int
) -> None:
    logs, known = logs_of(1, partitions), known_at(tmp_path)
    births = await begun(logs, known)
    file = tmp_path / f"{TOPIC}.json"
    before = file.read_bytes()
    async with proxy(logs, known, seed=1) as keys:
        await keys.read(b"0")
        first = keys.logs[0].state.meta.identity
        await drop(keys)
        await until(lambda: known.own is None)
        assert not file.exists(), "a log without keys may be deleted"
        for log in keys.logs:
            await log.begin_again()
        await until(lambda: known.own is not None and known.own.births == births)
        assert keys.logs[0].state.meta.identity != first
        assert await keys.read(b"0") is None
        assert await keys.put(b"0", b"again", expected=0) is not None
        for writer in keys.writers:
            await writer.write()
    assert file.read_bytes() == before
    # One that was down all the time, and one that begins with a snapshot, whose first record is
    # gone.
    async with proxy(logs, known_at(tmp_path), seed=2) as keys:
        assert await keys.read(b"0") is not None
    for upstream in logs:
        upstream.begin = 1
    async with proxy(logs, known_at(tmp_path), seed=3) as keys:
        assert await keys.read(b"0") is not None


async def test_a_log_that_is_gone_after_its_namespace_was_dropped_is_not_missed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    logs, known = logs_of(1), known_at(tmp_path)
    await begun(logs, known)
    async with proxy(logs, known, seed=1) as keys:
        await keys.read(b"0")
        await drop(keys)
        await until(lambda: known.own is None)
    async with proxy(logs_of(9), known_at(tmp_path), seed=2) as keys:
        assert await keys.put(b"0", b"new", expected=0) == 1


def without_births(log: UpstreamLog) -> None:
    """Write the snapshots as an earlier version did."""
    for at, record in enumerate(log.snapshots.records):
        part = msgspec.msgpack.decode(record.body)
        if part[4]:  # the number of parts, in the last one
            log.snapshots.records[at] = record._replace(body=msgspec.msgpack.encode(part[:-1]))


@pytest.mark.parametrize("is_first_gone", [False, True])
async def test_snapshots_of_an_earlier_version_are_taken_and_the_next_one_says_the_birth(
    tmp_path: Path, autojump_clock: MockClock, is_first_gone: bool
) -> None:
    (log,) = logs = logs_of(1)
    async with proxy(logs, known_at(None)) as keys:
        await keys.put(b"0", b"1")
        await keys.writers[0].write()
        identity = keys.logs[0].state.meta.identity
    without_births(log)
    log.begin = 2 if is_first_gone else 0
    # Two that start with it at once, each with a file of its own.
    knowns = [known_at(tmp_path / name) for name in "ab"]
    async with proxy(logs, knowns[0], seed=1) as one, proxy(logs, knowns[1], seed=2) as two:
        assert await one.read(b"0") == await two.read(b"0") == (b"1", 1)
        births = {known.own.birth for known in knowns if known.own}
        assert len(births) == 1
        assert (births == {identity}) == is_first_gone
        count = len(log.snapshots.records)
        await trio.sleep(20)
        assert len(log.snapshots.records) > count, "at once, and not once it is due"
        count = len(log.snapshots.records)
        await trio.sleep(100)
        assert len(log.snapshots.records) == count
        assert one.logs[0].state.hash == two.logs[0].state.hash
    # The first record is gone since: the snapshot says the birth.
    log.begin = len(log.records) - 1
    async with proxy(logs, known_at(tmp_path / "a"), seed=3) as keys:
        assert await keys.read(b"0") == (b"1", 1)
    await begun(other := logs_of(9), known_at(None))
    async with proxy(other, known_at(tmp_path / "a"), seed=4) as keys:
        await check_refused(keys, b"0", "is a log begun as")


async def test_snapshots_of_a_log_that_was_made_again_since_are_not_taken(
    autojump_clock: MockClock,
) -> None:
    (log,) = logs = logs_of(1)
    async with proxy(logs, known_at(None)) as keys:
        await keys.put(b"old", b"1")
        await keys.writers[0].write()
    del log.records[:]
    async with proxy(logs, known_at(None), seed=1) as keys:
        for _ in range(9):
            await keys.put(b"new", b"1")
        assert await keys.read(b"old") is None


async def test_proxies_tell_one_another_which_logs_of_keys_they_know(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    one = KnownLogs(tmp_path)
    one.of("n").check("a", BROKER, partition=1, partitions=2)
    one.of("m").check("", BROKER)  # which nobody has begun
    new = KnownLogs(None, peers=["p:1", "q:1"])
    with pytest.raises(NotYet, match=f"no log {PREFIX}n, and the proxy at p:1 has not said"):
        new.check_heard("n")
    with pytest.raises(NotYet, match="p:1 has not said"):
        new.of("o").check("x", BROKER)
    new.note_told("p:1", one.told())
    new.note_told("q:1", "")  # of an earlier version
    new.check_heard("m")
    assert new.namespaces == ["n"]
    assert (found := new.expected("n")) is not None
    assert found.births == ("", "a")
    known = new.of("n")
    with pytest.raises(NotYet, match=r"in queue 1, and the proxy at p:1 knows that"):
        known.check("b", BROKER, partition=1, partitions=2)
    with pytest.raises(NotYet, match=r"a log of 1 queues, and the proxy at p:1 knows one of 2"):
        known.check("b", BROKER)
    with pytest.raises(NotYet, match=r"has 3 queues, and the proxy at p:1 knows a log of 2"):
        known.check_place(3, BROKER, is_noted=True)
    with pytest.raises(NotYet, match=r"no name server lists"):
        known.check_place(None, BROKER, is_noted=True)
    known.check_place(2, BROKER, is_noted=True)
    with pytest.raises(NotYet, match="the proxy at p:1 knows"):
        known.check_begin(1000)
    new.note_told("q:1", '{"n": {"birth": "c", "broker": "broker-b", "others": [""]}}')
    known.check("a", BROKER, partition=1, partitions=2)
    assert known.own is not None
    assert known.own.births == ("c", "a")
    assert not new.why_differs("p:1")
    new.note_told("p:1", '{"n": {"birth": "d", "broker": "broker-b", "others": ["a"]}}')
    assert "serves the keys of another log" in new.why_differs("p:1")
    assert not new.why_differs("q:1")
    for text in ("[]", '{"../../n": {"birth": "a", "broker": "broker-b"}}'):
        new.note_told("q:1", text)
        assert new.namespaces == ["n", "o"] or new.namespaces == ["n"]
    assert "does not say which logs of keys it knows" in caplog.text
    late = KnownLogs(None, peers=["p:1"])
    await trio.sleep(PEERS_S)
    late.check_heard("n")


async def test_each_log_of_keys_has_a_file(tmp_path: Path, autojump_clock: MockClock) -> None:
    logs = KnownLogs(tmp_path / "logs")
    logs.of("a").check("1", BROKER)
    logs.of("b").check("2", "broker-c", partition=0, partitions=2)
    KnownLogs(tmp_path / "logs", saves=False).of("c").check("3", BROKER)  # of another worker
    (tmp_path / "logs" / "notes.json").write_text("[]")
    again = KnownLogs(tmp_path / "logs")
    assert again.told() == logs.told()
    assert again.namespaces == ["a", "b"]
    again.of("a").check("1", BROKER, is_dropped=True)
    assert KnownLogs(tmp_path / "logs").namespaces == ["b"]
    (tmp_path / "logs" / f"{PREFIX}b.json").write_text("[]")
    with pytest.raises(ConfigError, match=f"does not name the log {PREFIX}b"):
        KnownLogs(tmp_path / "logs")
