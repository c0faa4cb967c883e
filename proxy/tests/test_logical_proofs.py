"""Proof that a migration took place: its number, and nothing that others may have told."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.storage import NewMessage
from lanemq.testkit.logical.cluster import (
    TOPIC,
    LogicalCluster,
    messages_of,
)
from lanemq.testkit.logical.mapped import mapped_cluster, tools
from lanemq.wire.logical import MigrateLogicalQueue, Segment, SegmentState

NORMAL, WRITE_ONLY = SegmentState.NORMAL, SegmentState.WRITE_ONLY
QUIET_S = 10.0
"""A queue has one open end again after so much quiet."""


async def begun(cluster: LogicalCluster, index: int, name: str) -> tuple[Segment, Segment]:
    """A migration that was left after its second step."""
    source = await cluster.normal(index)
    async with tools(cluster) as admin:
        address = cluster.brokers[name].address
        target = await admin.create_queue(address, TOPIC, index, WRITE_ONLY)
    move = MigrateLogicalQueue.decode((await cluster.prepare(source, target)).body)
    assert move.source is not None
    assert move.destination is not None
    return move.source, move.destination


@pytest.mark.slow
async def test_a_migration_that_is_called_off_while_its_source_is_down_leaves_an_open_end(
    cluster: LogicalCluster,
) -> None:
    source, _ = await begun(cluster, 0, "broker2")
    await cluster.brokers["broker1"].kill()
    cluster.forget()
    async with tools(cluster) as admin:
        # The tool's own notice tells the destination of the source.
        called_off = await admin.abort_migration(TOPIC, 0)
    assert called_off.chain.find(source.key) is not None
    await cluster.brokers["broker1"].restart("kill")
    await trio.sleep(QUIET_S)
    end = await cluster.normal(0)
    assert (end.broker_name, end.delta) == ("broker1", 10)
    assert (await cluster.send(end)).code == 0
    async with tools(cluster) as admin:
        await admin.migrate_logical_queue(TOPIC, 0, "broker2")


async def test_a_migration_back_that_is_called_off_leaves_an_open_end(
    cluster: LogicalCluster,
) -> None:
    # The destination knows the source: from the migration that came from it.
    await cluster.migrate(0, "broker2")
    _, target = await begun(cluster, 0, "broker1")
    async with tools(cluster) as admin:
        address = cluster.brokers["broker1"].address
        await admin.map_queue(address, TOPIC, target.queue_id, -1)
    await trio.sleep(QUIET_S)
    end = await cluster.normal(0)
    assert (end.broker_name, end.delta) == ("broker2", 10)
    assert (await cluster.send(end)).code == 0


async def displaced(cluster: LogicalCluster) -> tuple[Segment, Segment]:
    """A migration of queue 0 that was called off; its destination, queue 1's by now, and its
    source do not know of each other."""
    await cluster.migrate(1, "broker1")
    source, target = await begun(cluster, 0, "broker2")
    async with tools(cluster) as admin:
        address = cluster.brokers["broker2"].address
        for _ in range(2):  # the first leaves its empty rest, the second nothing
            await admin.map_queue(address, TOPIC, target.queue_id, -1)
    other = await cluster.normal(1)
    again = await cluster.destination(1, "broker2", reuse=target.queue_id)
    move = MigrateLogicalQueue.decode((await cluster.prepare(other, again)).body)
    assert move.destination is not None
    assert move.destination.key == target.key
    assert (await cluster.commit(move.source, move.destination)).code == 0
    return source, target


async def test_a_source_goes_on_though_its_destination_is_anothers_by_now(
    cluster: LogicalCluster,
) -> None:
    """Its mapping has the message queue in the other logical queue (found by the simulation)."""
    _, target = await displaced(cluster)
    await trio.sleep(QUIET_S)
    end = await cluster.normal(0)
    assert (end.broker_name, end.delta) == ("broker1", 10)
    assert (end.migration or 0) > (target.migration or 0)  # that one may come to pass no more
    assert (await cluster.send(end)).code == 0
    assert (await cluster.normal(1)).key == target.key
    assert not cluster.brokers["broker1"].running.context.logical.journal.all()


@pytest.mark.mapped_cluster("broker1", "broker2", "broker3", messages=10)
async def test_a_source_does_not_go_on_where_an_operator_has_opened_its_queue(
    cluster: LogicalCluster,
) -> None:
    """The destination's broker, which alone knew the outcome, was away."""
    await displaced(cluster)
    await cluster.brokers["broker2"].kill()
    cluster.forget()
    opened = Segment.decode((await cluster.create("broker3", 0, NORMAL)).body)
    assert (await cluster.send(opened)).code == 0
    await cluster.brokers["broker2"].restart("kill")
    await trio.sleep(QUIET_S)
    assert await cluster.normal(0) == opened
    assert not cluster.brokers["broker1"].running.context.logical.journal.all()


