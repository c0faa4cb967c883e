"""A logical listener's knowledge of its topics, and the times it asks again."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.logical.listener.brokers._routes import FRESH_S
from lanemq.testkit.logical.cluster import CLIENT_HOST, messages_of
from lanemq.testkit.logical.mapped import mapped_cluster, tools
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Redirect, Segment, progress_topic

pytestmark = pytest.mark.slow  # a cluster of its own


async def test_a_broker_that_goes_as_soon_as_its_queue_has_hinders_nobody(
    autojump_clock: MockClock,
) -> None:
    """All within a second: what the listener asked before it all is no use any more."""
    async with mapped_cluster("broker1", "broker2", "broker3") as cluster:
        dial = cluster.network.dialer(CLIENT_HOST)
        client = Client(Peer(await dial(cluster.brokers["broker1"].host, LOGICAL_PORT)))
        begun_s = trio.current_time()
        for offset, destination in enumerate(("broker3", "broker2")):
            answer = await client.send("T", queue_id=0)
            assert (answer.code, answer.fields["queueOffset"]) == (0, str(offset))
            await cluster.migrate(0, destination)
        await cluster.brokers["broker3"].kill()
        answer = await client.send("T", queue_id=0)
        assert (answer.code, answer.fields.get("queueOffset")) == (0, "2"), answer.remark
        assert trio.current_time() - begun_s < 1


async def test_the_places_of_messages_are_known_as_soon_as_name_servers_know_them(
    autojump_clock: MockClock,
) -> None:
    """A destination takes messages while its source is away; at its own listener, and another."""
    async with mapped_cluster("broker1", "broker2", "broker3", messages=10) as cluster:
        target = await cluster.destination(0, "broker2")
        assert (await cluster.prepare(await cluster.normal(0), target)).code == 0
        await cluster.brokers["broker1"].kill()
        await trio.sleep(1)
        dial = cluster.network.dialer(CLIENT_HOST)
        clients = [
            Client(Peer(await dial(cluster.brokers[name].host, LOGICAL_PORT)))
            for name in ("broker2", "broker3")
        ]
        for client in clients:
            answer = await client.send("T", queue_id=0)
            assert (answer.code, answer.fields["queueOffset"]) == (0, "-1"), answer.remark
        await cluster.brokers["broker1"].restart("kill")
        cluster.forget()
        while (await cluster.chain("broker2", 0))[-1].delta < 0:  # noqa: ASYNC110 - brokers tell nobody
            await trio.sleep(0.1)
        await trio.sleep(1)
        for offset, client in enumerate(clients, 12):
            answer = await client.send("T", queue_id=0)
            assert (answer.code, answer.fields["queueOffset"]) == (0, str(offset))


async def test_a_reader_is_sent_over_no_offsets_because_a_sender_was(
    autojump_clock: MockClock,
) -> None:
    """A sender's redirect names the open end, and nothing of the segments before it."""
    async with mapped_cluster("broker1", "broker2", "broker3") as cluster:
        dial, listener = cluster.network.dialer(CLIENT_HOST), cluster.brokers["broker3"].host
        client = Client(Peer(await dial(listener, LOGICAL_PORT)))
        for _ in range(3):
            assert (await client.send("T", queue_id=0)).code == 0
        cluster.network.part(listener, cluster.name_server.host)
        for name in ("broker2", "broker1", "broker2"):
            _, opened = await cluster.migrate(0, name, others=list(cluster.brokers))
            await cluster.fill(opened, 5)
        answer = await client.send("T", queue_id=0)
        assert (answer.code, answer.fields["queueOffset"]) == (0, "18"), answer.remark
        answer = await client.pull("T", 0, 3)
        if answer.code != 0:
            assert answer.fields["nextBeginOffset"] == "3"
        cluster.network.join()
        await trio.sleep(1)
        offset, bodies = 3, list[bytes]()
        while offset < 18:
            answer = await client.pull("T", 0, offset)
            bodies += [message.body for message in messages_of(answer)]
            offset = int(answer.fields["nextBeginOffset"])
        assert bodies[:15] == 3 * [b"0", b"1", b"2", b"3", b"4"]


async def test_a_name_server_that_has_not_heard_of_a_migration_takes_no_progress_back(
    autojump_clock: MockClock,
) -> None:
    """The reader was sent on, and the listener looks at its route before the commit."""
    async with mapped_cluster("broker1", "broker2", "broker3", messages=3) as cluster:
        dial, listener = cluster.network.dialer(CLIENT_HOST), cluster.brokers["broker3"].host
        client = Client(Peer(await dial(listener, LOGICAL_PORT)))
        for name in ("broker1", "broker2"):
            cluster.network.part(cluster.brokers[name].host, cluster.name_server.host)
        _, opened = await cluster.migrate(0, "broker2")
        await cluster.fill(opened, 4)
        assert len(messages_of(await client.pull("T", 0, 0))) == 3
        await trio.sleep(FRESH_S - 2)
        assert len(messages_of(await client.pull("T", 0, 3))) == 4
        await trio.sleep(3)
        fields = {"consumerGroup": "readers", "topic": "T", "queueId": "0", "commitOffset": "7"}
        assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0
        await trio.sleep(5)
        cluster.network.join()
        await trio.sleep(60)
        tables = cluster.brokers["broker2"].running.context.store.tables
        name = progress_topic("T", opened.delta)
        assert tables.consumer_offsets.get("readers", name, 0) == 7


async def test_a_redirect_that_does_not_hold_any_more_is_taken_back_at_once(
    autojump_clock: MockClock,
) -> None:
    """The topic was deleted and made again: the broker that it names says to ask again."""
    async with mapped_cluster("broker1", "broker2", messages=3) as cluster:
        routes = cluster.brokers["broker2"].logical_listener.routes
        told = await routes.find("T")
        assert told is not None
        first, other = told.queues[0][0], told.queues[1][0]
        moved = Segment(MessageQueue("T", "broker2", 7), 0, 3)
        await routes.redirected("T", Redirect(first.sealed(3), moved))
        await trio.sleep(FRESH_S - 2)
        view = await routes.refresh("T")
        assert view is not None
        assert view.queues[0].tail == moved
        assert not await routes.confirm("T", 0)
        assert await routes.confirm("T", 1), "a redirect of another queue says nothing of this one"
        await routes.redirected("T", None)
        view = routes.get("T")
        assert view is not None
        assert (view.queues[0].tail, view.queues[1].tail) == (first, other)
        assert await routes.confirm("T", 0)


async def test_who_sends_to_a_closed_queue_is_told_so_though_name_servers_have_forgotten_it(
    autojump_clock: MockClock,
) -> None:
    """One without a message: nothing of it lasts but what its broker says."""
    async with mapped_cluster("broker1", "broker2") as cluster:
        dial = cluster.network.dialer(CLIENT_HOST)
        client = Client(Peer(await dial(cluster.brokers["broker1"].host, LOGICAL_PORT)))
        assert (await client.send("T", queue_id=0)).code == 0  # the listener knows both queues
        async with tools(cluster) as admin:
            await admin.seal(cluster.brokers["broker2"].address, await cluster.normal(1))
        await cluster.name_server.kill()
        await cluster.name_server.start()
        for _ in range(3):
            answer = await client.send("T", queue_id=1)
            assert answer.code == ResponseCode.NO_PERMISSION, answer.remark
            await trio.sleep(FRESH_S + 1)
