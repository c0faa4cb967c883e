"""Messages that no broker takes back come again here, counted and within their limit.

Their size, or missing rights, may keep them from the retry topic and from the dead letters.
"""

import logging
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    MessageQueue,
    OrderlyListener,
    ReceivedMessage,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode, ResponseCode

QUEUE = MessageQueue("T", "broker-a", 0)
BACK, SEND = RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2


class Failing:
    """A listener that fails at what is not ``good``, and remembers the deliveries."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, int]] = []

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            self.seen.append((message.body, message.reconsume_times))
            if message.body != b"good":
                raise ValueError("it cannot be handled")


def refuse(cluster: FakeCluster) -> None:
    cluster.broker.refuse(BACK, *[ResponseCode.MESSAGE_ILLEGAL] * 100)
    cluster.broker.refuse(SEND, *[ResponseCode.MESSAGE_ILLEGAL] * 100)


async def test_what_is_refused_is_counted_and_given_up_at_the_limit(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for body in (b"bad", b"good"):
        cluster.broker.put("T", 0, body)
    refuse(cluster)
    failing = Failing()
    async with push_consumer_of(
        cluster,
        ConcurrentListener(failing.__call__, concurrency=1),
        max_reconsume_times=3,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:
        await trio.sleep(120)
        assert consumer.committed_offset(QUEUE) == 2
    assert [times for body, times in failing.seen if body == b"bad"] == [0, 1, 2, 3]
    ends = [record for record in caplog.records if "is given up after 4" in record.getMessage()]
    assert [record.levelno for record in ends] == [logging.ERROR]
    assert "MESSAGE_ILLEGAL" in ends[0].getMessage()


async def test_what_cannot_be_sent_back_for_a_while_is_not_given_up(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.broker.put("T", 0, b"bad")
    cluster.broker.refuse(BACK, *[ResponseCode.SYSTEM_BUSY] * 40)  # for some minutes
    cluster.broker.refuse(SEND, *[ResponseCode.SYSTEM_BUSY] * 400)
    failing = Failing()
    async with push_consumer_of(
        cluster,
        ConcurrentListener(failing.__call__),
        max_reconsume_times=2,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ) as consumer:
        await trio.sleep(40)
        assert [times for _, times in failing.seen] == [0, 1, 2], "the limit holds meanwhile"
        assert consumer.committed_offset(QUEUE) in (None, 0)
        await trio.sleep(400)
        assert consumer.committed_offset(QUEUE) == 1
    assert len(failing.seen) == 3
    assert not [record for record in caplog.records if "given up" in record.getMessage()]


async def test_an_orderly_queue_goes_on_behind_a_message_that_is_refused_everywhere(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for body in (b"bad", b"good"):
        cluster.broker.put("T", 0, body)
    refuse(cluster)
    failing = Failing()
    listener = OrderlyListener(failing.__call__, max_reconsume_times=2)
    async with push_consumer_of(
        cluster, listener, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await trio.sleep(60)
        assert consumer.committed_offset(QUEUE) == 2
    assert failing.seen == [(b"bad", 0), (b"bad", 1), (b"bad", 2), (b"good", 0)]
    assert "is given up after 3" in caplog.text


async def test_a_failing_orderly_listener_is_logged_whole_once_and_then_counted(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.broker.put("T", 0, b"bad")
    failing = Failing()
    async with push_consumer_of(
        cluster, OrderlyListener(failing.__call__), consume_from=ConsumeFrom.FIRST_OFFSET
    ):
        await trio.sleep(1000)
    assert len(failing.seen) > 900
    told = [record for record in caplog.records if "the listener failed" in record.getMessage()]
    assert [record.exc_info is not None for record in told] == [True] + [False] * 9
    assert "512 times in a row" in told[-1].getMessage()
    assert "it cannot be handled" in told[-1].getMessage()
