"""Subscriptions by SQL92: who gets what, at once and after waiting, and what is refused."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.broker.handlers.pulls import _reads
from lanemq.proxy.sessions.state._consumer_filters import ConsumerFilters
from lanemq.testkit.proxy.brokers import Client, TestBroker, pull_header
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from lanemq.wire.frame import Frame
from lanemq.wire.message import decode_messages


async def fill(client: Client, *properties: dict[str, str]) -> None:
    for number, own in enumerate(properties):
        await client.send(body=b"%d" % number, properties=own)


async def subscribe(client: Client, expression: str, version: int = 1) -> None:
    data = HeartbeatData(
        client_id="id",
        consumer_data_set=(
            ConsumerData(
                "g",
                subscription_data_set=(
                    SubscriptionData("T", expression, sub_version=version, expression_type="SQL92"),
                ),
            ),
        ),
    )
    assert (await client.call(RequestCode.HEART_BEAT, body=data.encode())).code == 0


def bodies(answer: Frame) -> list[bytes]:
    return [message.body for message in decode_messages(answer.body)]


MIXED: tuple[dict[str, str], ...] = (
    {"a": "1"},
    {"a": "7"},
    {},
    {"a": "9", "b": "x"},
    {"a": "many"},
)


async def test_a_pull_that_brings_its_filter_gets_what_matches(client: Client) -> None:
    await fill(client, *MIXED)
    answer = await client.pull(expression_type="SQL92", subscription="a > 5")
    assert answer.code == 0
    assert bodies(answer) == [b"1", b"3"]
    assert answer.fields["nextBeginOffset"] == "5"


async def test_the_filter_of_the_heartbeat_counts_where_a_pull_brings_none(client: Client) -> None:
    await fill(client, *MIXED)
    await subscribe(client, "b IS NOT NULL OR a = 'many'")
    assert bodies(await client.pull(sys_flag=0, sub_version=1)) == [b"3", b"4"]
    await subscribe(client, "a IS NULL", version=2)
    assert bodies(await client.pull(sys_flag=0, sub_version=2)) == [b"2"]


async def test_what_does_not_match_is_passed_over(client: Client) -> None:
    await fill(client, *MIXED)
    answer = await client.pull(expression_type="SQL92", subscription="a = 100")
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert answer.fields["nextBeginOffset"] == "5"


async def test_one_pull_looks_at_eight_hundred_messages(client: Client) -> None:
    await fill(client, *[{"a": "1"}] * 850, {"a": "9"})
    answer = await client.pull(expression_type="SQL92", subscription="a > 5")
    assert answer.fields["nextBeginOffset"] == "800"
    answer = await client.pull(offset=800, expression_type="SQL92", subscription="a > 5")
    assert bodies(answer) == [b"850"]


async def test_a_pull_whose_filter_takes_long_goes_on_where_it_stopped(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_reads, "JUDGING_S", -1.0)  # any time at all is too long
    await fill(client, *MIXED)
    offset, looks, found = 0, 0, []
    while offset < len(MIXED):
        answer = await client.pull(offset=offset, expression_type="SQL92", subscription="a > 5")
        looks += 1
        assert int(answer.fields["nextBeginOffset"]) > offset
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
        offset = int(answer.fields["nextBeginOffset"])
        found += bodies(answer) if answer.code == 0 else []
    assert found == [b"1", b"3"]
    assert looks == 3


async def test_parked_pulls_that_take_long_to_judge_are_answered_in_turns(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(_reads, "JUDGING_S", -1.0)
    clients = [broker.connect() for _ in range(20)]
    sender = broker.connect()
    await fill(sender, {})
    answers: list[Frame] = []

    async def wait(number: int) -> None:
        pull = {"sys_flag": 6, "expression_type": "SQL92", "subscription": f"a > {number}"}
        offset = 1
        while not (
            answer := await clients[number].pull(offset=offset, **pull)  # type: ignore[arg-type]
        ).body:
            offset = int(answer.fields["nextBeginOffset"])
        answers.append(answer)

    async with trio.open_nursery() as nursery:
        for number in range(len(clients)):
            nursery.start_soon(wait, number)
        await wait_all_tasks_blocked()
        await fill(sender, {"a": "-1"}, {"a": "100"})
    assert len(answers) == len(clients)
    assert all(bodies(answer) == [b"1"] for answer in answers)
    assert trio.current_time() < 2


@pytest.mark.parametrize("posted", [True, False])
async def test_a_parked_pull_wakes_for_what_matches(
    broker: TestBroker, client: Client, posted: bool, autojump_clock: MockClock
) -> None:
    sender = broker.connect()
    await fill(sender, {})
    await subscribe(client, "a > 5")
    answers: list[Frame] = []

    async def wait() -> None:
        answers.append(
            await client.pull(
                offset=1,
                sys_flag=6 if posted else 2,
                sub_version=1,
                expression_type="SQL92",
                subscription="a > 5",
            )
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        await fill(sender, {"a": "1"}, {"a": "x"})
        await trio.sleep(1)
        assert answers == []
        await fill(sender, {"a": "8"})
    assert trio.current_time() < 3
    assert [message.properties["a"] for message in decode_messages(answers[0].body)] == ["8"]


async def test_a_parked_pull_moves_on_past_what_it_does_not_want(
    broker: TestBroker, client: Client, autojump_clock: MockClock
) -> None:
    sender = broker.connect()
    await fill(sender, {})
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send() -> None:
            await trio.sleep(1)
            await fill(sender, {"a": "1"})

        answer = await client.pull(
            offset=1, sys_flag=6, expression_type="SQL92", subscription="a > 5"
        )
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert answer.fields["nextBeginOffset"] == "2"
    assert 5 < trio.current_time() < 7


@pytest.mark.parametrize("expression", ["a >", "", "a > 'x'"])
async def test_a_pull_with_an_expression_that_is_none_is_refused(
    client: Client, expression: str
) -> None:
    await client.send()
    answer = await client.pull(expression_type="SQL92", subscription=expression)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    answer = await client.pull(expression_type="XPATH", subscription="a > 5")
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_subscribed_expression_that_is_none_gives_no_filter(client: Client) -> None:
    await client.send()
    await subscribe(client, "a > > 5")
    answer = await client.pull(sys_flag=0)
    assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
    await subscribe(client, "a > 5", version=2)
    assert (await client.pull(sys_flag=0)).code == ResponseCode.PULL_RETRY_IMMEDIATELY
    answer = await client.pull(sys_flag=0, sub_version=3)
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_a_filter_older_than_its_subscription_is_not_used(client: Client) -> None:
    await client.send()
    await subscribe(client, "a > 5")
    await subscribe(client, "", version=2)
    answer = await client.pull(sys_flag=0, sub_version=2)
    assert answer.code == ResponseCode.FILTER_DATA_NOT_LATEST


@pytest.mark.parametrize(
    ("kind", "expression", "code"),
    [
        ("TAG", "a > > 5", 0),
        ("SQL92", "a > 5", 0),
        ("SQL92", "a > > 5", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ("XPATH", "a > 5", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
async def test_a_client_that_asks_first_is_told_what_is_wrong(
    client: Client, kind: str, expression: str, code: int
) -> None:
    subscription = SubscriptionData("T", expression, expression_type=kind)
    body = CheckClientRequestBody("id", "g", subscription).encode()
    answer = await client.call(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    assert answer.code == code
    if code and kind == "SQL92":
        assert "found '>' at character 5" in str(answer.remark)


async def test_switched_off_the_feature_is_refused_even_to_those_who_subscribed(
    broker: TestBroker, client: Client
) -> None:
    await client.send()
    await subscribe(client, "a > 5")
    answer = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"enablePropertyFilter=false")
    assert answer.code == 0
    answer = await client.pull(sys_flag=0)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    remark = "The broker does not support consumer to filter message by SQL92"
    assert answer.remark == remark


@pytest.mark.parametrize("judged", [True, False])
async def test_retries_are_filtered_only_where_the_broker_is_told_to(
    broker: TestBroker, client: Client, judged: bool
) -> None:
    broker.context.config.filter_support_retry = judged
    await subscribe(client, "a > 5")
    for value in ("1", "9"):
        await client.send("%RETRY%g", properties={"RETRY_TOPIC": "T", "a": value})
    await client.send("%RETRY%g", properties={"RETRY_TOPIC": "other", "a": "1"})
    found = await client.messages("%RETRY%g")
    expected = ["9", "1"] if judged else ["1", "9", "1"]
    assert [message.properties["a"] for message in found] == expected


async def test_a_pull_by_tags_is_not_filtered_by_another_subscription(client: Client) -> None:
    await fill(client, {"a": "1", "TAGS": "A"}, {"a": "9", "TAGS": "B"})
    await subscribe(client, "a > 5")
    answer = await client.call(
        RequestCode.PULL_MESSAGE, pull_header("T", 0, 0, subscription="A").to_fields()
    )
    assert bodies(answer) == [b"0"]


def test_a_filter_is_replaced_by_newer_subscriptions_only() -> None:
    def sql(text: str, version: int) -> list[SubscriptionData]:
        return [SubscriptionData("T", text, sub_version=version, expression_type="SQL92")]

    filters = ConsumerFilters()
    filters.register(sql("a > 1", 5))
    filters.register(sql("a > 2", 4))
    found = filters.get("T")
    assert found is not None
    assert (found.expression, found.version_ms) == ("a > 1", 5)
    filters.register(sql("a > 1", 6))
    found = filters.get("T")
    assert found is not None
    assert found.version_ms == 6
    filters.register([SubscriptionData.of_tags("T", "A", sub_version=7)])
    assert filters.get("T") == found
    filters.register([])
    assert filters.get("T") is None
