"""An answer about more than a request names leaves out what its sender has no right to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lanemq.testkit.proxy.accounts import CHIEF, KINDS, WEAK, open_guarded_broker
from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.wire import RequestCode as Code
from lanemq.wire import fastjson
from lanemq.wire.bodies import ConsumeStats


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_guarded_broker(tmp_path, request.param) as broker:
        chief = broker.connect(account=CHIEF)
        for topic in ("mine", "victim"):
            for _ in range(5):
                assert (await chief.send(topic, queue_id=0)).code == 0
        yield broker


def offsets(broker: TestBroker, group: str, **topics: int) -> None:
    for topic, offset in topics.items():
        broker.context.store.tables.consumer_offsets.put(group, topic, 0, offset)


async def told_of(client: Client) -> set[str]:
    """Return the topics in the progress of the group ``mine``."""
    answer = await client.call(Code.GET_CONSUME_STATS, {"consumerGroup": "mine"})
    assert answer.code == 0, answer.remark
    return {queue.topic for queue in ConsumeStats.decode(answer.body).offset_table}


async def test_the_progress_of_a_group_is_that_in_topics_of_who_asks(broker: TestBroker) -> None:
    """Others may have consumed as this group."""
    offsets(broker, "mine", mine=1, victim=2, **{"%LQ%0%victim": 3})
    assert await told_of(broker.connect(account=WEAK)) == {"mine"}
    assert await told_of(broker.connect(account=CHIEF)) == {"mine", "victim"}


async def test_the_lowest_offset_is_that_of_groups_of_who_asks(broker: TestBroker) -> None:
    offsets(broker, "mine", mine=4)
    offsets(broker, "victim", mine=2)
    fields = {"topic": "mine", "compareGroup": "mine"}
    for account, lowest in ((WEAK, 4), (CHIEF, 2)):
        answer = await broker.connect(account=account).call(Code.QUERY_CORRECTION_OFFSET, fields)
        assert fastjson.loads(answer.body) == {"correctionOffsets": {"0": lowest}}
