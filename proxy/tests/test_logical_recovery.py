"""Migrations that go wrong: late writers, crashes, lost answers, tools that race, brokers away."""

from contextlib import suppress
from dataclasses import replace
from typing import Literal

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.logical.cluster import (
    TOPIC,
    LogicalCluster,
    messages_of,
    redirect_of,
    until,
    without_number,
)
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire import RequestCode
from lanemq.wire.bodies import RouteData
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    Chain,
    MigrateLogicalQueue,
    ReuseLogicalQueue,
    Segment,
    SegmentState,
    check_chain,
)

NORMAL, READ_ONLY = SegmentState.NORMAL, SegmentState.READ_ONLY
WRITE_ONLY, EXPIRED = SegmentState.WRITE_ONLY, SegmentState.EXPIRED
PREPARE = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE


def moved(answer: Frame) -> tuple[Segment, Segment]:
    """The two segments in an answer."""
    assert answer.code == 0, answer.remark
    move = MigrateLogicalQueue.decode(answer.body)
    assert move.source is not None
    assert move.destination is not None
    return move.source, move.destination


def states(chain: Chain) -> list[tuple[str, int, int, str]]:
    return [(s.broker_name, s.delta, s.offset_max, s.state.value) for s in chain]


# Seals


async def test_a_stuck_writer_ends_the_seal_and_leaves_the_queue_open(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    target = await cluster.destination(0, "broker2")
    logical = cluster.brokers["broker1"].running.context.logical
    began_s = trio.current_time()
    with logical.gate.writing(logical.mappings[TOPIC], 0):
        answer = await cluster.prepare(source, target)
        assert (answer.code, answer.remark) == (1, "seal timeout")
    assert 10 <= trio.current_time() - began_s < 10.5
    assert states(await cluster.chain("broker1", 0)) == [("broker1", 0, -1, "Normal")]
    await cluster.fill(source, 1, first=10)
    assert logical.gate.in_flight((TOPIC, 0)) == 0
    sealed, opened = moved(await cluster.prepare(source, target))
    assert (sealed.offset_max, opened.delta) == (11, 11)


async def test_a_disk_that_hangs_ends_the_seal_and_leaves_the_queue_open(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
        store = cluster.brokers["broker1"].running.context.store
        hangs = trio.Event()

        async def flushed(position: int) -> None:
            await hangs.wait()

        original, store.flushed = store.flushed, flushed  # type: ignore[method-assign]
        answer = await cluster.prepare(source, target)
        assert (answer.code, answer.remark) == (1, "seal timeout")
        store.flushed = original  # type: ignore[method-assign]
        assert (await cluster.send(source)).code == 0
        assert (await cluster.prepare(source, target)).code == 0


@pytest.mark.slow
async def test_no_writer_slips_in_behind_a_seal(cluster: LogicalCluster) -> None:
    source = await cluster.normal(0)
    target = await cluster.destination(0, "broker2")
    accepted: list[int] = []
    done = False

    async def write() -> None:
        client = await cluster.connect("broker1")
        while not done:
            answer = await client.send(TOPIC, queue_id=0, sys_flag=64)
            if answer.code == 0:
                accepted.append(int(answer.fields["queueOffset"]))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(write)
        await trio.sleep(0.2)
        sealed, _ = moved(await cluster.prepare(source, target))
        await trio.sleep(0.2)
        done = True
    assert accepted
    assert sorted(accepted) == list(range(10, sealed.offset_max))
    store = cluster.brokers["broker1"].running.context.store
    assert store.bounds(TOPIC, 0)[1] == sealed.offset_max


async def test_readers_go_on_while_a_queue_is_sealed(cluster: LogicalCluster) -> None:
    source = await cluster.normal(0)
    target = await cluster.destination(0, "broker2")
    logical = cluster.brokers["broker1"].running.context.logical
    async with trio.open_nursery() as nursery:
        with logical.gate.writing(logical.mappings[TOPIC], 0):
            nursery.start_soon(cluster_prepare, cluster, source, target)
            await until(lambda: logical.gate.is_closed((TOPIC, 0)))
            began_s = trio.current_time()
            reader = await cluster.connect("broker1")
            assert len(messages_of(await reader.pull(TOPIC, 0, 0))) == 10
            assert trio.current_time() - began_s < 1
    assert (await cluster.chain("broker1", 0))[0].state is READ_ONLY


async def cluster_prepare(cluster: LogicalCluster, source: Segment, target: Segment) -> None:
    assert (await cluster.prepare(source, target)).code == 0


async def test_a_tool_that_hangs_up_while_it_waits_leaves_the_queue_open(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    target = await cluster.destination(0, "broker2")
    logical = cluster.brokers["broker1"].running.context.logical
    tool = await cluster.connect("broker1")
    with logical.gate.writing(logical.mappings[TOPIC], 0):
        body = MigrateLogicalQueue(source, target).encode()
        await tool.peer.send(tool.frame(PREPARE, body=body))
        await until(lambda: logical.gate.is_closed((TOPIC, 0)))
        await tool.peer.stream.aclose()
        await trio.sleep(0.1)
    assert not logical.gate.is_closed((TOPIC, 0))
    assert (await cluster.send(source)).code == 0
    assert (await cluster.prepare(source, target)).code == 0


# Readers in the window


async def test_between_prepare_and_commit_readers_wait_and_never_spin(
    cluster: LogicalCluster,
) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    source, target = moved(await cluster.prepare(source, target))
    reader = await cluster.connect("broker1")
    # The end of a logical queue in the window is that of the sealed segment.
    answer = await reader.call(
        RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0", "logicalQueue": "true"}
    )
    assert (answer.fields["offset"], "REDIRECT" in answer.fields) == ("10", False)
    # Short of a long poll, there is just nothing new; never "again, at once".
    answer = await reader.pull(TOPIC, 0, 10)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (19, "10")
    answer = await (await cluster.connect("broker2")).pull(TOPIC, target.queue_id, 0)
    assert (answer.code, answer.remark) == (19, "logical queue write only")
    began_s, answers = trio.current_time(), []

    async def wait(name: str, segment: Segment, offset: int) -> None:
        client = await cluster.connect(name)
        answers.append(
            (
                await client.pull(
                    TOPIC, segment.queue_id, offset, sys_flag=6, suspend_timeout_millis=15_000
                ),
                trio.current_time() - began_s,
            )
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "broker1", source, 10)
        nursery.start_soon(wait, "broker2", target, 0)
        # A message in the closed segment is nobody's to read yet, and wakes nobody.
        await trio.sleep(0.5)
        await cluster.send(target, b"early")
        await trio.sleep(0.5)
        assert not answers
        _, opened = moved(await cluster.commit(source, target))
        await cluster.notify("broker1", source, opened)
    by_broker = {"REDIRECT" in answer.fields: (answer, at_s) for answer, at_s in answers}
    assert redirect_of(by_broker[True][0]).following == without_number(opened)
    assert [m.body for m in messages_of(by_broker[False][0])] == [b"early"]
    assert max(at_s for _, at_s in answers) < 2
    answer = await reader.call(
        RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0", "logicalQueue": "true"}
    )
    assert (answer.fields["offset"], answer.fields.get("REDIRECT")) == ("10", "1")


async def test_a_pull_that_waited_in_vain_ends_with_nothing_new(cluster: LogicalCluster) -> None:
    await cluster.seal("broker1", 0, 0)
    client = await cluster.connect("broker1")
    began_s = trio.current_time()
    answer = await client.pull(TOPIC, 0, 10, sys_flag=6, suspend_timeout_millis=15_000)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (19, "10")
    assert 15 <= trio.current_time() - began_s < 16


# Repetition and races


async def test_every_step_may_be_repeated(cluster: LogicalCluster) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    again = await cluster.create("broker2", 0)
    assert (again.code, again.remark) == (1, "multiple WriteOnly queue")
    first = moved(await cluster.prepare(source, target))
    assert moved(await cluster.prepare(source, target)) == first
    sealed, placed = first
    opened = moved(await cluster.commit(sealed, placed))
    assert moved(await cluster.commit(sealed, placed)) == opened
    for _ in range(2):
        assert (await cluster.notify("broker1", *opened)).code == 0
    assert moved(await cluster.prepare(source, target)) == (sealed, opened[1])
    # What is committed never changes.
    answer = await cluster.commit(sealed, placed.with_delta(99))
    assert answer.code == 1
    assert (await cluster.chain("broker2", 0))[-1].delta == 10


async def test_the_same_step_twice_at_once_is_taken_once(cluster: LogicalCluster) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    answers: list[tuple[Segment, Segment]] = []

    async def prepare() -> None:
        client = await cluster.connect("broker1")
        body = MigrateLogicalQueue(source, target).encode()
        answers.append(moved(await client.call(PREPARE, body=body)))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(prepare)
    assert answers[0] == answers[1] == answers[2]


async def test_of_two_tools_one_wins(autojump_clock: MockClock) -> None:
    async with mapped_cluster("broker1", "broker2", "broker3") as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 5)
        targets = [await cluster.destination(0, name) for name in ("broker2", "broker3")]
        answers: list[Frame] = []

        async def migrate(target: Segment) -> None:
            client = await cluster.connect("broker1")
            body = MigrateLogicalQueue(source, target).encode()
            answers.append(await client.call(PREPARE, body=body))

        async with trio.open_nursery() as nursery:
            for target in targets:
                nursery.start_soon(migrate, target)
        lost = [answer for answer in answers if answer.code != 0]
        assert [(answer.code, answer.remark) for answer in lost] == [(1, "migration in progress")]
        (won,) = (answer for answer in answers if answer.code == 0)
        sealed, placed = moved(won)
        # Prepared, and not complete: still nobody else's turn; nor may the topic go.
        (other,) = (t for t in targets if t.key != placed.key)
        assert (await cluster.prepare(source, other)).remark == "migration in progress"
        client = await cluster.at("broker1")
        answer = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert (answer.code, answer.remark) == (1, "migration in progress")
        _, opened = moved(await cluster.commit(sealed, placed))
        await cluster.notify("broker1", sealed, opened)
        assert not check_chain(await cluster.chain("broker1", 0))
        remark = (await cluster.prepare(source, other)).remark
        assert remark == "message queue 0 not normal state"


async def test_prepare_names_what_is_wrong(cluster: LogicalCluster) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    client = await cluster.at("broker1")
    for code in (PREPARE, 418, 419, 414, 415, 416):
        for body in (b"", b"7", b"{}"):
            answer = await client.call(code, body=body)
            assert (answer.code, answer.remark) == (1, "decode error"), code
    for wrong, remark in (
        (rename(source, topic="unknown"), "topic not exist"),
        (rename(source, topic="plain"), "topic not enable logical queue"),
        (reindex(source, 9), "logical queue 9 not exist"),
        (rename(source, queue_id=7), "message queue 7 not exist"),
    ):
        await client.send("plain")
        there = rename(target, topic=wrong.message_queue.topic)
        answer = await cluster.prepare(wrong, there)
        assert (answer.code, answer.remark) == (1, remark)
    answer = await cluster.commit(source.sealed(10), rename(target, queue_id=5).with_delta(10))
    assert (answer.code, answer.remark) == (1, "message queue 5-0 not exist")
    answer = await cluster.commit(source.sealed(10), reindex(target, 9).with_delta(10))
    assert (answer.code, answer.remark) == (1, "logical queue 9 not exist")


def rename(segment: Segment, *, topic: str = TOPIC, queue_id: int | None = None) -> Segment:
    queue = replace(
        segment.message_queue,
        topic=topic,
        queue_id=segment.queue_id if queue_id is None else queue_id,
    )
    return replace(segment, message_queue=queue)


def reindex(segment: Segment, index: int) -> Segment:
    return replace(segment, logical_index=index)


# Crashes


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "power"])
@pytest.mark.parametrize("victim", ["broker1", "broker2", "tool"])
@pytest.mark.parametrize("step", [3, 4, 5, 6])
async def test_a_crash_after_any_step_is_put_right(
    autojump_clock: MockClock, step: int, victim: str, how: Literal["kill", "power"]
) -> None:
    async with mapped_cluster(seed=step) as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 10)
        target = await cluster.destination(0, "broker2")
        if step >= 4:
            source, target = moved(await cluster.prepare(source, target))
        if step >= 5:
            source, target = moved(await cluster.commit(source, target))
        if step >= 6:
            await cluster.notify("broker1", source, target)
        if victim != "tool":
            broker = cluster.brokers[victim]
            await broker.kill()
            await trio.sleep(3)
            await broker.restart(how)
            cluster.forget()
        if step == 3 and victim != "broker1":  # nobody is sealed: the tool goes on where it was
            assert (await cluster.normal(0)).broker_name == "broker1"
            answer = await cluster.create("broker2", 0)
            assert answer.remark == "multiple WriteOnly queue"
            (left,) = (s for s in await cluster.chain("broker2", 0) if s.state is WRITE_ONLY)
            source, target = moved(await cluster.prepare(source, left))
        await trio.sleep(10)
        expected = [("broker1", 0, 10, "ReadOnly"), ("broker2", 10, -1, "Normal")]
        for name in cluster.brokers:
            assert states(await cluster.chain(name, 0)) == expected
        journal = cluster.brokers["broker1"].running.context.logical.journal
        assert not journal.all()
        answer = await cluster.send(await cluster.normal(0), b"10")
        assert answer.fields["queueOffset"] == "0"
        assert len(messages_of(await cluster.pull(source, 0))) == 10


