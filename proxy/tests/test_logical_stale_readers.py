"""Readers whose view of a logical queue ends before the segment that is now where they ask.

A migration that is called off behind its prepare leaves a new segment on the source's message
queue, right behind the sealed one; so does a queue that comes back to a message queue it has left.
"""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest
import trio
from msgspec.structs import replace as replace_fields
from trio.testing import MockClock

from lanemq.proxy.broker.logical.traffic._told import TOLD_MAX, ToldReaders
from lanemq.proxy.sessions.values._pull_request import read_pull_request
from lanemq.sdk import open_lite_pull_consumer
from lanemq.testkit.logical.cluster import (
    CLIENT_HOST,
    TOPIC,
    LogicalCluster,
    messages_of,
    open_logical_cluster,
    redirect_of,
    without_number,
)
from lanemq.testkit.logical.preview import PAUSE_S, PreviewReader
from lanemq.testkit.proxy.brokers import Client, pull_header
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT, clock_ms
from lanemq.wire import RequestCode
from lanemq.wire.bodies import MessageQueue, QueryConsumeTimeSpanBody
from lanemq.wire.frame import Frame
from lanemq.wire.headers import QueryConsumeTimeSpan
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, READER_FIELD, SEGMENT_FIELD, Segment
from lanemq.wire.message import decode_messages

BEFORE, BETWEEN, AFTER = 10, 5, 100
"""Messages in the queue at the prepare, messages at another broker, and those that follow."""


@pytest.fixture
async def cluster(autojump_clock: MockClock) -> AsyncIterator[LogicalCluster]:
    """Two brokers, which leave the completion of migrations to the test."""
    async with open_logical_cluster(
        logical_queue_reconcile_interval=3_600_000, logical_queue_reuse_readable=True
    ) as cluster:
        await cluster.map_all(queues=1)
        await cluster.fill(await cluster.normal(0), BEFORE)
        yield cluster


async def prepared(cluster: LogicalCluster) -> Segment:
    """Prepare a migration to the other broker; return its destination."""
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    answer = await cluster.prepare(source, target)
    assert answer.code == 0, answer.remark
    return target


async def call_off(cluster: LogicalCluster, target: Segment) -> Segment:
    """Call a prepared migration off, as a tool does; return the segment that is open then."""
    name = target.broker_name
    assert (await cluster.map(name, target.queue_id, -1)).code == 0
    called_off = (await cluster.chain(name, 0)).find(target.key)
    assert called_off is not None
    for other in cluster.brokers.keys() - {name}:
        assert (await cluster.notify(other, called_off, called_off)).code == 0
    return await cluster.normal(0)


async def complete(cluster: LogicalCluster, target: Segment) -> None:
    """Complete a prepared migration."""
    (source,) = cluster.brokers.keys() - {target.broker_name}
    placed = (await cluster.chain(source, 0)).find(target.key)
    assert placed is not None
    sealed = cluster.brokers[source].running.context.logical.mappings[TOPIC].source_of(placed)
    assert sealed is not None
    assert (await cluster.commit(sealed, placed)).code == 0
    assert (await cluster.notify(source, sealed, await cluster.normal(0))).code == 0


async def used(cluster: LogicalCluster, name: str) -> int | None:
    """Return a message queue of a broker that the logical queue has left; None without one."""
    left = [one for one in await cluster.chain(name, 0) if one.broker_name == name]
    return left[-1].queue_id if left and not left[-1].is_empty else None


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in range(*numbers)]


async def test_a_preview_client_that_saw_a_migration_that_was_called_off_passes_over_nothing(
    cluster: LogicalCluster,
) -> None:
    reader = PreviewReader(cluster)
    target = await prepared(cluster)
    await reader.refresh()
    again = await call_off(cluster, target)
    assert (again.offset_delta, again.delta) == (BEFORE, BEFORE)
    await cluster.fill(again, AFTER, first=BEFORE)
    await reader.read()
    assert reader.seen == numbered(BEFORE + AFTER)


async def test_a_preview_client_that_waits_while_a_migration_is_called_off_goes_on_at_once(
    cluster: LogicalCluster,
) -> None:
    reader = PreviewReader(cluster)
    await reader.refresh()
    await reader.read()
    assert reader.offset == BEFORE
    target = await prepared(cluster)
    await reader.refresh()
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: reader.pull(suspend_timeout_millis=15_000))
        await trio.sleep(5)
        await cluster.fill(await call_off(cluster, target), 1, first=BEFORE)
    assert reader.seen == numbered(BEFORE + 1)
    assert trio.current_time() - began_s < 6