@pytest.mark.mapped_cluster("broker1", "broker2", "broker3", messages=10)
async def test_a_source_whose_destination_is_lost_for_good_can_be_migrated_again(
    cluster: LogicalCluster,
) -> None:
    source, target = await displaced(cluster)
    await cluster.brokers["broker2"].kill()
    cluster.forget()
    await trio.sleep(QUIET_S)
    other = await cluster.destination(0, "broker3")
    move = MigrateLogicalQueue.decode((await cluster.prepare(source, other)).body)
    assert move.destination is not None
    assert (move.destination.migration or 0) > (target.migration or 0)
    assert (await cluster.commit(move.source, move.destination)).code == 0
    await cluster.brokers["broker2"].restart("kill")
    await trio.sleep(QUIET_S)
    assert (await cluster.normal(0)).key == other.key


async def test_the_journal_is_enough_for_a_source_that_restarts(cluster: LogicalCluster) -> None:
    _, target = await displaced(cluster)
    broker = cluster.brokers["broker1"]
    await broker.running.context.logical.change(TOPIC, lambda known: known.without(target.key))
    await broker.kill()
    cluster.forget()
    await broker.restart("kill")
    await trio.sleep(QUIET_S)
    end = await cluster.normal(0)
    assert (end.broker_name, end.delta) == ("broker1", 10)


async def test_a_destination_that_was_opened_and_left_empty_is_no_reason_to_go_on(
    cluster: LogicalCluster,
) -> None:
    source, target = await begun(cluster, 0, "broker2")
    await cluster.brokers["broker1"].kill()
    cluster.forget()
    assert (await cluster.commit(source, target)).code == 0
    assert (await cluster.seal("broker2", target.queue_id, 0)).code == 0  # expired, and empty
    await cluster.brokers["broker1"].restart("kill")
    await trio.sleep(QUIET_S)
    for name in cluster.brokers:
        assert (await cluster.chain(name, 0)).writable is None


async def test_a_commit_of_a_migration_that_others_followed_is_refused(
    cluster: LogicalCluster,
) -> None:
    first, second = await begun(cluster, 0, "broker2")
    assert (await cluster.commit(first, second)).code == 0
    await cluster.notify("broker1", first, second.with_state(NORMAL))
    await cluster.migrate(0, "broker1")
    await trio.sleep(61)
    again = await cluster.destination(0, "broker2", reuse=second.queue_id)
    assert again.key == second.key  # it never had a message
    late = await cluster.commit(first, second)
    assert late.code == 1
    assert "is over" in (late.remark or "")
    assert (await cluster.normal(0)).broker_name == "broker1"


async def test_each_migration_of_a_queue_has_a_greater_number_than_all_before(
    cluster: LogicalCluster,
) -> None:
    numbers = []
    for number in range(6):
        _, opened = await cluster.migrate(0, f"broker{2 - number % 2}")
        numbers.append(opened.migration)
        broker = cluster.brokers[opened.broker_name]
        await broker.kill()
        await broker.restart("power")
        cluster.forget()
        assert (await cluster.normal(0)).migration == opened.migration
    assert numbers == [1, 2, 3, 4, 5, 6]


async def test_clients_of_preview_are_shown_no_numbers(cluster: LogicalCluster) -> None:
    source, target = await cluster.migrate(0, "broker2")
    redirected = await cluster.send(source)
    assert b"lanemqMigration" not in redirected.body
    assert redirected.fields["REDIRECT"] == "1"
    assert target.migration == 1


# Closing a queue while a destination waits