async def test_a_source_that_returns_takes_nothing_behind_what_a_destination_took(
    cluster: LogicalCluster,
) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    await cluster.brokers["broker1"].kill()
    await trio.sleep(1)
    assert (await cluster.send(target, b"10")).code == 0  # name servers show it by now
    await cluster.brokers["broker1"].restart("kill")
    cluster.forget()
    # At once: a producer's next message must not get a place before its last one.
    assert redirect_of(await cluster.send(source, b"11")).following.key == target.key
    await trio.sleep(5)
    expected = [("broker1", 0, 10, "ReadOnly"), ("broker2", 10, -1, "Normal")]
    for name in cluster.brokers:
        assert states(await cluster.chain(name, 0)) == expected
    target = await cluster.normal(0)
    assert (await cluster.send(target, b"11")).code == 0
    found = messages_of(await cluster.pull(target, 0))
    assert [(target.to_logical(m.queue_offset), m.body) for m in found] == [
        (10, b"10"),
        (11, b"11"),
    ]


async def test_a_source_that_returns_before_its_destination_is_as_open_as_it_was(
    cluster: LogicalCluster,
) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    for name in ("broker1", "broker2"):
        await cluster.brokers[name].kill()
    await cluster.brokers["broker1"].restart("kill")
    cluster.forget()
    assert (await cluster.send(source, b"10")).code == 0
    await cluster.brokers["broker2"].restart("kill")
    await trio.sleep(40)
    assert await cluster.normal(0) == source
    _, placed = moved(await cluster.prepare(source, target))
    assert placed.delta == 11


