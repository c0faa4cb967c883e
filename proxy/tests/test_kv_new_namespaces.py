"""Namespaces that are made by their first writes, while everybody else is served."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from lanemq.proxy.broker.kv._namespaces import Asked
from lanemq.proxy.broker.kv._writes import KvWrites
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.brokers import Client, open_test_broker
from lanemq.testkit.storage.kv import EngineOpener, pass_through
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import Action, OpType, Step, WriteAnswer, decode_answer, encode_key
from lanemq.wire.kv import encode_steps as steps


class Gate:
    """Holds whoever opens a database, or makes a table, until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.threads: list[str] = []

    def pass_through(self, what: str) -> None:
        here = threading.current_thread() is threading.main_thread()
        self.threads.append(f"{what} in {'the main thread' if here else 'a thread'}")
        self.entered.set()
        assert here or self.open.wait(60)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    pass_through(monkeypatch, gate.pass_through)
    yield gate
    gate.open.set()


def version(answer: Frame) -> int:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return decode_answer(answer.body, WriteAnswer).results[0].version


async def test_the_database_is_opened_in_a_thread_and_others_are_answered_meanwhile(
    tmp_path: Path, gate: Gate
) -> None:
    async with open_test_broker(tmp_path, kv_engine=KvEngine.ROCKSDB) as broker:
        client, other = broker.connect(), broker.connect()
        fields = {"opType": OpType.PUT, "createAt": "*"}
        writes = [
            client.frame(RequestCode.KV_WRITE, fields, steps([Step(b"k", Action.PUT, b"%d" % n)]))
            for n in range(5)
        ]
        await client.peer.send(*writes[:3])
        await trio.to_thread.run_sync(gate.entered.wait)
        assert gate.threads == ["open in a thread"]
        await client.peer.send(*writes[3:])
        unknown = await other.call(RequestCode.KV_GET, {"key": encode_key(b"k")})
        assert unknown.code == ResponseCode.KV_NAMESPACE_NOT_EXIST
        assert (await other.send("T", b"a message")).code == ResponseCode.SUCCESS
        gate.open.set()
        answers = [await client.peer.receive() for _ in writes]
        assert [one.opaque for one in answers] == [one.opaque for one in writes]
        assert [version(one) for one in answers] == [1, 2, 3, 4, 5]
        assert gate.threads == ["open in a thread", "table in a thread"]
        # Another namespace needs a table only; that is not made in the event loop either.
        jobs = {"opType": OpType.PUT, "createAt": "*", "namespace": "jobs"}
        put = await client.call(RequestCode.KV_WRITE, jobs, steps([Step(b"k", Action.PUT, b"x")]))
        assert version(put) == 1
        assert gate.threads[2:] == ["table in a thread"]
    gate.threads.clear()
    async with open_test_broker(tmp_path, kv_engine=KvEngine.ROCKSDB) as broker:
        got = await broker.connect().call(RequestCode.KV_GET, {"key": encode_key(b"k")})
        assert got.code == ResponseCode.SUCCESS


async def test_a_writer_that_hangs_up_keeps_nobody_else_from_a_new_namespace(
    tmp_path: Path, gate: Gate
) -> None:
    async with open_test_broker(tmp_path, kv_engine=KvEngine.ROCKSDB) as broker:
        first, second = broker.connect(), broker.connect()
        fields = {"opType": OpType.PUT, "createAt": "*"}
        body = steps([Step(b"k", Action.PUT, b"v")])
        await first.peer.send(first.frame(RequestCode.KV_WRITE, fields, body))
        await trio.to_thread.run_sync(gate.entered.wait)
        await first.peer.stream.aclose()
        frame = second.frame(RequestCode.KV_WRITE, fields, body)
        await second.peer.send(frame)
        gate.open.set()
        assert version(await second.peer.receive()) in (1, 2)


