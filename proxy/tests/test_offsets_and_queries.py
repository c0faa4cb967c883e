"""Offsets of groups and queues, and single messages, as clients ask for them."""

import time
from collections.abc import Generator
from pathlib import Path
from unittest.mock import patch

import pytest
import trio

from lanemq.proxy.broker.handlers.sends._send_special import BATCH_KEYS_MAX
from lanemq.proxy.net import _page_turns
from lanemq.storage import QueryResult
from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.testkit.proxy.turns import Turns
from lanemq.testkit.reading_time import slowness
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.headers import QueryMessage
from lanemq.wire.message import (
    BatchEntry,
    decode_messages,
    decode_offset_id,
    encode_batch,
    encode_properties,
)

T0 = 1_700_000_000_000


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


async def offset(client: Client, code: int, queue_id: int = 0, **fields: str) -> int | None:
    answer = await client.call(code, {"topic": "T", "queueId": str(queue_id)} | fields)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    assert answer.code == 0
    (value,) = answer.fields.values()
    return int(value)


async def committed(client: Client, group: str = "g", queue_id: int = 0, **more: str) -> int | None:
    return await offset(
        client, RequestCode.QUERY_CONSUMER_OFFSET, queue_id, consumerGroup=group, **more
    )


async def commit(client: Client, value: int) -> None:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(value)}
    answer = await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert (answer.code, answer.fields) == (0, {})


class TestGroups:
    async def test_what_is_committed_is_answered_backwards_too(self, client: Client) -> None:
        for value in (5, 3):
            await commit(client, value)
            assert await committed(client) == value

    async def test_a_new_group_begins_at_0_in_a_young_queue(self, client: Client) -> None:
        assert await committed(client) == 0, "never written"
        await client.send()
        assert await committed(client) == 0

    async def test_who_wants_no_zero_gets_none(self, client: Client) -> None:
        await client.send()
        assert await committed(client, setZeroIfNotFound="false") is None
        assert await committed(client, setZeroIfNotFound="true") == 0

    @pytest.mark.parametrize(
        ("version", "language", "offset"),
        [(413, "JAVA", 0), (412, "JAVA", None), (413, "PYTHON", None), (409, "GO", None)],
    )
    async def test_java_clients_5_0_0_get_a_zero_though_they_want_none(
        self, broker: TestBroker, version: int, language: str, offset: int | None
    ) -> None:
        """They would begin behind the first messages of a topic that these have made."""
        await broker.connect().send()
        client = broker.connect(version=version, language=language)
        assert await committed(client, setZeroIfNotFound="false") == offset

    async def test_in_an_old_queue_the_client_chooses(
        self, broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await client.send()
        store = broker.context.store
        first_bytes = store.max_position
        await client.send(queue_id=1)
        monkeypatch.setattr(store._reader, "_cold_bytes", store.max_position - first_bytes)
        assert await committed(client) is None
        assert await committed(client, queue_id=1) == 0

    async def test_a_queue_whose_beginning_is_gone_is_not_young(
        self, broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await client.send()
        monkeypatch.setattr(broker.context.store._reader, "bounds", lambda topic, queue_id: (1, 9))
        assert await committed(client) is None

    async def test_a_oneway_commit_is_kept_and_not_answered(self, client: Client) -> None:
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "8"}
        frame = client.frame(RequestCode.UPDATE_CONSUMER_OFFSET, fields, oneway=True)
        await client.peer.send(frame)
        assert await committed(client) == 8


class TestQueues:
    async def test_the_ends_of_a_queue(self, client: Client) -> None:
        for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET):
            assert await offset(client, code) == 0
        assert await offset(client, RequestCode.GET_EARLIEST_MSG_STORETIME) == -1
        for _ in range(3):
            await client.send()
        assert await offset(client, RequestCode.GET_MAX_OFFSET) == 3
        assert await offset(client, RequestCode.GET_MIN_OFFSET) == 0
        assert await offset(client, RequestCode.GET_EARLIEST_MSG_STORETIME) == T0

    @pytest.mark.parametrize(
        ("after_ms", "nearest", "lower", "upper"),
        [(-5, 0, 0, 0), (0, 0, 0, 0), (40, 0, 1, 0), (60, 1, 1, 0), (100, 1, 1, 1), (999, 2, 3, 2)],
    )
    async def test_a_search_by_time(
        self,
        client: Client,
        clock: StandingClock,
        after_ms: int,
        nearest: int,
        lower: int,
        upper: int,
    ) -> None:
        for elapsed_ms in (0, 100, 200):
            clock.ms = T0 + elapsed_ms
            await client.send()
        code, at = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, str(T0 + after_ms)
        assert await offset(client, code, timestamp=at) == nearest
        assert await offset(client, code, timestamp=at, boundaryType="LOWER") == lower
        assert await offset(client, code, timestamp=at, boundaryType="upper") == upper