async def test_a_destination_that_waits_is_not_sealed(cluster: LogicalCluster) -> None:
    target = await cluster.destination(0, "broker2")
    refused = await cluster.seal("broker2", target.queue_id, 0)
    assert refused.code == 1
    assert refused.remark == (
        "logical queue 0 is being migrated to message queue 1: resume that, or abort it"
    )
    chain = await cluster.chain("broker2", 0)
    assert chain.write_only is not None
    assert chain.write_only.key == target.key


async def test_a_queue_that_was_closed_while_a_destination_took_messages_goes_on_there(
    cluster: LogicalCluster,
) -> None:
    target = await cluster.destination(0, "broker2")
    assert (await cluster.send(target, b"early")).code == 0
    assert (await cluster.seal("broker1", 0, 0)).code == 0
    async with tools(cluster) as admin:
        done = await admin.resume_migration(TOPIC, 0)
    end = done.chain.normal
    assert end is not None
    assert (end.broker_name, end.delta) == ("broker2", 10)
    assert [m.body for m in messages_of(await cluster.pull(end, 0))] == [b"early"]


async def test_a_queue_that_goes_on_elsewhere_is_not_prepared_again(
    cluster: LogicalCluster,
) -> None:
    source, _ = await cluster.migrate(0, "broker2")
    target = await cluster.destination(0, "broker1")
    refused = await cluster.prepare(source, target)
    assert refused.remark == "message queue 0 not normal state"


# Ends that stay


async def test_the_empty_open_end_of_a_queue_with_a_history_cannot_be_taken_out(
    cluster: LogicalCluster,
) -> None:
    source, end = await cluster.migrate(0, "broker2")
    for force in (False, True):
        refused = await cluster.map("broker2", end.queue_id, -1, force=force)
        assert refused.code == 1
        assert "is the open end of logical queue 0, which has a history" in (refused.remark or "")
    refused = await cluster.map("broker1", source.queue_id, -1)
    assert refused.remark == "message queue 0 still has messages for readers"
    assert await cluster.normal(0) == end


@pytest.mark.slow
async def test_an_idle_queue_moves_for_ever_without_using_up_physical_queues(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        async with tools(cluster) as admin:
            for number in range(12):
                done = await admin.migrate_logical_queue(TOPIC, 0, f"broker{2 - number % 2}")
                assert done.chain.normal is not None
                await trio.sleep(61)
            configs = [
                await admin.topic_config(broker.address, TOPIC)
                for broker in cluster.brokers.values()
            ]
        cluster.forget()
        assert [config.write_queue_nums for config in configs] == [1, 2]
        assert (await cluster.send(await cluster.normal(0))).code == 0


async def test_an_empty_segment_that_clients_may_know_is_not_replaced_yet(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        source, _ = await cluster.migrate(0, "broker2")
        refused = await cluster.reuse("broker1", source.queue_id, 0)
        assert "may be known to clients" in (refused.remark or "")
        await trio.sleep(61)
        assert (await cluster.reuse("broker1", source.queue_id, 0)).code == 0


async def test_a_destination_is_not_called_off_while_somebody_writes_to_it(
    cluster: LogicalCluster,
) -> None:
    _, target = await begun(cluster, 0, "broker2")
    context = cluster.brokers["broker2"].running.context
    key, answers = (TOPIC, target.queue_id), []

    async def abort() -> None:
        answers.append(await cluster.map("broker2", target.queue_id, -1))

    client = await cluster.connect("broker2")
    async with trio.open_nursery() as nursery:
        with context.logical.gate.writing(context.logical.mappings[TOPIC], target.queue_id):
            nursery.start_soon(abort)
            await trio.sleep(1)
            assert not answers  # whether it is empty is not known before the writer has left
            assert context.logical.gate.is_closed(key)
            context.store.put(
                NewMessage(
                    topic=TOPIC,
                    queue_id=target.queue_id,
                    body=b"taken",
                    properties=b"",
                    born_timestamp_ms=1,
                    born_host=context.store_host,
                    store_host=context.store_host,
                )
            )
            context.commit()
    (answer,) = answers
    assert answer.code == 1
    assert "has messages" in (answer.remark or "")
    await trio.sleep(QUIET_S)
    end = await cluster.normal(0)
    assert [m.body for m in await client.messages(TOPIC, end.queue_id, 0)] == [b"taken"]