@pytest.mark.slow
@pytest.mark.parametrize("operations", range(0, 22, 2))
async def test_a_source_that_dies_in_the_middle_of_a_step_is_sealed_when_it_is_back(
    autojump_clock: MockClock, operations: int
) -> None:
    async with mapped_cluster(seed=operations) as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 10)
        target = await cluster.destination(0, "broker2")
        broker = cluster.brokers["broker1"]
        broker.files.crash_after = operations
        with trio.move_on_after(20):
            with suppress(EOFError, trio.BrokenResourceError):
                await cluster.prepare(source, target)
        await broker.kill()
        await broker.restart("power")
        cluster.forget()
        await trio.sleep(10)  # sealed before or not, it is when it is back
        chain = await cluster.chain("broker1", 0)
        assert [s.state for s in chain] == [READ_ONLY, NORMAL]
        assert not check_chain(chain)
        assert (await cluster.normal(0)).broker_name == "broker2"


async def test_a_migration_that_was_called_off_leaves_the_source_open_and_loses_nothing(
    cluster: LogicalCluster,
) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    _, placed = moved(await cluster.prepare(source, target))
    await cluster.map("broker2", target.queue_id, -1)
    await trio.sleep(5)
    assert states(await cluster.chain("broker1", 0)) == [
        ("broker1", 0, 10, "ReadOnly"),
        ("broker1", 10, -1, "Normal"),
    ]
    again = await cluster.normal(0)
    assert (again.queue_id, again.offset_delta) == (0, 10)
    # A producer that had heard of the destination is sent back.
    redirect = redirect_of(await cluster.send(placed, b"10"))
    assert redirect.following == without_number(again)
    sent = await cluster.send(again, b"10")
    assert again.to_logical(int(sent.fields["queueOffset"])) == 10
    # And the next migration is like any other, onto the queue that was made for the first.
    second, third = await cluster.migrate(0, "broker2", reuse=target.queue_id)
    assert (second.offset_max, third.delta) == (11, 11)
    assert (await cluster.send(third)).code == 0


