"""A large record stays in the log until its reader takes it, and arrives as it was stored."""

from pathlib import Path

import pytest
import trio
import trio.testing

from lanemq.proxy.net._stored_reply import RecordGone, StoredReply, stored_reply
from lanemq.storage import Store
from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.headers import ViewMessage
from lanemq.wire.message import decode_messages

RECORD_BYTES = 300_000
POSITION = 5_000


def record(size_bytes: int = RECORD_BYTES, position: int = POSITION) -> bytes:
    head = size_bytes.to_bytes(4, "big") + bytes(24) + position.to_bytes(8, "big")
    body_bytes = size_bytes - len(head)
    return head + (bytes(range(251)) * (body_bytes // 251 + 1))[:body_bytes]


def log_with(data: bytes) -> "tuple[list[int], object]":
    reads: list[int] = []

    def read(position: int, size_bytes: int) -> bytes | None:
        reads.append(size_bytes)
        at = position - POSITION
        found = data[at : at + size_bytes]
        return found if len(found) == size_bytes else None

    return reads, read


def test_the_bulk_is_read_in_pieces_when_it_is_wanted() -> None:
    stored = record()
    reads, read = log_with(stored)
    reply = stored_reply(b"header" + stored, stored, read)  # type: ignore[arg-type]
    assert isinstance(reply, StoredReply)
    assert len(reply) == len(stored) + 6
    assert reads == []
    assert reply.whole() == b"header" + stored
    assert len(reads) == 2


def test_what_was_rewritten_near_the_beginning_is_kept() -> None:
    stored = record()
    given = b"header" + stored[:12] + b"\7\7\7\7" + stored[16:]
    _, read = log_with(stored)
    reply = stored_reply(given, stored, read)  # type: ignore[arg-type]
    assert isinstance(reply, StoredReply)
    assert reply.whole() == given


@pytest.mark.parametrize(
    ("reply", "stored"),
    [
        (record(1000), record(1000)),
        (record()[:40] + b"other" + record()[45:-1] + b"!", record()),
        (record() + record(), record() + record()),
    ],
    ids=["small", "rewritten elsewhere", "several records"],
)
def test_what_is_no_large_record_as_it_was_stored_is_given_back(
    reply: bytes, stored: bytes
) -> None:
    _, read = log_with(stored)
    assert stored_reply(reply, stored, read) is reply  # type: ignore[arg-type]


def test_a_record_that_is_gone_is_an_error() -> None:
    stored = record()
    _, read = log_with(b"")
    reply = stored_reply(stored, stored, read)  # type: ignore[arg-type]
    assert isinstance(reply, StoredReply)
    with pytest.raises(RecordGone, match="position 6024"):
        reply.whole()


async def large(broker: TestBroker) -> tuple[bytes, int]:
    body = bytes(number % 253 for number in range(RECORD_BYTES))
    answer = await broker.connect().send("T", body)
    return body, int(answer.fields["msgId"][-16:], 16)


async def test_pulls_views_and_parked_pulls_give_it_whole(broker: TestBroker) -> None:
    body, position = await large(broker)
    reader = broker.connect()
    (pulled,) = await reader.messages("T")
    viewed = await reader.call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(position).to_fields())
    assert [pulled] == decode_messages(viewed.body)
    assert pulled.body == body
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            (parked,) = await reader.messages("T", 0, 1, sys_flag=6)
            assert (parked.queue_offset, parked.body) == (1, body)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await large(broker)


async def test_a_reader_whose_record_went_away_loses_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "read_log", lambda *_: None)
    async with open_test_broker(tmp_path) as broker:
        _, position = await large(broker)
        reader = broker.connect()
        with pytest.raises(EOFError):
            await reader.call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(position).to_fields())
        assert (await broker.connect().send()).code == ResponseCode.SUCCESS
