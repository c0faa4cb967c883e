"""Deadlines in the time of day follow a clock that is set, and spans do not."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, SystemTopic
from lanemq.wire.bodies import ConsumerIdList, LockBatch, LockBatchResult, MessageQueue

BASE_MS = 1_700_000_000_000
HOUR_S = 3600
LATE_S = 2.5
"""Seconds after which everything that is due has come: one look at the clock, and the work."""


class SettableClock:
    """A time of day that goes on with trio's clock, and can be set besides."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> int:
        return BASE_MS + round((trio.current_time() + self.ahead_s) * 1000)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
async def broker(
    tmp_path: Path, clock: SettableClock, autojump_clock: MockClock
) -> AsyncIterator[TestBroker]:
    async with open_test_broker(
        tmp_path,
        now_ms=clock,
        message_delay_level="30s 10m",
        transaction_check_interval=10_000,
        transaction_time_out=6000,
        delete_when="04",
        file_reserved_time=2,
    ) as opened:
        yield opened


async def delayed(client: Client, seconds: int) -> None:
    answer = await client.send("T", b"m", {"DELAY": {30: "1", 600: "2"}[seconds]})
    assert answer.code == 0


async def timed(client: Client, seconds: int) -> None:
    answer = await client.send("T", b"m", {"TIMER_DELAY_SEC": str(seconds)})
    assert answer.code == 0


async def sent_back(client: Client, seconds: int) -> None:
    """Let a consumer fail: the message comes again after a delay."""
    assert (await client.send("Orders", b"m")).code == 0
    (message,) = await client.messages("Orders", 0)
    await client.heartbeat("c1", consumers={"g": {"Orders": "*"}})
    fields = {"offset": str(message.log_position), "group": "g", "originTopic": "Orders"}
    level = {30: "1", 600: "2"}[seconds]
    answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, {**fields, "delayLevel": level})
    assert answer.code == 0


WAITING: list[tuple[Callable[[Client, int], Awaitable[None]], str]] = [
    (delayed, "T"),
    (timed, "T"),
    (sent_back, "%RETRY%g"),
]


async def count(client: Client, topic: str) -> int:
    return len(await client.messages(topic, 0))


@pytest.mark.parametrize(("wait", "topic"), WAITING)
async def test_a_message_comes_when_the_clock_is_set_beyond_its_time(
    client: Client, clock: SettableClock, wait: Callable[..., Awaitable[None]], topic: str
) -> None:
    await wait(client, 600)
    await trio.sleep(5)
    assert await count(client, topic) == 0
    clock.ahead_s += HOUR_S
    await trio.sleep(LATE_S)
    assert await count(client, topic) == 1


@pytest.mark.parametrize(("wait", "topic"), WAITING)
@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_message_comes_at_its_time_when_the_clock_is_set_back_and_right_again(
    broker: TestBroker,
    client: Client,
    clock: SettableClock,
    wait: Callable[..., Awaitable[None]],
    topic: str,
    meanwhile: bool,
) -> None:
    await wait(client, 30)
    clock.ahead_s -= HOUR_S
    if meanwhile:
        await client.send("T2", b"other", {"TIMER_DELAY_SEC": "500"})
        await client.send("T2", b"other", {"DELAY": "2"})
    await trio.sleep(20)
    clock.ahead_s += HOUR_S
    await trio.sleep(10 + LATE_S)
    assert await count(client, topic) == 1
    await trio.sleep(700)
    assert await count(broker.connect(), topic) == 1


@pytest.mark.parametrize(("wait", "topic"), WAITING)
async def test_a_message_that_is_sent_after_the_clock_was_set_back_waits_no_longer(
    client: Client, clock: SettableClock, wait: Callable[..., Awaitable[None]], topic: str
) -> None:
    await client.send("T2", b"before", {"TIMER_DELAY_SEC": "2"})
    await client.send("T2", b"before", {"TIMER_DELAY_SEC": "900"})
    await trio.sleep(10)
    clock.ahead_s -= HOUR_S
    await trio.sleep(1)
    await wait(client, 30)
    await trio.sleep(28)
    assert await count(client, topic) == 0
    await trio.sleep(2 + LATE_S)
    assert await count(client, topic) == 1


async def test_delays_are_no_longer_when_the_clock_is_set_back(
    client: Client, clock: SettableClock
) -> None:
    await delayed(client, 600)
    clock.ahead_s -= HOUR_S
    await trio.sleep(600 + LATE_S)
    assert await count(client, "T") == 1


@pytest.mark.parametrize("steps_s", [(HOUR_S,), (-HOUR_S,), (-HOUR_S, HOUR_S)])
async def test_open_transactions_are_checked_whatever_the_clock_does(
    client: Client, clock: SettableClock, steps_s: tuple[int, ...]
) -> None:
    half = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U1"}
    answer = await client.send(
        "T", b"m", half, sys_flag=4, born_timestamp=clock(), producer_group="pg"
    )
    assert answer.code == 0
    for step_s in steps_s:
        clock.ahead_s += step_s
        await trio.sleep(2)
    await trio.sleep(20)
    assert await count(client, SystemTopic.TRANSACTION_HALF) > 1  # each check stores it again


async def test_old_files_go_when_the_clock_is_set_into_the_hour_of_deletion(
    broker: TestBroker, client: Client, clock: SettableClock, tmp_path: Path
) -> None:
    for _ in range(30):
        assert (await client.send("T", bytes(64 << 10))).code == 0
    await trio.sleep(2)
    (oldest, *_) = sorted((tmp_path / "commitlog").iterdir())
    os.utime(oldest, (clock() // 1000 - 10 * HOUR_S,) * 2)
    hour = time.localtime(clock() // 1000).tm_hour
    clock.ahead_s += (3 - hour) % 24 * HOUR_S
    await trio.sleep(120)
    assert oldest.exists() is (time.localtime(clock() // 1000).tm_hour != 4)
    clock.ahead_s += HOUR_S
    await trio.sleep(15)
    assert not oldest.exists()


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
async def test_spans_are_not_times_of_day(
    broker: TestBroker, client: Client, clock: SettableClock, step_s: int
) -> None:
    """Locks, members and parked pulls last as long as they last."""
    assert (await client.send("T")).code == 0
    await client.heartbeat("c1", consumers={"g": {"T": "*"}})
    queue = MessageQueue("T", "broker-a", 0)

    async def locked(client_id: str) -> bool:
        body = LockBatch("g", client_id, (queue,)).encode()
        answer = await client.call(RequestCode.LOCK_BATCH_MQ, body=body)
        return bool(LockBatchResult.decode(answer.body).lock_ok_mq_set)

    assert await locked("c1")
    clock.ahead_s += step_s
    assert not await locked("c2")
    await trio.sleep(30)
    assert not await locked("c2")
    answer = await client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert ConsumerIdList.decode(answer.body).consumer_id_list == ("c1",)
    await trio.sleep(31)
    assert await locked("c2")
    began_s = trio.current_time()
    parked = trio.current_time() + 15
    clock.ahead_s -= step_s
    await client.pull("T", 0, 1, sys_flag=6, suspend_timeout_millis=15_000)
    assert began_s + 14 <= trio.current_time() <= parked + 6
