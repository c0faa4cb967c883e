"""Times of a group's place, as a logical listener tells consoles."""

import pytest
import trio

from lanemq.proxy.logical.listener.offsets import _spans
from lanemq.testkit.logical.cluster import CLIENT_HOST, TOPIC
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire.bodies import QueryConsumeTimeSpanBody
from lanemq.wire.headers import UpdateConsumerOffset
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER
from lanemq.wire.message import iter_messages

pytestmark = pytest.mark.slow  # a cluster of its own


async def test_time_spans_go_across_segments(autojump_clock: object) -> None:
    async with mapped_cluster() as cluster:
        stream = await cluster.network.dialer(CLIENT_HOST)(cluster.brokers["broker1"].host, 10921)
        client = Client(Peer(stream))
        for number in range(4):
            if number == 2:
                await cluster.migrate(0, "broker2")
            assert (await client.send(TOPIC, b"%d" % number, queue_id=0)).code == 0
            await trio.sleep(1)
        await client.call(15, UpdateConsumerOffset("g", TOPIC, 0, 3).to_fields())

        answer = await client.call(303, {"topic": TOPIC, "group": "g"})
        assert answer.code == 0, answer.remark
        busy, idle = sorted(
            QueryConsumeTimeSpanBody.decode(answer.body).consume_time_span_set,
            key=lambda span: span.message_queue.queue_id,
        )
        assert {span.message_queue.broker_name for span in (busy, idle)} == {LOGICAL_QUEUE_BROKER}
        first, second = await client.messages(TOPIC, 0), await client.messages(TOPIC, 0, 2)
        stamps = [message.store_timestamp_ms for message in first + second]
        assert len(stamps) == 4
        # The third was consumed, and the fourth is a second old.
        assert busy.min_time_stamp == stamps[0]
        assert busy.consume_time_stamp == stamps[2]
        assert busy.max_time_stamp == stamps[3]
        assert busy.delay_time == pytest.approx(1000, abs=300)
        assert (idle.min_time_stamp, idle.max_time_stamp, idle.delay_time) == (-1, -1, 0)


@pytest.mark.parametrize("count", [0, 2])
async def test_a_broker_that_answers_with_other_than_one_message_tells_no_time(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(_spans, "iter_messages", lambda body: iter_messages(count * body))
    async with mapped_cluster() as cluster:
        stream = await cluster.network.dialer(CLIENT_HOST)(cluster.brokers["broker1"].host, 10921)
        client = Client(Peer(stream))
        for _ in range(2):
            assert (await client.send(TOPIC, b"x", queue_id=0)).code == 0
        await client.call(15, UpdateConsumerOffset("g", TOPIC, 0, 1).to_fields())
        answer = await client.call(303, {"topic": TOPIC, "group": "g"})
        assert answer.code == 0, answer.remark
        spans = QueryConsumeTimeSpanBody.decode(answer.body).consume_time_span_set
        assert {span.consume_time_stamp for span in spans} == {-1}
