"""The number of a migration, whoever takes its last steps, and what third brokers make of it."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.logical.cluster import TOPIC, LogicalCluster, open_logical_cluster
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.wire.logical import MigrateLogicalQueue, Segment, SegmentState

NORMAL, EXPIRED = SegmentState.NORMAL, SegmentState.EXPIRED
NEVER_MS: Final = 1_000_000_000
QUIET_S: Final = 10.0
"""A queue has one open end again after so much quiet,"""
VIEWS_S: Final = 45.0
"""and brokers know what name servers list."""


@pytest.fixture
async def cluster(autojump_clock: MockClock) -> AsyncIterator[LogicalCluster]:
    """Logical queue 0 went from broker1 to broker2, with messages at both; broker3 knows of no
    migration of it. Broker2 leaves to others what tools leave to it."""
    async with open_logical_cluster("broker1") as cluster:
        await cluster.add("broker2", logical_queue_reconcile_interval=NEVER_MS)
        await cluster.add("broker3")
        await cluster.map_all(queues=1)
        await cluster.fill(await cluster.normal(0), 10)
        _, end = await cluster.migrate(0, "broker2")
        await cluster.fill(end, 5)
        yield cluster


async def prepared(cluster: LogicalCluster) -> tuple[Segment, Segment]:
    """A migration from broker2 to broker3 that was left after its second step."""
    target = await cluster.destination(0, "broker3")
    answer = await cluster.prepare(await cluster.normal(0), target)
    move = MigrateLogicalQueue.decode(answer.body)
    assert move.source is not None
    assert move.destination is not None
    return move.source, move.destination


async def known(cluster: LogicalCluster, name: str, segment: Segment) -> Segment:
    """A segment as a broker knows it."""
    found = (await cluster.chain(name, 0)).find(segment.key)
    assert found is not None
    return found


async def test_a_destination_that_finds_its_place_opens_under_the_number_of_its_migration(
    cluster: LogicalCluster,
) -> None:
    _, target = await prepared(cluster)
    await trio.sleep(QUIET_S)
    opened = await cluster.normal(0)
    assert opened.key == target.key
    assert opened.migration == target.migration == 2


@pytest.mark.slow
async def test_a_broker_that_knew_a_destination_before_it_found_its_place_knows_it_open(
    cluster: LogicalCluster,
) -> None:
    source, target = await prepared(cluster)
    await cluster.brokers["broker1"].kill()  # it is told again by what it asks
    cluster.forget()
    await cluster.brokers["broker1"].restart("kill")
    assert (await cluster.notify("broker1", source, target)).code == 0
    await trio.sleep(VIEWS_S)
    assert (await known(cluster, "broker1", target)).state is NORMAL


async def test_a_destination_opens_under_that_number_while_its_source_is_away(
    cluster: LogicalCluster,
) -> None:
    source, target = await prepared(cluster)
    assert (await cluster.notify("broker1", source, target)).code == 0  # which tells the place
    await cluster.brokers["broker2"].kill()
    cluster.forget()
    await trio.sleep(QUIET_S)
    opened = await cluster.normal(0)
    assert (opened.key, opened.migration) == (target.key, target.migration)


async def test_a_commit_without_a_number_opens_under_the_one_that_the_source_gave(
    cluster: LogicalCluster,
) -> None:
    source, target = await prepared(cluster)
    # As the tool of 5.0.0-PREVIEW does: it carries no numbers.
    bare = source.with_migration(None), target.with_migration(None)
    assert (await cluster.commit(*bare)).code == 0
    assert (await cluster.normal(0)).migration == target.migration


async def test_a_commit_without_a_number_waits_for_a_source_that_does_not_answer(
    cluster: LogicalCluster,
) -> None:
    source, target = await prepared(cluster)
    cluster.network.part(*(cluster.brokers[name].host for name in ("broker2", "broker3")))
    refused = await cluster.commit(source.with_migration(None), target.with_migration(None))
    assert refused.code == 1
    assert "broker2" in (refused.remark or "")
    cluster.network.join()
    await trio.sleep(QUIET_S)
    assert (await cluster.normal(0)).migration == target.migration


@pytest.mark.parametrize("count", [pytest.param(0, id="idle at the source"), 5])
async def test_a_third_broker_finds_out_that_a_migration_it_heard_of_was_called_off(
    autojump_clock: MockClock, count: int
) -> None:
    async with mapped_cluster("broker1", "broker2", "broker3", messages=10) as cluster:
        _, end = await cluster.migrate(0, "broker2")
        await cluster.fill(end, count)
        source, target = await prepared(cluster)
        assert (await cluster.notify("broker1", source, target)).code == 0
        assert (await cluster.map("broker3", target.queue_id, -1, TOPIC)).code == 0
        await trio.sleep(VIEWS_S)
        end = await cluster.normal(0)
        assert end.broker_name == "broker2"
        at_third = await cluster.chain("broker1", 0)
        assert at_third.write_only is None
        assert at_third.tail is not None
        assert at_third.tail.key == end.key


async def test_a_third_broker_knows_a_destination_open_whatever_number_it_was_opened_under(
    cluster: LogicalCluster,
) -> None:
    """As brokers of old opened them: below the number of their migration."""
    source, target = await prepared(cluster)
    assert (await cluster.commit(source, target)).code == 0
    ahead = target.with_migration(9)
    assert (await cluster.notify("broker1", source, ahead)).code == 0
    await trio.sleep(QUIET_S)
    assert (await known(cluster, "broker1", target)).state is NORMAL


@pytest.mark.slow
async def test_a_copy_stays_while_the_broker_of_its_segment_does_not_answer(
    cluster: LogicalCluster,
) -> None:
    source, target = await prepared(cluster)
    hosts = [broker.host for broker in cluster.brokers.values()]
    cluster.network.part(hosts[1], hosts[2])
    assert (await cluster.notify("broker1", source, target)).code == 0
    cluster.network.part(hosts[0], hosts[2])
    await trio.sleep(QUIET_S)
    assert (await known(cluster, "broker1", target)) == target
    cluster.network.join()
    await trio.sleep(QUIET_S)
    assert (await known(cluster, "broker1", target)).state is NORMAL


async def test_an_idle_queue_comes_back_to_a_message_queue_of_its_own_broker(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster("broker1") as cluster:
        numbers = []
        for reuse in (None, 0, 1, 0, 1):
            _, opened = await cluster.migrate(0, "broker1", reuse=reuse)
            numbers.append(opened.migration)
            await trio.sleep(61)  # clients know by then that it is another one
        assert numbers == [1, 2, 3, 4, 5]
        assert (await cluster.send(await cluster.normal(0))).code == 0
