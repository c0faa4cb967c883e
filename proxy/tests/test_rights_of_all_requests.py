"""No request of any code gets at what is not its sender's, whatever fields it has or lacks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.accounts import BARE, KINDS, OWNER, WEAK, open_guarded_broker
from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.testkit.proxy.foreign import OF_HALVES, SECRET, Attempt, attempts, store_foreign
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode
from lanemq.wire.frame import Frame, SerializeType
from lanemq.wire.requests import REQUESTS, Port, Right

BROKER = [spec for spec in REQUESTS.values() if Port.BROKER in spec.ports]
FREE = {spec.code for spec in BROKER if all(touch.account is Right.NONE for touch in spec.touches)}
BINARY_CODES = range(1 << 15)
"""Codes that a binary header has room for: lanemq's own come in JSON."""
OF_ITS_CONNECTION = {Code.UNREGISTER_CLIENT}
"""Without a consumer group this has nothing but the connection's own producers leave."""


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    """Its time of day stands: no half message is renewed, however long the attempts take."""
    clock = StandingClock()
    async with open_guarded_broker(tmp_path, request.param, now_ms=clock) as broker:
        yield broker


def state(broker: TestBroker) -> object:
    """Return what the attempts could change."""
    context = broker.context
    return (
        context.store.statistics().max_position,
        context.store.tables.consumer_offsets.as_table(),
        context.store.tables.topics.names,
        context.store.tables.groups.names,
        context.config.max_message_size,
    )


async def try_all(
    broker: TestBroker, client: Client, serialize: SerializeType = SerializeType.JSON
) -> list[tuple[Code, Frame, Attempt]]:
    """Try every foreign request; returns those that were not refused for want of a right."""
    plain, half = await store_foreign(broker.connect(account=OWNER))
    broker.context.store.tables.consumer_offsets.put("victim", "victim", 0, 1)
    before, passed = state(broker), []
    for spec in BROKER:
        if serialize is SerializeType.ROCKETMQ and spec.code not in BINARY_CODES:
            continue
        stored = half if spec.code in OF_HALVES else plain
        for attempt in attempts(spec, stored, foreign="victim", own="mine"):
            answer = await client.call(spec.code, attempt.fields, attempt.body, serialize)
            assert SECRET not in answer.body, (spec.code, attempt)
            if answer.code not in (1, 16) or "permission" not in (answer.remark or ""):
                passed.append((spec.code, answer, attempt))
    assert state(broker) == before
    return passed


@pytest.mark.parametrize("serialize", SerializeType)
async def test_a_user_of_other_objects_gets_at_nothing(
    broker: TestBroker, serialize: SerializeType
) -> None:
    for code, answer, attempt in await try_all(broker, broker.connect(account=WEAK), serialize):
        if answer.code == ResponseCode.SUCCESS:
            assert code in FREE | OF_ITS_CONNECTION, attempt
        else:  # nothing is there that could be touched
            assert code in FREE | {Code.RESUME_CHECK_HALF_MESSAGE}, (code, answer, attempt)


async def test_a_user_without_any_right_gets_at_nothing(broker: TestBroker) -> None:
    for code, answer, attempt in await try_all(broker, broker.connect(account=BARE)):
        assert code in FREE | OF_ITS_CONNECTION | {Code.RESUME_CHECK_HALF_MESSAGE}, (
            code,
            answer,
            attempt,
        )


def test_only_one_request_is_free_of_every_right() -> None:
    assert {Code.CHECK_CLIENT_CONFIG} == FREE
