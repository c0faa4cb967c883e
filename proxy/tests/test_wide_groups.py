"""Requests about groups with much in few of them: what they look at is done in turns.

Work is counted in calls between two turns of the loop, as in ``test_longest_turns``.
"""

from typing import Final

import trio

from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.proxy.brokers import TestBroker
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    GroupList,
    SubscriptionGroupConfig,
    TopicConfig,
)
from lanemq.wire.frame import Frame

CALLS_MAX: Final = 60_000
"""Calls between two turns, some 6 ms; the encoding of offsets for their file takes half of them."""

TURN_CALLS: Final = 20_000
"""As many, without the encoding of offsets."""


async def answered(broker: TestBroker, code: int, fields: dict[str, str]) -> tuple[Frame, int]:
    """Return the answer to a request, and the most calls of one turn on the way to it."""
    client = broker.connect()
    await trio.testing.wait_all_tasks_blocked()
    with calls_of_steps() as steps:
        answer = await client.call(code, fields)
    return answer, steps.most


async def test_offsets_in_many_topics_are_cloned_in_turns(broker: TestBroker) -> None:
    tables = broker.context.store.tables
    for number in range(20_000):
        tables.topics.put(TopicConfig(f"T{number}", 4, 4), at_once=False)
        tables.consumer_offsets.put("source", f"T{number}", 0, number)
    broker.context.groups.find("target")
    fields = {"srcGroup": "source", "destGroup": "target", "offline": "true"}
    answer, calls = await answered(broker, RequestCode.CLONE_GROUP_OFFSET, fields)
    offsets = tables.consumer_offsets
    assert (answer.code, len(offsets.topics_of("target"))) == (0, 20_000)
    assert offsets.get("target", "T19999", 0) == 19_999
    assert calls < CALLS_MAX


async def test_long_settings_of_few_groups_are_answered_in_turns(broker: TestBroker) -> None:
    for number in range(200):
        settings = SubscriptionGroupConfig(f"g{number}", extra={"attributes": {"n": [7] * 4000}})
        broker.context.groups.put(settings)
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    answer, calls = await answered(broker, code, {})
    assert (answer.code, answer.body.count(b"[7,7,")) == (0, 200)
    assert calls < CALLS_MAX


async def test_subscriptions_with_many_tags_are_answered_in_turns(broker: TestBroker) -> None:
    tags = " || ".join(f"t{number}" for number in range(1000))
    client = broker.connect()
    for begin in range(0, 100, 10):
        topics = {f"T{number}": tags for number in range(begin, begin + 10)}
        await client.heartbeat("c0", consumers={"g": topics})
    fields = {"consumerGroup": "g"}
    answer, calls = await answered(broker, RequestCode.GET_CONSUMER_CONNECTION_LIST, fields)
    assert answer.code == 0
    assert calls < CALLS_MAX


async def test_the_groups_of_one_topic_are_looked_at_in_turns(broker: TestBroker) -> None:
    offsets = broker.context.store.tables.consumer_offsets
    broker.context.topics.put(TopicConfig("T", 4, 4))
    names = [f"g{number:05d}" for number in range(10_000)]
    for name in names:
        offsets.put(name, "T", 0, 1)
    offsets.persist()
    answer, calls = await answered(broker, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
    assert GroupList.decode(answer.body).group_list == tuple(names)
    assert calls < TURN_CALLS
    fields = {"topic": "T", "compareGroup": "g00000", "filterGroups": ""}
    answer, calls = await answered(broker, RequestCode.QUERY_CORRECTION_OFFSET, fields)
    assert b"0:1" in answer.body
    assert calls < TURN_CALLS


async def test_groups_with_many_topics_that_are_left_out_are_looked_at_in_turns(
    broker: TestBroker,
) -> None:
    tables = broker.context.store.tables
    for number in range(300):
        tables.topics.put(TopicConfig(f"T{number}", 4, 4), at_once=False)
    for group in range(100):
        broker.context.groups.find(f"g{group}")
        for number in range(300):
            tables.consumer_offsets.put(f"g{group}", f"T{number}", 0, 1)
    tables.persist()
    asked: dict[int, dict[str, str]] = {
        RequestCode.GET_BROKER_CONSUME_STATS: {"isOrder": "true"},
        RequestCode.GET_CONSUME_STATS: {"consumerGroup": "g0", "topic": ""},
    }
    for code, fields in asked.items():
        answer, calls = await answered(broker, code, fields)
        assert (answer.code, code, calls < TURN_CALLS) == (0, code, True)
