"""Questions of a listener about topics of very many queues, which hold nobody else up."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any, final

import pytest
import trio

from lanemq.proxy.logical.listener.brokers._broker import LONG_ANSWER_BYTES, RemoteBroker
from lanemq.proxy.logical.listener.brokers._questions import TOPIC_STATS
from lanemq.proxy.net._turns import PARTS_OF_A_TURN
from lanemq.testkit.proxy.brokers import open_test_broker
from lanemq.wire import TOPIC_QUEUES_MAX
from lanemq.wire.bodies import MessageQueue, TopicConfig, TopicOffset, TopicStatsTable
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetTopicStatsInfo

ASKED = GetTopicStatsInfo(topic="T")


@final
class Turns(trio.abc.Instrument):
    """The number of the turn of the loop."""

    def __init__(self) -> None:
        self.number = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.number += 1


async def test_the_own_broker_answers_for_some_queues_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path) as broker:
        context, topics = broker.context, broker.broker.typed.topics
        context.topics.put(TopicConfig("T", TOPIC_QUEUES_MAX, TOPIC_QUEUES_MAX))
        turns, asked = Turns(), Counter[int]()
        bounds = context.store.bounds

        def counted(topic: str, queue_id: int) -> tuple[int, int]:
            asked[turns.number] += topic == "T"
            return bounds(topic, queue_id)

        monkeypatch.setattr(context.store, "bounds", counted)
        trio.lowlevel.add_instrument(turns)
        told = await topics.stats_in_turns(ASKED)
        trio.lowlevel.remove_instrument(turns)
        assert asked.total() == TOPIC_QUEUES_MAX
        assert max(asked.values()) <= PARTS_OF_A_TURN
        assert told == topics.stats(ASKED)


@final
class Client:
    """A link to a broker that has one answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def call(self, address: str, frame: Frame, *_: object, **__: object) -> Frame:
        return frame.reply(body=self._body)


@pytest.mark.parametrize(("queues", "is_beside"), [(4, False), (TOPIC_QUEUES_MAX, True)])
async def test_a_long_answer_of_another_broker_is_read_beside_the_loop(
    queues: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = {MessageQueue("T", "b", number): TopicOffset(0, 9, 1) for number in range(queues)}
    body = TopicStatsTable(offsets, 0.0).encode()
    assert (len(body) >= LONG_ANSWER_BYTES) is is_beside
    readers, decode = list[threading.Thread](), TopicStatsTable.decode

    def noted(data: Any) -> TopicStatsTable:  # noqa: ANN401 - bytes of any kind
        readers.append(threading.current_thread())
        return decode(data)

    monkeypatch.setattr(TopicStatsTable, "decode", noted)
    client: Any = Client(body)
    broker = RemoteBroker(client=client, name="b", address="10.0.0.1:10911")
    told = await broker.call(TOPIC_STATS, ASKED, 1.0)
    assert told.stats.offset_table == offsets
    assert [one is not threading.current_thread() for one in readers] == [is_beside]