@pytest.mark.parametrize("is_down", [False, True])
async def test_a_tool_that_calls_a_migration_off_finds_the_source_open(
    autojump_clock: MockClock, cluster: LogicalCluster, *, is_down: bool
) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    sealed, _ = moved(await cluster.prepare(source, target))
    broker1 = cluster.brokers["broker1"]
    if is_down:
        await broker1.kill()
    await cluster.map("broker2", target.queue_id, -1)
    called_off = (await cluster.chain("broker2", 0)).find(target.key)
    assert called_off is not None
    assert (called_off.state, called_off.count) == (EXPIRED, 0)
    if is_down:
        await broker1.restart("kill")
        cluster.forget()
        await trio.sleep(5)
    for name in ("broker1", "broker2"):
        await cluster.notify(name, called_off, sealed)
    assert (await cluster.normal(0)).broker_name == "broker1"
    assert not broker1.running.context.logical.journal.all()


async def test_a_destination_with_messages_cannot_be_called_off(cluster: LogicalCluster) -> None:
    target = await cluster.destination(0, "broker2")
    assert (await cluster.send(target)).code == 0
    answer = await cluster.map("broker2", target.queue_id, -1)
    assert answer.code == 1
    assert (await cluster.chain("broker2", 0))[-1].state is WRITE_ONLY


