"""One bad field of a request is answered as the peer's fault, whatever the request is.

No answer names an exception of Python, a path of the store or of the program, and nothing of it
is an error in the log.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.acl._needs import READERS
from lanemq.proxy.nameserver import NameServerConfig
from lanemq.proxy.nameserver._handlers import NameServerHandlers
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.nameserver.routes._table import RouteTable
from lanemq.proxy.net._dispatch import Handlers, failure
from lanemq.proxy.net._server import Server
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.testkit.proxy.peers import Connect
from lanemq.wire import LISTED_MAX, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import Header
from lanemq.wire.requests import REQUESTS, Port

BAD = (
    "1" + "0" * 30,
    "9" * 5000,
    "-" + "9" * 400,
    "1e5",
    "1.5",
    "nan",
    "",
    " 1",
    "1_0",
    "0x10",
    "null",
    "-1",
    "2147483648",
    "9223372036854775807",
    "\0/../..\n",
)
BAD_BODIES = (b"", b"{", b"[]", b"{}", b"null", b"\xff" * 9, b'{"a":1e999}', b'{"$ref":"$"}')
GOOD = {
    "topic": "T",
    "b": "T",
    "a": "pg",
    "c": "TBW102",
    "consumerGroup": "g",
    "group": "g",
    "groupName": "g",
    "subscription": "*",
    "sysFlag": "2",
    "configType": "topics",
}
LEAKS = re.compile(
    r"[a-z]Error\b|Exception\b|Traceback|invalid literal"
    r"|Exceeds the limit|base 10|object at 0x|\.py\b"
)
SLOW = frozenset(
    {
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
    }
)


def fields_of(header: type[Header]) -> dict[str, str]:
    """Fields that are fit for anything: required ones, and numbers that mean nothing bad."""
    return {
        field.encode_name: GOOD.get(field.encode_name, "1")
        for field in msgspec.structs.fields(header)
    }


def attempts(codes: frozenset[int]) -> list[tuple[int, dict[str, str], bytes]]:
    """Every code with each of its fields missing or bad, and with some bad bodies."""
    found: list[tuple[int, dict[str, str], bytes]] = []
    for code in sorted(codes):
        header = REQUESTS[code].header
        good = fields_of(header) if header is not None else {}
        for body in (
            b"",
            b"{",
            b"[]",
            b"{}",
            b"null",
            b"\xff" * 9,
            b'{"a":1e999}',
            b'{"$ref":"$"}',
        ):
            found.append((code, good, body))
        for name in good:
            found.append((code, {k: v for k, v in good.items() if k != name}, b"{}"))
            found += [(code, good | {name: bad}, b"{}") for bad in BAD]
    return found


async def check(client: Client, codes: frozenset[int], secret: str) -> None:
    """Send all of them; every answer is there, and says nothing that it may not."""
    for code, fields, body in attempts(codes):
        with trio.move_on_after(400) as waiting:
            answer = await client.call(code, fields, body)
        shown = {name: value[:40] for name, value in fields.items()}
        assert not waiting.cancelled_caught, f"{code} {shown} {body!r}: no answer"
        remark = answer.remark or ""
        assert not LEAKS.search(remark), f"{code} {shown} {body!r}: {remark}"
        assert secret not in remark, f"{code} {shown} {body!r}: {remark}"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The tracebacks and errors in a log."""
    return [
        record.getMessage() + " " + str(record.exc_info and record.exc_info[1])
        for record in caplog.records
        if record.levelno >= logging.ERROR and record.exc_info
    ]


