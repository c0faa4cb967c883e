"""A failed task costs its turn, not the store and not the other tasks."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.storage import Supervisor
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import OpenSmall
from lanemq.wire.bodies import SubscriptionGroupConfig


async def test_a_task_that_fails_is_counted_and_goes_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor, turns = Supervisor(), 0

    async def task() -> None:
        nonlocal turns
        turns += 1
        if turns < 4:
            raise OverflowError("a number too large")

    await supervisor.run("some task", task)
    assert turns == 4
    assert supervisor.failures == {"some task": 3}
    assert "some task failed, and goes on (failure 3)" in caplog.text


async def test_a_task_can_be_cancelled(autojump_clock: MockClock) -> None:
    supervisor = Supervisor()
    with trio.move_on_after(5) as scope:
        await supervisor.run("sleeping", trio.sleep_forever)
    assert scope.cancelled_caught
    assert not supervisor.failures


async def test_a_table_that_cannot_be_written_keeps_no_other_from_it(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    ring: dict[str, object] = {"more": 1}
    ring["ring"] = ring  # no request can bring it; whatever else cannot be written is alike
    async with open_small() as store:
        tables = store.tables
        with pytest.raises(Exception, match="no JSON form"):
            tables.groups.put(SubscriptionGroupConfig("g", extra=ring))
        tables.consumer_offsets.put("g", "T", 0, 5)
        tables.delay_offsets.put(1, 7)
        await trio.sleep(30)
        assert store.supervisor.failures["writing subscriptionGroup.json"] >= 5
        survived = files.reboot("kill")
        for name in ("consumerOffset.json", "delayOffset.json"):
            assert survived.exists(Path("/store/config") / name)
        tables.groups.put(SubscriptionGroupConfig("g"))
        failures = dict(store.supervisor.failures)
        await trio.sleep(30)
        assert store.supervisor.failures == failures
