"""Records of the log have fields for what their words are about."""

import json
import logging
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    MessageQueue,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
)
from lanemq.sdk.observe._log import get_logger
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode


def fields(record: logging.LogRecord) -> dict[str, object]:
    return {
        name.removeprefix("lanemq_"): value
        for name, value in vars(record).items()
        if name.startswith("lanemq_")
    }


def test_the_arguments_of_a_record_become_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("lanemq.sdk.test")
    assert get_logger("lanemq.sdk.test") is logger
    assert len(logger.filters) == 2  # one for the fields, one that escapes
    queue = MessageQueue("T", "broker-a", 3)
    logger.error("%s: %s", queue, RefusedByBroker(13, "too large", "10.0.0.1:10911"))
    logger.error("plain words")
    logger.error("a %(named)s argument", {"named": "x"})
    first, *others = caplog.records
    assert fields(first) == {
        "topic": "T",
        "broker": "broker-a",
        "queue_id": 3,
        "error": "RefusedByBroker",
        "address": "10.0.0.1:10911",
        "code": 13,
    }
    assert [fields(record) for record in others] == [{}, {}]


async def test_a_consumer_in_trouble_says_where_in_fields(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x", UNIQ_KEY="ABC")
    cluster.broker.refuse(RequestCode.PULL_MESSAGE, 1)

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        raise ValueError("cannot")

    with caplog.at_level(logging.INFO, "lanemq.sdk"):
        async with push_consumer_of(
            cluster, ConcurrentListener(handle), PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
        ):
            await trio.sleep(5)
    by_logger: dict[str, list[dict[str, object]]] = {}
    for record in caplog.records:
        by_logger.setdefault(record.name, []).append(fields(record))
    pull = next(own for own in by_logger["lanemq.sdk.pull"] if own.get("code") == 1)
    assert pull["error"] == "RefusedByBroker"
    assert pull["address"] == cluster.broker.address
    assert "queue_id" in pull
    listener = by_logger["lanemq.sdk.listener"][0]
    assert listener == {
        "message_id": "ABC",
        "message_ids": ["ABC"],
        "topic": "T",
        "broker": "broker-a",
        "queue_id": 0,
        "queue_offset": 0,
        "reconsume_times": 0,
    }
    json.dumps(by_logger)
