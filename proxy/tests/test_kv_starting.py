"""A broker that starts refuses requests about keys with a code that clients retry, until it knows.

Its logs are known before its port opens; the states of some come later: made again from the log,
or brought from another broker.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.proxy.broker.kv._takeovers import Takeovers
from lanemq.proxy.logical.rules._mapping import TopicMapping
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import (
    Action,
    Entry,
    OpType,
    Step,
    decode_entry,
    encode_key,
    encode_steps,
)

BODY: Final = encode_steps([Step(b"k", Action.PUT, b"v")])
PLACED: Final = {"namespace": "default", "partition": "0", "partitions": "1"}
REQUESTS: Final[dict[str, tuple[RequestCode, dict[str, str], bytes]]] = {
    "get": (RequestCode.KV_GET, {**PLACED, "key": encode_key(b"k")}, b""),
    "multi_get": (RequestCode.KV_MULTI_GET, PLACED, b"\x91\xc4\x01k"),
    "scan": (RequestCode.KV_SCAN, PLACED, b""),
    "watch": (RequestCode.KV_WATCH, {**PLACED, "position": "0"}, b""),
    "status of a partition": (RequestCode.KV_STATUS, PLACED, b""),
    "status of a namespace": (RequestCode.KV_STATUS, {"namespace": "default"}, b""),
    "state": (RequestCode.KV_STATE, {**PLACED, "position": "1"}, b""),
    "write": (RequestCode.KV_WRITE, {**PLACED, "opType": OpType.PUT}, BODY),
    "write that creates": (
        RequestCode.KV_WRITE,
        {**PLACED, "opType": OpType.PUT, "createAt": "*"},
        BODY,
    ),
    "create": (
        RequestCode.KV_WRITE,
        {**PLACED, "opType": OpType.CREATE, "createAt": "broker-a"},
        b"",
    ),
}
LATER: Final = {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}


class Held:
    """Holds the look for states of a broker that starts."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.goes_on = trio.Event()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    held, real = Held(), Takeovers._follow

    async def follow(self: Takeovers, mapping: TopicMapping, index: int) -> bool:
        held.begun.set()
        await held.goes_on.wait()
        return await real(self, mapping, index)

    monkeypatch.setattr(Takeovers, "_follow", follow)
    return held


@asynccontextmanager
async def restarted(root: Path, held: Held, *, without_kv: bool) -> AsyncIterator[TestBroker]:
    """A broker with an entry, started again, whose states are not looked for yet."""
    held.goes_on.set()
    async with open_test_broker(root, kv_engine=KvEngine.MEMORY) as broker:
        fields = {**PLACED, "opType": OpType.PUT, "createAt": "*"}
        answer = await until_ready(broker.connect(), RequestCode.KV_WRITE, fields, BODY)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    if without_kv:
        shutil.rmtree(root / "kv")
    held.goes_on = trio.Event()
    async with open_test_broker(root, kv_engine=KvEngine.MEMORY) as broker:
        yield broker


async def until_ready(
    client: Client, code: RequestCode, fields: dict[str, str], body: bytes
) -> Frame:
    with trio.fail_after(60):
        while True:
            answer = await client.call(code, fields, body)
            if answer.code not in LATER:
                return answer
            await trio.sleep(0.01)


@pytest.mark.parametrize("what", REQUESTS)
@pytest.mark.parametrize("without_kv", [True, False])
async def test_a_broker_that_starts_never_denies_its_namespace(
    tmp_path: Path, held: Held, what: str, without_kv: bool
) -> None:
    code, fields, body = REQUESTS[what]
    async with restarted(tmp_path, held, without_kv=without_kv) as broker:
        client = broker.connect()
        answer = await client.call(code, fields, body)
        if without_kv:
            assert answer.code in LATER, answer.remark
        else:
            assert answer.code != ResponseCode.KV_NAMESPACE_NOT_EXIST, answer.remark
        held.goes_on.set()
        get, key, nothing = REQUESTS["get"]
        entry = decode_entry((await until_ready(client, get, key, nothing)).body)
        assert isinstance(entry, Entry)
        assert entry.value == b"v"


async def test_a_namespace_that_is_not_here_is_denied_at_once(tmp_path: Path, held: Held) -> None:
    async with restarted(tmp_path, held, without_kv=True) as broker:
        fields = {**REQUESTS["get"][1], "namespace": "other"}
        answer = await broker.connect().call(RequestCode.KV_GET, fields)
        assert answer.code == ResponseCode.KV_NAMESPACE_NOT_EXIST