class TestMessages:
    QUERY = {  # noqa: RUF012 - a constant
        "topic": "T",
        "maxNum": "2",
        "beginTimestamp": "0",
        "endTimestamp": str(2**63 - 1),
    }

    async def test_by_key_and_by_unique_key(self, client: Client, clock: StandingClock) -> None:
        for number in range(4):
            clock.ms += 1000
            properties = {"KEYS": "a b", "UNIQ_KEY": f"U{number}"}
            await client.send(body=b"%d" % number, properties=properties)
        answer = await client.call(RequestCode.QUERY_MESSAGE, self.QUERY | {"key": "b"})
        assert answer.code == 0
        assert set(answer.fields) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
        assert answer.fields["indexLastUpdateTimestamp"] == str(clock.ms)
        assert [message.body for message in decode_messages(answer.body)] == [b"3", b"2"]

        unique = {"key": "U1", "_UNIQUE_KEY_QUERY": "true", "maxNum": "0"}
        answer = await client.call(RequestCode.QUERY_MESSAGE, self.QUERY | unique)
        assert [message.body for message in decode_messages(answer.body)] == [b"1"]

    async def test_a_key_nobody_has(self, client: Client) -> None:
        answer = await client.call(RequestCode.QUERY_MESSAGE, self.QUERY | {"key": "x"})
        assert answer.code == ResponseCode.QUERY_NOT_FOUND

    @pytest.mark.parametrize(
        "long",
        [
            {"key": "k" * 32_768},
            {"key": "k" * 900_000, "_UNIQUE_KEY_QUERY": "true"},
            {"topic": "T" * 32_768},
        ],
    )
    async def test_what_no_message_can_have_is_not_looked_for(
        self, client: Client, long: dict[str, str]
    ) -> None:
        """To hash a key of 900 KB took 41 ms."""
        answer = await client.call(RequestCode.QUERY_MESSAGE, self.QUERY | {"key": "k"} | long)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "at most 32767 fit" in (answer.remark or "")

    async def test_by_the_id_that_the_send_gave(self, client: Client) -> None:
        ids = [(await client.send(body=b"%d" % n)).fields["msgId"] for n in range(3)]
        for number, message_id in enumerate(ids):
            _, position = decode_offset_id(message_id)
            answer = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
            (message,) = decode_messages(answer.body)
            assert message.body == b"%d" % number

    @pytest.mark.parametrize("position", ["-1", "1", "99999999", str(2**63 - 1)])
    async def test_a_position_where_no_message_begins(self, client: Client, position: str) -> None:
        await client.send()
        answer = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": position})
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_a_search_by_key_lets_others_in_between(tmp_path: Path, turns: Turns) -> None:
    """Messages with the key's hash, though not the key, are looked at one by one."""
    async with open_test_broker(tmp_path, max_index_num=100_000) as broker:
        client, other = broker.connect(), broker.connect()
        for _ in range(20):
            entry = BatchEntry(0, b"x" * 100, encode_properties({"KEYS": "Aa"}))
            assert (await client.send(body=encode_batch([entry] * 100), batch=True)).code == 0
        ticks = 0

        async def tick(scope: trio.CancelScope) -> None:
            nonlocal ticks
            with scope:
                while True:
                    await trio.lowlevel.checkpoint()
                    ticks += 1

        search = broker.context.store.search
        assert len(list(search.steps("T", "BB", 32, 0, 1 << 62))) >= 2000 // 32

        steps = search.steps

        def slow_steps(
            *asked: *tuple[str, str, int, int, int],
        ) -> Generator[None, None, QueryResult]:
            slow = steps(*asked)
            while True:
                try:
                    yield next(slow)
                except StopIteration as stop:
                    found: QueryResult = stop.value
                    return found
                turns.take(_page_turns.PAGE_S)

        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick, scope)
            with patch.object(type(search), "steps", staticmethod(slow_steps)):
                found = await client.call(
                    RequestCode.QUERY_MESSAGE,
                    QueryMessage(
                        topic="T", key="BB", max_num=32, begin_timestamp=0, end_timestamp=1 << 62
                    ).to_fields(),
                )
            scope.cancel()
        assert found.code == ResponseCode.QUERY_NOT_FOUND
        assert ticks >= 2000 // 32
        assert (await other.send()).code == 0


async def test_keys_repeated_without_end_hold_nobody(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        taken = []
        for _ in range(60):
            begun = time.thread_time()
            assert (await client.send(properties={"KEYS": "k " * 15_000})).code == 0
            taken.append(time.thread_time() - begun)
        begun = time.thread_time()
        query = QueryMessage(
            topic="T", key="k", max_num=64, begin_timestamp=0, end_timestamp=1 << 62
        )
        answer = await client.call(RequestCode.QUERY_MESSAGE, query.to_fields())
        assert len(decode_messages(answer.body)) == 60
        assert time.thread_time() - begun < 0.1 * slowness()
        assert sorted(taken)[30] < 0.01 * slowness()


async def test_a_batch_has_so_many_keys_only(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, mapped_file_size_commit_log=8 << 20) as broker:
        client = broker.connect()
        keys = encode_properties({"KEYS": " ".join(map(str, range(100)))})
        text = encode_properties({"note": "a b c d e f g h i j k l m n o p q"})
        for entry, number, code in (
            (BatchEntry(0, b"x", keys), BATCH_KEYS_MAX // 64, 0),
            (BatchEntry(0, b"x", keys), BATCH_KEYS_MAX // 64 + 1, ResponseCode.MESSAGE_ILLEGAL),
            (BatchEntry(0, b"x", text), 4000, 0),
        ):
            answer = await client.send(body=encode_batch([entry] * number), batch=True)
            assert answer.code == code, answer.remark
        shared = {"KEYS": " ".join(map(str, range(100)))}
        body = encode_batch([BatchEntry(0, b"x", b"")] * 1000)
        assert (await client.send(body=body, properties=shared, batch=True)).code != 0