async def test_what_waits_for_a_namespace_goes_with_its_connection(
    tmp_path: Path, gate: Gate
) -> None:
    """Nobody is charged for it any more, and whoever connects again could leave as much again."""
    async with open_test_broker(tmp_path, kv_engine=KvEngine.ROCKSDB) as broker:
        first, second = broker.connect(), broker.connect()
        fields = {"opType": OpType.PUT, "createAt": "*"}
        body = steps([Step(b"k", Action.PUT, b"v")])
        await first.peer.send(*[first.frame(RequestCode.KV_WRITE, fields, body) for _ in range(50)])
        await trio.to_thread.run_sync(gate.entered.wait)
        await first.peer.stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        await second.peer.send(second.frame(RequestCode.KV_WRITE, fields, body))
        await trio.testing.wait_all_tasks_blocked(0.01)
        gate.open.set()
        assert version(await second.peer.receive()) == 1


class Turns(trio.abc.Instrument):
    """Counts the turns of the loop, and what is appended in each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turn = 0
        self.appended = Counter[int]()
        append = KvWrites._append

        def counted(writes: KvWrites, asked: Asked) -> None:
            self.appended[self.turn] += 1
            append(writes, asked)

        monkeypatch.setattr(KvWrites, "_append", counted)

    def after_io_wait(self, timeout: float) -> None:
        self.turn += 1


async def test_writes_that_wait_for_a_namespace_are_charged_and_appended_in_turns(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that come meanwhile are behind them, and keep the last from its turn no longer."""
    turns, count = Turns(monkeypatch), 1000
    async with open_test_broker(tmp_path, kv_engine=KvEngine.ROCKSDB) as broker:
        budget = broker.context.budget
        client, later = broker.connect(), broker.connect()
        fields = {"opType": OpType.PUT, "createAt": "*"}

        def write(number: int, *, of: Client = client, oneway: bool = True) -> Frame:
            body = steps([Step(b"k", Action.PUT, b"%d" % number)])
            return of.frame(RequestCode.KV_WRITE, fields, body, oneway=oneway)

        assert (await client.send("T", b"a message")).code == ResponseCode.SUCCESS
        used_bytes = budget.used_bytes
        for begin in range(0, count, 100):
            await client.peer.send(*[write(number) for number in range(begin, begin + 100)])
        await client.peer.send(write(count, oneway=False))
        await trio.to_thread.run_sync(gate.entered.wait)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert budget.used_bytes - used_bytes > 1024 * count
        trio.lowlevel.add_instrument(turns)
        gate.open.set()
        while not turns.appended:
            await trio.lowlevel.checkpoint()
        await later.peer.send(*[write(number, of=later, oneway=False) for number in range(9)])
        assert version(await client.peer.receive()) == count + 1
        assert [version(await later.peer.receive()) for _ in range(9)] == [
            count + 2 + number for number in range(9)
        ]
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert budget.used_bytes <= used_bytes
    assert turns.appended.total() == count + 10
    assert max(turns.appended.values()) <= 200


async def test_a_database_that_cannot_be_opened_refuses_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = EngineOpener.open

    def full(self: EngineOpener) -> object:
        raise OSError(28, "No space left on device")

    async with open_test_broker(tmp_path, kv_engine=KvEngine.ROCKSDB) as broker:
        client = broker.connect()
        fields = {"opType": OpType.PUT, "createAt": "*"}
        body = steps([Step(b"k", Action.PUT, b"v")])
        with monkeypatch.context() as patch:
            patch.setattr(EngineOpener, "open", full)
            frames = [client.frame(RequestCode.KV_WRITE, fields, body) for _ in range(2)]
            await client.peer.send(*frames)
            for _ in frames:
                refused = await client.peer.receive()
                assert refused.code == ResponseCode.SYSTEM_ERROR
                assert "No space left on device" in (refused.remark or "")
        assert EngineOpener.open is real
        assert version(await client.call(RequestCode.KV_WRITE, fields, body)) == 1
