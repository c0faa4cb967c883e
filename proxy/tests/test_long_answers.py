"""Answers that grow with topics, queues and groups: in turns, and refused beyond a frame."""

import logging
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.proxy.broker.admin import _topics
from lanemq.proxy.broker.admin._stats import ConsumeProgress
from lanemq.proxy.net import _long_answer, _turns
from lanemq.storage import Store
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode, fastjson
from lanemq.wire.bodies import ConsumeStats, TopicConfig

WIDE: Final = 2048
TOPICS: Final = [f"W{number}" for number in range(100)]

ASKED: Final[dict[str, str]] = {
    "consumerGroup": "g0",
    "group": "g0",
    "groupName": "g0",
    "groupTopic": "",
    "producerGroup": "p",
    "srcGroup": "g0",
    "destGroup": "g1",
    "compareGroup": "g0",
    "filterGroups": "",
    "topic": "W0",
    "isOrder": "false",
    "queueId": "0",
    "queueOffset": "0",
    "index": "0",
    "count": "99",
    "offset": "0",
    "timestamp": "-1",
    "isForce": "true",
    "statsName": "TOPIC_PUT_NUMS",
    "statsKey": "W0",
}
"""Fields of requests that ask about what a broker has; each code takes its own."""

CHANGING: Final = frozenset(
    {RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_SUBSCRIPTIONGROUP}
)


def fill(broker: TestBroker, topics: list[str], *, queues: int, groups: int = 1) -> None:
    for topic in topics:
        broker.context.topics.put(TopicConfig(topic, queues, queues))
        for number in range(groups):
            broker.context.groups.find(f"g{number}")
            put_offset = broker.context.store.tables.consumer_offsets.put
            put_offset(f"g{number}", topic, 1, 0)


