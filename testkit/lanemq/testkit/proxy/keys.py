"""Requests for keys and values, as any client may send them, for tests of brokers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import (
    LONE_BROKER,
    Action,
    Entry,
    NamespaceStatus,
    OpType,
    Step,
    WriteAnswer,
    decode_answer,
    encode_key,
    encode_steps,
)

from .brokers import Client, TestBroker, open_test_broker

SUCCESS = ResponseCode.SUCCESS


class Keys:
    """Asks for keys over one connection."""

    def __init__(self, client: Client, namespace: str = "default") -> None:
        self.client = client
        self.namespace = namespace

    async def ask(self, code: int, body: bytes = b"", **fields: object) -> Frame:
        named = {name: str(value) for name, value in fields.items()}
        return await self.client.call(code, {"namespace": self.namespace, **named}, body)

    async def write(self, op_type: str, *steps: Step, **fields: object) -> Frame:
        body = encode_steps(steps) if steps else b""
        named = {"createAt": LONE_BROKER, **fields}
        return await self.ask(RequestCode.KV_WRITE, body, opType=op_type, **named)

    async def put(self, key: bytes, value: bytes, ttl_ms: int = 0, **fields: int | str) -> Frame:
        return await self.write(OpType.PUT, Step(key, Action.PUT, value, ttl_ms), **fields)

    async def get(self, key: bytes) -> Entry | None:
        answer = await self.ask(RequestCode.KV_GET, key=encode_key(key))
        assert answer.code == SUCCESS, answer.remark
        return msgspec.msgpack.decode(answer.body, type=Entry | None)

    async def status(self) -> NamespaceStatus:
        answer = await self.ask(RequestCode.KV_STATUS)
        (one,) = decode_answer(answer.body, list[NamespaceStatus])
        return one

    async def watch(self, position: int, wait_ms: int = 0, prefix: bytes = b"") -> Frame:
        return await self.ask(
            RequestCode.KV_WATCH, position=position, waitMillis=wait_ms, prefix=encode_key(prefix)
        )


def result(answer: Frame) -> WriteAnswer:
    assert answer.code == SUCCESS, answer.remark
    return decode_answer(answer.body, WriteAnswer)


@asynccontextmanager
async def keys_of(
    root: Path,
    **settings: Any,  # noqa: ANN401 - every setting has its own type
) -> AsyncIterator[tuple[Keys, TestBroker]]:
    async with open_test_broker(root, **settings) as broker:
        yield Keys(broker.connect()), broker