@pytest.mark.slow
async def test_the_broker_answers_every_bad_field(
    autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        await client.send("T")
        await client.heartbeat(consumers={"g": {"T": "*"}})
        await check(client, broker.broker.handlers.codes() - SLOW, str(tmp_path))
        offsets = broker.context.store.tables.consumer_offsets.as_table()
        for queues in offsets.values():
            assert all(-(1 << 63) <= offset < 1 << 63 for offset in queues.values())
    assert errors(caplog) == []
    async with open_test_broker(tmp_path) as broker:
        assert (await broker.connect().send("T")).code == 0


@pytest.mark.slow
async def test_the_name_server_answers_every_bad_field(
    connect: Connect,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    config = NameServerConfig(config_store_path=tmp_path / "kept")
    handlers = Handlers(Port.NAME_SERVER)
    kv = KVConfig(tmp_path / "kv.json")
    NameServerHandlers(config, RouteTable(), kv, now_s=trio.current_time).add_to(handlers)
    client = Client(connect(Server(handlers, name="name server")))
    await check(client, handlers.codes(), str(tmp_path))
    assert errors(caplog) == []


async def test_an_offset_that_java_could_not_keep_is_not_kept(
    broker: TestBroker, client: Client
) -> None:
    await client.send("T")
    offsets = broker.context.store.tables.consumer_offsets
    for text in ("1" + "0" * 30, "9" * 5000, "9223372036854775808"):
        fields = {**PULL, "commitOffset": text}
        answer = await client.call(RequestCode.PULL_MESSAGE, fields)
        assert answer.code == 1
        assert "commitOffset" in (answer.remark or "")
        assert offsets.get("g", "T", 0) is None
    answer = await client.call(RequestCode.PULL_MESSAGE, {**PULL, "commitOffset": "7"})
    assert offsets.get("g", "T", 0) == 7


@pytest.mark.parametrize("text", ["x", "1e5", "1" + "0" * 400, "9" * 5000])
async def test_the_time_that_a_pull_may_wait_is_a_number(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        await client.send("T")
        fields = {**PULL, "queueOffset": "1", "suspendTimeoutMillis": text}
        answer = await client.call(RequestCode.PULL_MESSAGE, fields)
        assert answer.code == 1
        assert "suspendTimeoutMillis" in (answer.remark or "")
    assert errors(caplog) == []


PULL: Mapping[str, str] = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "7",
    "commitOffset": "0",
    "suspendTimeoutMillis": "1000",
    "subVersion": "0",
    "subscription": "*",
}


class _Session:
    peer = "10.0.0.1:1"


@pytest.mark.parametrize(
    ("error", "remark"),
    [
        (OSError(28, "No space left on device", "/data/store/x"), "No space left on device"),
        (KeyError("secret"), "the server failed at request 26; its log says why"),
    ],
)
def test_an_error_of_the_server_is_told_without_its_class_and_place(
    error: Exception, remark: str
) -> None:
    frame = Frame(code=26, opaque=1)
    said = failure(frame, _Session(), error).remark or ""  # type: ignore[arg-type]
    assert said.endswith(remark)
    assert "/data" not in said
    assert type(error).__name__ not in said


async def test_a_body_that_nobody_could_mean_is_not_read(
    tmp_path: Path,
) -> None:
    nearly = b'{"clientID":"c","producerDataSet":[' + b"{a:1}," * 1_000_000 + b"x]}"
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        for code in (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ):
            answer = await client.call(code, body=nearly)
            assert answer.code == 1
            assert "at most 524288 are read" in (answer.remark or "")
        large = b"x" * (700 << 10)
        assert (await client.send("T", large)).code == 0


@pytest.mark.parametrize(
    ("code", "name", "item", "others"),
    [
        (RequestCode.GET_CONSUME_STATS, "topicList", "T;", {"consumerGroup": "g"}),
        (
            RequestCode.QUERY_CORRECTION_OFFSET,
            "filterGroups",
            "g,",
            {"topic": "T", "compareGroup": "h"},
        ),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            "attributes",
            "-reserve.time,",
            {
                "topic": "T",
                "defaultTopic": "T",
                "readQueueNums": "1",
                "writeQueueNums": "1",
                "perm": "6",
                "topicFilterType": "SINGLE_TAG",
            },
        ),
        (RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, "configType", "topics;", {}),
    ],
)
async def test_a_list_in_a_field_has_a_bound_with_and_without_accounts(
    client: Client, code: RequestCode, name: str, item: str, others: dict[str, str]
) -> None:
    most = item * (LISTED_MAX - 1)
    for listed, is_refused in ((most, False), (most + item, True)):
        fields = {**others, name: listed}
        remark = (await client.call(code, fields)).remark or ""
        assert (f"{name} lists" in remark) is is_refused
        read = READERS[code]
        if is_refused and name in {"topicList", "filterGroups"}:
            with pytest.raises(Refused) as caught:
                read(request(code, fields))
            assert caught.value.code == ResponseCode.INVALID_PARAMETER
        else:
            read(request(code, fields))