def count_queues(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of queues that are looked at together."""
    looked: list[int] = []
    progress = ConsumeProgress.progress

    def counted(self: ConsumeProgress, group: str, topic: str, queue_ids: range) -> object:
        looked.append(len(queue_ids))
        return progress(self, group, topic, queue_ids)

    monkeypatch.setattr(ConsumeProgress, "progress", counted)
    return looked


def kept_bytes(broker: TestBroker) -> int:
    return broker.context.budget.used_bytes


@pytest.mark.parametrize(
    ("code", "fields", "way_on"),
    [
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g0"}, "ask for one topic"),
        (
            RequestCode.GET_CONSUME_STATS,
            {"consumerGroup": "g0", "topicList": ";".join(TOPICS * 40)},
            "shorter list of topics",
        ),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, "with request 208 and group"),
    ],
)
async def test_progress_that_no_frame_holds_is_refused_before_it_is_looked_for(
    broker: TestBroker,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    fields: dict[str, str],
    way_on: str,
) -> None:
    fill(broker, TOPICS, queues=WIDE)
    looked = count_queues(monkeypatch)
    answer = await client.call(code, fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"a frame holds {_long_answer.ANSWER_BYTES_MAX}" in (answer.remark or "")
    assert way_on in (answer.remark or "")
    assert not looked
    one = await client.call(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g0", "topic": "W7"})
    assert len(ConsumeStats.decode(one.body).offset_table) == WIDE


class _Looks(trio.abc.Instrument):
    """Counts the queues that are looked at in each step of a task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = [0]
        bounds = Store.bounds

        def counted(store: Store, topic: str, queue_id: int) -> tuple[int, int]:
            self.steps[-1] += 1
            return bounds(store, topic, queue_id)

        monkeypatch.setattr(Store, "bounds", counted)

    def before_task_step(self, task: object) -> None:
        self.steps.append(0)


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CORRECTION_OFFSET,
    ],
)
async def test_a_topic_of_many_queues_is_looked_at_in_short_turns_and_says_the_same(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    fill(broker, ["W0"], queues=WIDE)
    await client.send("W0", queue_id=7)
    for queue_id in range(WIDE):
        broker.context.store.tables.consumer_offsets.put("g0", "W0", queue_id, 0)
    looks = _Looks(monkeypatch)
    trio.lowlevel.add_instrument(looks)
    asked = {name: value for name, value in ASKED.items() if name not in ("queueId", "offset")}
    await client.peer.send(*(client.frame(code, asked) for _ in range(5)))
    answers = [await client.peer.receive() for _ in range(5)]
    trio.lowlevel.remove_instrument(looks)
    assert {answer.code for answer in answers} == {0}, answers[0].remark
    assert sum(looks.steps) >= 5 * WIDE
    each = _long_answer.LOOKED_AT if code == RequestCode.QUERY_CORRECTION_OFFSET else 4
    assert max(looks.steps) <= each * _long_answer.TURN_COST
    monkeypatch.setattr(_turns, "PARTS_OF_A_TURN", 1 << 20)
    monkeypatch.setattr(_topics, "PARTS_OF_A_TURN", 1 << 20)
    at_once = await client.call(code, asked)
    bodies = [fastjson.loads(answer.body) for answer in (*answers, at_once)]
    for body in bodies:
        assert isinstance(body, dict)
        body.pop("topicPutTps", None)  # a rate of this second
        for span in body.get("consumeTimeSpanSet", ()):
            del span["delayTime"]  # grows from answer to answer
    assert all(body == bodies[-1] for body in bodies)


async def test_a_topic_named_many_times_is_looked_at_once(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, ["W0", "W1"], queues=WIDE)
    looked = count_queues(monkeypatch)
    asked = {"consumerGroup": "g0", "topicList": "W0;W1;nosuch;" * 1300}
    answer = await client.call(RequestCode.GET_CONSUME_STATS, asked)
    assert len(ConsumeStats.decode(answer.body).offset_table) == 2 * WIDE
    assert sum(looked) == 2 * WIDE
    assert max(looked) <= 64


async def test_long_answers_of_a_connection_are_made_one_at_a_time_and_end_with_it(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, TOPICS[:20], queues=WIDE)
    looked: list[str] = []
    progress = ConsumeProgress.progress
    gate = trio.Event()

    def counted(self: ConsumeProgress, group: str, topic: str, queue_ids: range) -> object:
        looked.append(topic)
        if len(looked) == 40:
            gate.set()
        return progress(self, group, topic, queue_ids)

    monkeypatch.setattr(ConsumeProgress, "progress", counted)
    asked = {"consumerGroup": "g0"}
    await client.peer.send(*(client.frame(RequestCode.GET_CONSUME_STATS, asked) for _ in range(5)))
    await gate.wait()
    assert looked == sorted(looked)  # of one request: two would alternate
    assert kept_bytes(broker) > 40 * 64 * 100
    await client.peer.stream.aclose()
    await wait_all_tasks_blocked()
    assert len(looked) < 20 * WIDE // 64
    assert kept_bytes(broker) == 0


@pytest.mark.parametrize("bound", [300, 600])
async def test_every_answer_fits_a_frame_or_is_refused_with_the_way_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bound: int,
) -> None:
    async with open_test_broker(tmp_path) as broker:
        fill(broker, TOPICS[:30], queues=9, groups=9)
        client = broker.connect()
        subscribed = {f"g{number}": dict.fromkeys(TOPICS[:30], "*") for number in range(9)}
        await client.heartbeat(consumers=subscribed, producers=("p",))
        monkeypatch.setattr(_long_answer, "ANSWER_BYTES_MAX", bound)
        refused = set()
        for code in sorted(broker.broker.handlers.codes() - CHANGING):
            with trio.move_on_after(1) as waited:  # some wait for a client's answer, or write one
                asker = broker.connect()
                answer = await asker.call(code, ASKED)
            if waited.cancelled_caught:
                continue
            if answer.remark and "a frame holds" in answer.remark:
                refused.add(code)
                assert answer.remark.split(": ", 1)[1].startswith("ask for")
            assert len(answer.body) <= bound or answer.code != 0
            assert "the server failed" not in (answer.remark or ""), code
    assert refused >= {
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
    }, refused
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