@pytest.mark.parametrize("offset", [BEFORE, BEFORE + 7])
async def test_a_preview_client_with_an_old_view_that_takes_over_a_queue_passes_over_nothing(
    offset: int, cluster: LogicalCluster
) -> None:
    """Wherever in the new segment the group's progress is."""
    reader = PreviewReader(cluster, offset=offset)
    target = await prepared(cluster)
    await reader.refresh()
    await cluster.fill(await call_off(cluster, target), AFTER, first=BEFORE)
    await reader.read()
    assert reader.seen == numbered(offset, BEFORE + AFTER)


async def test_a_preview_client_that_is_told_an_old_route_in_between_passes_over_nothing(
    cluster: LogicalCluster,
) -> None:
    """A name server may hear of the new segment later than the client."""
    reader = PreviewReader(cluster)
    target = await prepared(cluster)
    await reader.refresh()
    old = reader.chain
    again = await call_off(cluster, target)
    for number in range(BEFORE, BEFORE + AFTER):
        await cluster.fill(again, 1, first=number)
        reader.chain = old
        await reader.pull()
    await reader.read()
    assert reader.seen == numbered(BEFORE + AFTER)


async def test_preview_clients_of_one_connection_do_not_take_each_others_answers(
    cluster: LogicalCluster,
) -> None:
    """Every group is told for itself, and a place for which one was told is another's no more."""
    target = await prepared(cluster)
    reader = PreviewReader(cluster, offset=BEFORE)
    await reader.refresh()
    old = reader.chain
    await cluster.fill(await call_off(cluster, target), 3, first=BEFORE)
    for group in ("g1", "g2", "g1"):
        reader.chain, reader.offset, reader.seen = old, BEFORE, []
        await reader.pull(consumer_group=group)
        assert reader.seen == numbered(BEFORE, BEFORE + 3)


async def test_a_preview_client_with_a_fresh_view_is_not_delayed(cluster: LogicalCluster) -> None:
    """It is asked to ask again, for as long as others may not know the segment."""
    target = await prepared(cluster)
    again = await call_off(cluster, target)
    await trio.sleep(1)
    reader = PreviewReader(cluster, offset=BEFORE)
    await reader.refresh()
    assert [segment.delta for segment in reader.chain.readable] == [0, BEFORE]
    for after_s, asks in ((0, 2), (57, 2), (3, 1)):
        await trio.sleep(after_s)
        await cluster.fill(again, 1)
        before, began_s = reader.asks, trio.current_time()
        await reader.pull()
        assert reader.asks - before == asks
        assert trio.current_time() - began_s < 0.5
    assert len(reader.seen) == 3
    await cluster.brokers["broker1"].kill()
    await cluster.brokers["broker1"].restart("kill")
    cluster.forget()
    await cluster.fill(again, 1)
    other = PreviewReader(cluster, offset=reader.offset)  # who knows how old its view is
    other.chain = reader.chain
    await other.pull()
    assert (len(other.seen), other.asks) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("jump_s", [-3600, 3600])
async def test_a_segment_is_as_new_as_it_is_whatever_the_time_of_day(
    jump_s: int, cluster: LogicalCluster
) -> None:
    await trio.sleep(100)
    reader = PreviewReader(cluster, offset=BEFORE)
    target = await prepared(cluster)
    await reader.refresh()
    again = await call_off(cluster, target)
    jumped = partial(lambda jump_ms: clock_ms() + jump_ms, jump_s * 1000)
    cluster.brokers["broker1"].running.context.now_ms = jumped
    await cluster.fill(again, 3, first=BEFORE)
    await reader.pull()
    assert (reader.seen, reader.asks) == (numbered(BEFORE, BEFORE + 3), 2)
    await trio.sleep(100)
    await cluster.fill(again, 3, first=BEFORE + 3)
    await reader.pull()
    assert (reader.seen, reader.asks) == (numbered(BEFORE, BEFORE + 6), 3)


async def test_a_preview_client_of_two_migrations_ago_reads_what_lies_between(
    cluster: LogicalCluster,
) -> None:
    """The queue has come back to a message queue that still has messages of it."""
    reader = PreviewReader(cluster)
    await reader.refresh()
    _, second = await cluster.migrate(0, "broker2")
    await cluster.fill(second, AFTER, first=BEFORE)
    _, third = await cluster.migrate(0, "broker1", reuse=0)
    assert (third.offset_delta, third.delta) == (BEFORE, BEFORE + AFTER)
    await cluster.fill(third, AFTER, first=BEFORE + AFTER)
    await reader.read()
    assert reader.seen == numbered(BEFORE + 2 * AFTER)