async def test_an_empty_queue_whose_migration_was_called_off_is_open_as_before(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
        moved(await cluster.prepare(source, target))
        await cluster.map("broker2", target.queue_id, -1)
        await trio.sleep(5)
        assert without_number(await cluster.normal(0)) == source


# Brokers away


async def test_a_lost_source_is_gone_past_and_gives_way_when_it_returns(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 150)
        await cluster.brokers["broker1"].kill()
        target = await cluster.destination(0, "broker2")
        # Without the source, the destination takes messages, and nobody knows their place.
        answer = await cluster.send(target, b"early")
        assert (answer.code, target.to_logical(int(answer.fields["queueOffset"]))) == (0, -1)
        _, opened = moved(await cluster.commit(source, target.with_delta(200)))
        assert opened.to_logical(0) == 200
        answer = await cluster.commit(source, target.with_delta(300))
        assert answer.code == 1
        await cluster.brokers["broker1"].restart("kill")
        cluster.forget()
        chain = await cluster.chain("broker1", 0)
        assert states(chain) == [("broker1", 0, 150, "ReadOnly"), ("broker2", 200, -1, "Normal")]
        findings = check_chain(chain)
        assert all(finding.is_gap for finding in findings)
        logical = cluster.brokers["broker1"].running.context.logical
        assert not logical.counters.alarms
        assert redirect_of(await cluster.send(source)).following.broker_name == "broker2"
        assert len(messages_of(await cluster.pull(source, 120))) == 30


async def test_a_source_that_returns_with_more_is_clipped_and_says_so(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 40)
        await cluster.brokers["broker1"].kill()
        target = await cluster.destination(0, "broker2")
        moved(await cluster.commit(source, target.with_delta(30)))
        await cluster.brokers["broker1"].restart("kill")
        cluster.forget()
        chain = await cluster.chain("broker1", 0)
        assert states(chain) == [("broker1", 0, 30, "ReadOnly"), ("broker2", 30, -1, "Normal")]
        (alarm,) = cluster.brokers["broker1"].running.context.logical.counters.alarms.values()
        assert alarm.startswith("10 messages from 30 on ")
        # Readers of the logical queue never see them; those of the message queue do.
        assert len(messages_of(await cluster.pull(chain[0], 20))) == 10
        old = await cluster.at("broker1", version=407)
        assert len(await old.messages(TOPIC, 0, 20)) == 20


async def test_a_source_that_is_up_cannot_be_gone_past(cluster: LogicalCluster) -> None:
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    answer = await cluster.commit(source, target.with_delta(200))
    assert answer.code == 1
    assert "is up" in (answer.remark or "")
    sealed, placed = moved(await cluster.prepare(source, target))
    # Below the end of what was sealed, offsets would be given out twice.
    for first in (source, sealed, None):
        answer = await cluster.commit(first, placed.with_delta(9))
        assert answer.code == 1
    moved_source, opened = moved(await cluster.commit(sealed, placed))
    assert (moved_source, opened.delta) == (sealed, 10)


async def test_a_further_segment_begins_where_the_queue_ended(cluster: LogicalCluster) -> None:
    await cluster.seal("broker1", 0, 0)
    for name, index in (("broker1", 0), ("broker2", 0)):
        answer = await cluster.create(name, index, NORMAL)
        if name == "broker1":
            assert Segment.decode(answer.body).delta == 10
        else:  # another broker knows of it, too
            assert (answer.code, answer.remark) == (1, "multiple writable queue")
    queue_id = (await cluster.normal(0)).queue_id
    await cluster.fill(await cluster.normal(0), 5)
    await cluster.seal("broker1", queue_id, 0)
    answer = await cluster.create("broker2", 0, NORMAL, 3)
    assert answer.code == 1
    answer = await cluster.create("broker2", 0, NORMAL)
    assert Segment.decode(answer.body).delta == 15
    answer = await cluster.create("broker2", 4, NORMAL, 7)
    assert Segment.decode(answer.body).delta == 7


async def test_old_clients_see_a_new_queue_at_once(autojump_clock: MockClock) -> None:
    async with mapped_cluster(logical_queue_physical_topics=TOPIC) as cluster:
        await cluster.migrate(0, "broker2")
        stream = await cluster.network.dialer("10.0.9.9")(cluster.name_server.host, 9876)
        client = Client(Peer(stream))
        answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
        route = RouteData.decode(answer.body)
        queues = {data.broker_name: data.write_queue_nums for data in route.queue_datas}
        assert queues == {"broker1": 1, "broker2": 2}


async def test_remarks_of_growth(cluster: LogicalCluster) -> None:
    await cluster.create_topic("plain", queues=1)
    answer = await cluster.create("broker1", 0, topic="plain")
    assert (answer.code, answer.remark) == (1, "topic not enable logical queue")
    answer = await cluster.create("broker1", 0, NORMAL)
    assert (answer.code, answer.remark) == (1, "multiple writable queue")
    answer = await cluster.reuse("broker1", 1, 0)
    assert (answer.code, answer.remark) == (1, "found no queue")
    answer = await cluster.reuse("broker1", 0, 5)
    assert (answer.code, answer.remark) == (1, "queue writable")
    client = await cluster.at("broker1")
    body = ReuseLogicalQueue("plain", 0, 0, WRITE_ONLY).encode()
    answer = await client.call(RequestCode.REUSE_TOPIC_LOGICAL_QUEUE, body=body)
    assert (answer.code, answer.remark) == (1, "queue route data not found")


async def test_offsets_that_a_crash_took_are_not_given_out_again_under_a_sealed_end(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 10)
        source, _ = await cluster.migrate(0, "broker2")
        logical = cluster.brokers["broker1"].running.context.logical
        longer = replace(source, offset_max=20)  # as if the log had lost ten messages
        await logical.change(TOPIC, lambda mapping: mapping.put(longer))
        await cluster.brokers["broker1"].kill()
        await cluster.brokers["broker1"].restart("kill")
        cluster.forget()
        (alarm,) = cluster.brokers["broker1"].running.context.logical.counters.alarms.values()
        assert alarm == "its queue ends at 10: messages up to 20 are lost"
        assert len(messages_of(await cluster.pull(longer, 0))) == 10
        passed_over = await cluster.pull(longer, 10)
        assert (passed_over.code, passed_over.fields["nextBeginOffset"]) == (19, "20")
        assert "REDIRECT" not in passed_over.fields  # a reader would come back to the same offset
        assert redirect_of(await cluster.pull(longer, 20)).following.broker_name == "broker2"
        assert (await cluster.reuse("broker1", 0, 0)).code == 1
