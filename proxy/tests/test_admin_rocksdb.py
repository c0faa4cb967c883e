"""The check that RocksDB has what the files have, asked for by three kinds of operators (354)."""

import json
import logging
from pathlib import Path
from typing import Any, final

import pytest
import trio

from lanemq.storage import Store, StoreType
from lanemq.testkit.proxy.brokers import Client, open_test_broker
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    CheckRocksdbCqWriteProgressBody,
    CheckRocksdbCqWriteResult,
    CheckStatus,
    TopicConfig,
)
from lanemq.wire.headers import CheckRocksdbCqWriteProgress

CHECK = RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS
UNIT = "CqUnit{queueOffset=%d, size=%d, pos=%d, batchNum=1, tagsCode=0, compactedOffset=0}"


async def ask(client: Client, topic: str = "", check_from_ms: int = 0) -> CheckRocksdbCqWriteResult:
    header = CheckRocksdbCqWriteProgress(topic, check_from_ms, wait_result=True)
    answer = await client.call(CHECK, header.to_fields())
    assert answer.code == 0
    return CheckRocksdbCqWriteResult.decode(answer.body)


async def send(client: Client, topic: str, count: int) -> None:
    for number in range(count):
        assert (await client.send(topic, f"{number}".encode(), queue_id=0)).code == 0