async def came_back(cluster: LogicalCluster, count: int = AFTER) -> None:
    """Let the queue go to the other broker, and back with other offsets and ``count`` messages."""
    _, second = await cluster.migrate(0, "broker2")
    await cluster.fill(second, BETWEEN, first=BEFORE)
    _, third = await cluster.migrate(0, "broker1", reuse=0)
    assert (third.offset_delta, third.delta) == (BEFORE, BEFORE + BETWEEN)
    await cluster.fill(third, count, first=BEFORE + BETWEEN)


@pytest.mark.slow
async def test_a_preview_client_whose_route_stays_old_when_a_queue_came_back_passes_over_nothing(
    cluster: LogicalCluster,
) -> None:
    """A redirect told for one pull does not count for the next one at the same place."""
    reader = PreviewReader(cluster, offset=BEFORE)
    await reader.refresh()
    old = reader.chain
    await came_back(cluster)
    end, began_s = BEFORE + BETWEEN + AFTER, trio.current_time()
    for _ in range(6):
        reader.chain = old
        await reader.pull(sys_flag=4)
    assert reader.seen == numbered(BEFORE, end)
    assert trio.current_time() - began_s < 1, "a pull was redirected too often"


async def test_a_preview_client_that_cannot_follow_its_redirect_passes_over_nothing(
    cluster: LogicalCluster,
) -> None:
    """It comes back by its old route."""
    reader = PreviewReader(cluster, offset=BEFORE)
    await reader.refresh()
    old = reader.chain
    await came_back(cluster)
    await cluster.brokers["broker2"].kill()
    for _ in range(3):
        reader.chain = old
        with pytest.raises(ConnectionRefusedError):
            await reader.pull()
        await trio.sleep(PAUSE_S)
    await cluster.brokers["broker2"].restart("kill")
    await reader.read()
    assert reader.seen == numbered(BEFORE, BEFORE + BETWEEN + AFTER)


async def test_a_preview_client_that_knows_none_of_two_new_segments_passes_over_nothing(
    cluster: LogicalCluster,
) -> None:
    """It is where the last of them is, with messages to read in between."""
    reader = PreviewReader(cluster, offset=BEFORE + 2)
    await reader.refresh()
    await came_back(cluster, 2)
    await cluster.fill(await call_off(cluster, await prepared(cluster)), AFTER, first=17)
    await reader.read()
    assert reader.seen == numbered(BEFORE + 2, 17 + AFTER)


async def test_a_preview_client_that_knows_the_first_of_two_new_segments_passes_over_nothing(
    cluster: LogicalCluster,
) -> None:
    reader = PreviewReader(cluster, offset=BEFORE + BETWEEN + 2)
    await came_back(cluster, 2)
    target = await prepared(cluster)
    await reader.refresh()
    again = await call_off(cluster, target)
    await cluster.fill(again, AFTER, first=17)
    old, began_s = reader.chain, trio.current_time()
    for _ in range(6):
        reader.chain = old
        await reader.pull(sys_flag=4)
    assert reader.seen == numbered(17, 17 + AFTER)
    assert trio.current_time() - began_s < 1, "a pull was redirected too often"


async def test_the_oldest_of_many_readers_that_were_told_are_forgotten_first(
    cluster: LogicalCluster,
) -> None:
    source, again = await cluster.normal(0), await call_off(cluster, await prepared(cluster))
    told = ToldReaders()
    asked = read_pull_request(Frame(11, fields=pull_header(TOPIC, 0, BEFORE).to_fields()))
    pulls = [replace_fields(asked, offset=BEFORE + number) for number in range(TOLD_MAX + 2)]
    for pull in pulls:
        told.note(pull, source, [again])
    meant = [told.named(pull).meant for pull in pulls]
    assert meant == [None] * 2 + [again.meant] * TOLD_MAX


