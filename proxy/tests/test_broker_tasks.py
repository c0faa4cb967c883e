"""The broker's tasks beside the requests: one that fails costs its turn, not the process."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.net._turns import Steps
from lanemq.testkit.proxy.brokers import TestBroker
from lanemq.wire import RequestCode
from lanemq.wire.bodies import KVTable


async def test_the_broker_goes_on_when_one_of_its_tasks_fails(
    autojump_clock: MockClock, broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled: list[float] = []

    def sample(now_s: float, day: int) -> Steps[None]:
        sampled.append(now_s)
        if len(sampled) == 2:
            raise OverflowError("timestamp too large")
        yield None

    monkeypatch.setattr(broker.context.statistics, "sample", sample)
    client = broker.connect()
    while len(sampled) < 4:
        assert (await client.send()).code == 0
        await trio.sleep(1)
    broker.expected_failures = {"sampling": 1}
    answer = await client.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    assert KVTable.decode(answer.body).table["taskFailures"] == "1"