async def test_in_stages_1_and_3_there_is_nothing_to_compare(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        assert await ask(broker.connect()) == CheckRocksdbCqWriteResult(
            "rocksdbCQWriteEnable is false, checkRocksdbCqWriteProgressCommand is invalid",
            CheckStatus.NOT_OK,
        )
    async with open_test_broker(tmp_path, store_type=StoreType.ROCKSDB) as broker:
        assert await ask(broker.connect()) == CheckRocksdbCqWriteResult(
            "storeType is DEFAULT_ROCKSDB, no need check", CheckStatus.OK
        )


async def test_without_a_topic_one_line_tells_of_all(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, rocksdb_cq_double_write_enable=True) as broker:
        client = broker.connect()
        for topic in ("T", "U"):
            broker.context.topics.put(TopicConfig(topic, 1, 1))
            await send(client, topic, 3)
        result = await ask(client)
        assert result == CheckRocksdbCqWriteResult(
            "check all topic finish, all topic is ready, checkSize: 2, currentQueueNum: 2",
            CheckStatus.OK,
            safe_to_switch=True,
        )


async def test_with_a_topic_each_queue_has_its_block(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, rocksdb_cq_double_write_enable=True) as broker:
        client = broker.connect()
        broker.context.topics.put(TopicConfig("T", 2, 2))
        await send(client, "T", 3)
        result = await ask(client, "T")
        units = broker.context.store.units("T", 0, 0, 3)
        first = UNIT % (0, units[0].size_bytes, units[0].log_position)
        last = UNIT % (2, units[2].size_bytes, units[2].log_position)
        assert result.check_status == CheckStatus.OK
        assert result.check_result == (
            "[topic: T, queue:  0] \n"
            f"  kvEarliest : {first} |  kvLatest : {last} \n"
            f" fileEarliest: {first} | fileEarliest: {last} \n"
        )
        unknown = await ask(client, "none")
        assert unknown.check_status == CheckStatus.ERROR
        assert unknown.check_result == "topic none has no queue"


async def test_a_blank_is_a_name_as_the_check_of_rights_takes_it(tmp_path: Path) -> None:
    """Rights to the topic of that name are none to all topics."""
    async with open_test_broker(tmp_path, rocksdb_cq_double_write_enable=True) as broker:
        client = broker.connect()
        await send(client, "T", 1)
        assert (await ask(client, " ")).check_result == "topic   has no queue"
        answer = await client.call(CHECK, {"topic": " "})
        assert CheckRocksdbCqWriteProgressBody.decode(answer.body).diff_result == ""


async def missing_history(tmp_path: Path) -> None:
    """Three messages that RocksDB has not, then two that it has, in a store without back-fill."""
    async with open_test_broker(tmp_path) as broker:
        broker.context.topics.put(TopicConfig("T", 1, 1))
        await send(broker.connect(), "T", 3)


DOUBLE: dict[str, Any] = {
    "rocksdb_cq_double_write_enable": True,
    "rocksdb_cq_backfill_enable": False,
}


async def test_what_rocksdb_lacks_is_named(tmp_path: Path) -> None:
    await missing_history(tmp_path)
    async with open_test_broker(tmp_path, **DOUBLE) as broker:
        client = broker.connect()
        await send(client, "T", 3)
        result = await ask(client)
        assert result.check_result is not None
        summary, *missing = result.check_result.splitlines()
        # As the reference counts, a queue that starts late is ready; ours says it is not safe.
        assert result.check_status == CheckStatus.OK
        assert "all topic is ready" in summary
        assert missing == ["[topic: T, queue: 0] firstMissing: 0, kvStartsAt: 3"]
        assert result.safe_to_switch is False
        broker.context.commit_offset("g", "T", 0, 4)  # all readers are behind what is missing
        assert (await ask(client)).safe_to_switch is True
        rows = broker.context.store.queue_rows
        assert rows is not None
        rows.delete_units("T", 0, 4, 5)
        result = await ask(client)
        assert result.check_status == CheckStatus.NOT_OK
        assert result.check_result is not None
        assert result.check_result.splitlines() == [
            "check all topic finish, success/all : 0/1, currentQueueNum: 1",
            "[topic: T, queue: 0] firstMissing: 0, kvStartsAt: 3",
        ]


@final
class Logged(logging.Handler):
    """Waits for the line with a result."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = trio.Event()
        self.line = ""

    def emit(self, record: logging.LogRecord) -> None:
        if "result: {" in record.getMessage():
            self.line = record.getMessage()
            self.seen.set()


async def test_a_tool_of_5_3_3_gets_status_2_and_the_log_the_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logged, logger = Logged(), logging.getLogger("lanemq.proxy.admin")
    logger.addHandler(logged)
    async with open_test_broker(tmp_path, rocksdb_cq_double_write_enable=True) as broker:
        client = broker.connect()
        broker.context.topics.put(TopicConfig("T", 1, 1))
        await send(client, "T", 1)
        answer = await client.call(CHECK, {"topic": "", "checkStoreTime": "5"})
        assert answer.code == 0
        assert json.loads(answer.body) == {"checkStatus": 2}
        with trio.fail_after(60):
            await logged.seen.wait()
    logger.removeHandler(logged)
    prefix, text = logged.line.split("result: ")
    assert prefix == "checkRocksdbCqWriteProgress "
    assert json.loads(text) == {
        "checkResult": (
            "check all topic finish, all topic is ready, checkSize: 1, currentQueueNum: 1"
        ),
        "checkStatus": 0,
    }


async def test_a_tool_of_5_3_1_gets_the_text_it_waits_for(tmp_path: Path) -> None:
    await missing_history(tmp_path)
    async with open_test_broker(tmp_path, **DOUBLE) as broker:
        client = broker.connect()
        await send(client, "T", 3)

        async def old(topic: str) -> str:
            answer = await client.call(CHECK, {"topic": topic})
            body = CheckRocksdbCqWriteProgressBody.decode(answer.body)
            assert body.diff_result is not None
            return body.diff_result

        assert await old("") == "check all topic successful, size:1"
        assert (await old("T")).startswith("\n[topic: T, queue:  0] \n  kvEarliest : CqUnit{")
        rows = broker.context.store.queue_rows
        assert rows is not None
        rows.delete_units("T", 0, 4, 5)
        text = await old("")
        assert text.startswith("[topic: T, queue: 0, offset: ")
        assert "  kv : null \n" in text
        assert text.endswith("check all topic successful, size:1")


async def test_too_many_checks_for_the_log_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path, rocksdb_cq_double_write_enable=True) as broker:
        begun = trio.Event()

        async def never(*_: object, **__: object) -> None:
            begun.set()
            await trio.sleep_forever()

        monkeypatch.setattr(Store, "check_rocksdb", never)
        client = broker.connect()

        async def status(client: Client) -> int:
            answer = await client.call(CHECK, {"topic": "", "checkStoreTime": "5"})
            return CheckRocksdbCqWriteResult.decode(answer.body).check_status

        first = await status(client)
        await begun.wait()
        statuses = [first] + [await status(client) for _ in range(3)]
        assert statuses == [CheckStatus.IN_PROGRESS] * 3 + [CheckStatus.ERROR]
        assert await status(broker.connect()) == CheckStatus.IN_PROGRESS