async def test_a_reader_that_names_a_segment_is_never_given_another(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    again = await call_off(cluster, await prepared(cluster))
    await cluster.fill(again, AFTER, first=BEFORE)
    await trio.sleep(100)  # however old it is
    client = await cluster.at("broker1")

    async def pull(meant: Segment, offset: int) -> Frame:
        fields = pull_header(TOPIC, 0, offset).to_fields()
        said = {READER_FIELD: "true", SEGMENT_FIELD: meant.meant}
        return await client.call(RequestCode.PULL_MESSAGE, fields | said)

    bodies = [message.body for message in messages_of(await pull(source, 0))]
    assert bodies == numbered(BEFORE)
    for offset in (BEFORE, BEFORE + 5):
        redirect = redirect_of(await pull(source, offset))
        assert redirect.current.key == source.key
        assert redirect.following == without_number(again)
        bodies = [message.body for message in messages_of(await pull(again, offset))]
        assert bodies[0] == b"%d" % offset
    answer = await pull(again, BEFORE - 1)  # it lies before
    assert (answer.code, answer.fields["nextBeginOffset"]) == (20, "10")
    assert redirect_of(answer).following.key == source.key
    answer = await pull(replace(again, logical_index=7), BEFORE)  # no segment of the queue
    assert (answer.code, answer.fields["REDIRECT"], answer.body) == (20, "1", b"")


@pytest.mark.parametrize("number", [1, 2])
async def test_an_older_client_behind_a_listener_with_an_old_view_reads_each_message_once(
    number: int, cluster: LogicalCluster
) -> None:
    """Of the listener beside the broker, and of another one."""
    dial = cluster.network.dialer(CLIENT_HOST)
    stream = await dial(cluster.brokers[f"broker{number}"].host, LOGICAL_PORT)
    reader = Client(Peer(stream))
    target = await prepared(cluster)
    await trio.sleep(12)  # until the listener asks again
    answer = await reader.pull(TOPIC, 0, BEFORE)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (19, str(BEFORE))
    await cluster.fill(await call_off(cluster, target), AFTER, first=BEFORE)
    offset, seen = BEFORE, list[bytes]()
    for _ in range(10):
        answer = await reader.pull(TOPIC, 0, offset)
        seen += [message.body for message in decode_messages(answer.body)]
        offset = int(answer.fields["nextBeginOffset"])
    assert seen == numbered(BEFORE, BEFORE + AFTER)


async def test_a_consumer_of_the_sdk_with_an_old_view_goes_on_at_once(
    cluster: LogicalCluster,
) -> None:
    target = await prepared(cluster)
    address, dial = cluster.name_server.address, cluster.network.dialer(CLIENT_HOST)
    async with open_lite_pull_consumer("g", name_servers=address, dial=dial) as consumer:
        queue = MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, 0)
        await consumer.assign([queue])
        consumer.seek(queue, 0)
        found = await consumer.poll()
        await trio.sleep(5)  # its next pull waits at the end
        await cluster.fill(await call_off(cluster, target), AFTER, first=BEFORE)
        began_s = trio.current_time()
        while len(found) < BEFORE + AFTER:
            found += await consumer.poll()
        assert trio.current_time() - began_s < 1
    assert [message.body for message in found] == numbered(BEFORE + AFTER)
    assert [message.queue_offset for message in found] == list(range(BEFORE + AFTER))


async def test_a_listener_tells_the_time_of_the_last_message_as_soon_as_it_knows_a_new_segment(
    cluster: LogicalCluster,
) -> None:
    dial = cluster.network.dialer(CLIENT_HOST)
    client = Client(Peer(await dial(cluster.brokers["broker1"].host, LOGICAL_PORT)))
    await cluster.fill(await call_off(cluster, await prepared(cluster)), 5, first=BEFORE)
    await trio.sleep(12)  # until the listener asks for the route again
    spans = QueryConsumeTimeSpan(topic=TOPIC, group="g").to_fields()
    answer = await client.call(RequestCode.QUERY_CONSUME_TIME_SPAN, spans)
    found = QueryConsumeTimeSpanBody.decode(answer.body).consume_time_span_set
    told_ms = [span.max_time_stamp for span in found if span.message_queue.queue_id == 0]
    (last,) = decode_messages((await client.pull(TOPIC, 0, BEFORE + 4)).body)
    assert told_ms == [last.store_timestamp_ms]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_preview_clients_with_views_of_any_age_read_each_message_once(
    seed: int, cluster: LogicalCluster
) -> None:
    """Migrations, some called off, some back to a queue that has messages; views up to 30 s old."""
    chance = random.Random(seed)
    sent = BEFORE
    readers = [PreviewReader(cluster) for _ in range(3)]
    for reader in readers:
        await reader.refresh()
    begun: Segment | None = None
    for _ in range(60):
        choice = chance.randrange(6)
        if choice == 0 and begun is None:
            source = await cluster.normal(0)
            name = "broker2" if source.broker_name == "broker1" else "broker1"
            begun = await cluster.destination(0, name, reuse=await used(cluster, name))
            assert (await cluster.prepare(source, begun)).code == 0
        elif choice == 1 and begun is not None:
            await call_off(cluster, begun)
            begun = None
        elif choice == 2 and begun is not None:
            await complete(cluster, begun)
            begun = None
        elif choice == 3 and begun is None:
            count = chance.choice((1, 5, 40))
            await cluster.fill(await cluster.normal(0), count, first=sent)
            sent += count
        elif choice == 4:
            await trio.sleep(chance.choice((1, 5, 20)))
            for reader in readers:
                if chance.random() < 0.5:
                    await reader.refresh()
        for reader in readers:
            if chance.random() < 0.6:
                await reader.pull(sys_flag=4)
    if begun is not None:
        await complete(cluster, begun)
    for reader in readers:
        await reader.read()
        assert reader.seen == numbered(sent)
