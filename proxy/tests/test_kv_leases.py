"""Leases at a broker: their requests, whose they are, what bounds them, and over restarts."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.storage import KvEngine
from lanemq.testkit.proxy.accounts import CHIEF, KINDS, OWNER, WEAK, open_guarded_broker
from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker
from lanemq.testkit.proxy.keys import Keys, keys_of, result
from lanemq.testkit.storage.kv import few_leases, hurry
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo
from lanemq.wire.frame import Frame
from lanemq.wire.kv import (
    LEASE_MAX,
    Action,
    Compare,
    LeasePage,
    LeaseStatus,
    LeaseTerms,
    Operation,
    OpType,
    Step,
    Txn,
    decode_answer,
    encode_steps,
    encode_terms,
    encode_txn,
)

SUCCESS, INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER
NO_LEASE, DENIED = ResponseCode.KV_LEASE_NOT_EXIST, ResponseCode.NO_PERMISSION
RIGHTS = {OWNER[0]: "own/*", WEAK[0]: "weak/*"}
ACCOUNTS = """
accounts:
  - {accessKey: chief12, secretKey: secret-of-chief, admin: true}
  - accessKey: owner12
    secretKey: secret-of-owner
    topicPerms: ['%KV%shop/own/*=PUB|SUB']
  - accessKey: weak1234
    secretKey: secret-of-weak
    topicPerms: ['%KV%shop/weak/*=PUB|SUB']
  - {accessKey: bare1234, secretKey: secret-of-bare}
  - accessKey: reads123
    secretKey: secret-of-it
    topicPerms: ['%KV%shop=SUB']
"""


def now_ms() -> int:
    """A time of day that goes with trio's clock."""
    return 1_700_000_000_000 + int(trio.current_time() * 1000)


class Holder:
    """Asks for leases over one connection."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    async def do(self, op_type: str, lease: int, ttl_ms: int = 0, *, of_any: bool = False) -> Frame:
        body = encode_terms(LeaseTerms(lease, ttl_ms, of_any))
        return await self.keys.ask(Code.KV_WRITE, body, opType=op_type)

    async def put(self, key: bytes, lease: int) -> Frame:
        body = encode_steps([Step(key, Action.PUT, b"v", ttl_ms=-lease)])
        return await self.keys.ask(Code.KV_WRITE, body, opType=OpType.PUT)

    async def page(self, **fields: object) -> LeasePage:
        answer = await self.keys.ask(Code.KV_LEASES, b"", **fields)
        assert answer.code == SUCCESS, answer
        return decode_answer(answer.body, LeasePage)


async def test_a_lease_is_granted_kept_alive_and_revoked(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY, now_ms=now_ms) as (keys, _):
        await keys.put(b"other", b"stays")
        holder = Holder(keys)
        assert result(await holder.do(OpType.LEASE, 7, 10_000)).done
        assert not result(await holder.do(OpType.LEASE, 7, 10_000)).done
        for key in (b"b", b"a"):
            assert result(await holder.put(key, 7)).done
        entry = await keys.get(b"a")
        assert entry is not None
        assert (entry.lease, entry.expires_ms) == (7, 0)
        await trio.sleep(6)
        (one,) = (await holder.page(lease=7)).leases
        assert (one.lease, one.ttl_ms, one.count, one.keys) == (7, 10_000, 2, (b"a", b"b"))
        assert 3_000 < one.left_ms <= 4_000
        assert result(await holder.do(OpType.ALIVE, 7)).done
        await trio.sleep(6)
        assert await keys.get(b"a") is not None
        assert (await keys.status()).leases == 1
        assert result(await holder.do(OpType.REVOKE, 7)).done
        assert [await keys.get(key) for key in (b"a", b"b")] == [None, None]
        assert await keys.get(b"other") is not None
        for answer in (
            await holder.do(OpType.ALIVE, 7),
            await holder.do(OpType.REVOKE, 7),
            await holder.put(b"c", 7),
            await keys.ask(Code.KV_LEASES, lease=7),
        ):
            assert answer.code == NO_LEASE
            assert "grant another one" in (answer.remark or "")


async def test_a_lease_ends_by_itself_with_nobody_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with keys_of(tmp_path, kv_engine=KvEngine.MEMORY, now_ms=now_ms) as (keys, _):
        await keys.put(b"other", b"stays")
        holder = Holder(keys)
        result(await holder.do(OpType.LEASE, 7, 2_000))
        result(await holder.put(b"a", 7))
        begin = (await keys.status()).position
        await trio.sleep(3)
        assert await keys.get(b"a") is None
        status = await keys.status()
        assert (status.entries, status.leases) == (1, 0)
        assert status.position == begin + 1  # one record, and no more
        assert (await keys.watch(begin)).code == SUCCESS


async def test_what_has_filled_the_memory_ends_by_itself_all_the_same(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Its time comes by a record, which adds nothing to what is kept."""
    async with keys_of(
        tmp_path,
        kv_engine=KvEngine.MEMORY,
        kv_memory_max_bytes=1 << 20,
        mapped_file_size_commit_log=8 << 20,
        now_ms=now_ms,
    ) as (keys, _):
        await keys.put(b"other", b"")
        holder = Holder(keys)
        result(await holder.do(OpType.LEASE, 7, 2_000))
        result(await holder.put(b"a", 7))
        result(await keys.put(b"b", bytes(1 << 20), ttl_ms=2_000))
        assert (await keys.put(b"c", b"")).code == ResponseCode.SYSTEM_BUSY
        await trio.sleep(5)
        status = await keys.status()
        assert (status.entries, status.leases) == (1, 0)
        assert (await keys.put(b"c", b"")).code == SUCCESS


@pytest.mark.parametrize("engine", KvEngine)
async def test_leases_outlive_a_restart(tmp_path: Path, engine: KvEngine) -> None:
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        await keys.put(b"other", b"")
        result(await Holder(keys).do(OpType.LEASE, 7, 3_600_000))
        result(await Holder(keys).put(b"a", 7))
        before = (await keys.status()).state_hash
    async with keys_of(tmp_path, kv_engine=engine) as (keys, _):
        assert (await keys.status()).state_hash == before
        result(await Holder(keys).do(OpType.ALIVE, 7))
        result(await Holder(keys).do(OpType.REVOKE, 7))
        assert await keys.get(b"a") is None


async def test_pages_of_leases_go_on_where_the_last_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [*range(1, 30), LEASE_MAX]
    async with keys_of(tmp_path) as (keys, _):
        await keys.put(b"other", b"")
        holder = Holder(keys)
        for number in numbers:
            result(await holder.do(OpType.LEASE, number, 60_000))
        hurry(monkeypatch)
        found, cursor = list[LeaseStatus](), 0
        for _ in range(20):
            page = await holder.page(limit=12, first=cursor)
            found += page.leases
            if page.cursor is None:
                break
            cursor = page.cursor
        assert [one.lease for one in found] == numbers
        for wrong in ({"lease": LEASE_MAX + 1}, {"lease": -1}, {"first": 2**62}):
            assert (await keys.ask(Code.KV_LEASES, b"", **wrong)).code == INVALID


async def open_accounts(tmp_path: Path, kind: str, broker: TestBroker) -> None:
    chief = broker.connect(account=CHIEF)
    if kind == "5.x":
        for name, keys in RIGHTS.items():
            entry = PolicyEntryInfo(f"Topic:%KV%shop/{keys}", ("Pub", "Sub"), None, "Allow")
            body = AclInfo(f"User:{name}", (PolicyInfo("Custom", (entry,)),)).encode()
            answer = await chief.call(Code.AUTH_UPDATE_ACL, {"subject": f"User:{name}"}, body)
            assert answer.code == SUCCESS, answer.remark
    assert (await Keys(chief, "shop").put(b"z", b"")).code == SUCCESS


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lease_is_its_accounts_alone(tmp_path: Path, kind: str) -> None:
    async with open_guarded_broker(tmp_path, kind, accounts=ACCOUNTS) as broker:
        await open_accounts(tmp_path, kind, broker)
        owner, weak, chief = (
            Holder(Keys(broker.connect(account=account), "shop"))
            for account in (OWNER, WEAK, CHIEF)
        )
        result(await owner.do(OpType.LEASE, 7, 600_000))
        result(await owner.put(b"own/1", 7))
        # A lease takes no further keys than its account has.
        assert (await owner.put(b"weak/1", 7)).code in (1, DENIED)
        for answer in (
            await weak.put(b"weak/1", 7),
            await weak.do(OpType.ALIVE, 7),
            await weak.do(OpType.REVOKE, 7),
            await weak.keys.ask(Code.KV_LEASES, lease=7),
            await chief.do(OpType.REVOKE, 7),
        ):
            assert answer.code == NO_LEASE, answer
        assert (await weak.page()).leases == []
        assert [one.lease for one in (await owner.page()).leases] == [7]
        # Those of others are for who has the right to all keys.
        for answer in (
            await weak.do(OpType.REVOKE, 7, of_any=True),
            await weak.keys.ask(Code.KV_LEASES, ofAny="true"),
            await weak.keys.ask(Code.KV_LEASES, lease=7, ofAny="true"),
        ):
            assert answer.code in (1, DENIED), answer
            assert "permission" in (answer.remark or "")
        assert [one.lease for one in (await chief.page(ofAny="true")).leases] == [7]
        assert (await chief.page(lease=7, ofAny="true")).leases[0].keys == (b"own/1",)
        result(await chief.do(OpType.REVOKE, 7, of_any=True))
        assert await owner.keys.get(b"own/1") is None


@pytest.mark.parametrize("kind", KINDS)
async def test_who_has_no_key_to_write_has_no_lease(tmp_path: Path, kind: str) -> None:
    async with open_guarded_broker(tmp_path, kind, accounts=ACCOUNTS) as broker:
        await open_accounts(tmp_path, kind, broker)
        names = [("bare1234", "secret-of-bare")]
        if kind == "4.x":
            names.append(("reads123", "secret-of-it"))
        for account in names:
            bare = Holder(Keys(broker.connect(account=account), "shop"))
            for op_type, ttl_ms in ((OpType.LEASE, 5_000), (OpType.ALIVE, 0), (OpType.REVOKE, 0)):
                answer = await bare.do(op_type, 7, ttl_ms)
                assert "permission" in (answer.remark or ""), (account, op_type)


async def test_a_comparison_of_a_lease_reads_its_key(tmp_path: Path) -> None:
    async with open_guarded_broker(tmp_path, "4.x", accounts=ACCOUNTS) as broker:
        await open_accounts(tmp_path, "4.x", broker)
        weak = Keys(broker.connect(account=WEAK), "shop")
        body = encode_txn(Txn([Compare.lease(b"own/1", "=", 0)], [], []))
        answer = await weak.ask(Code.KV_WRITE, body, opType=OpType.TXN)
        assert "permission" in (answer.remark or "")


async def test_the_leases_of_one_account_leave_some_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_leases(monkeypatch, 20)
    async with open_guarded_broker(tmp_path, "4.x", accounts=ACCOUNTS) as broker:
        await open_accounts(tmp_path, "4.x", broker)
        owner, weak = (Holder(Keys(broker.connect(account=one), "shop")) for one in (OWNER, WEAK))
        answers = [await owner.do(OpType.LEASE, number, 60_000) for number in range(1, 10)]
        assert [one.code for one in answers] == [SUCCESS] * 5 + [INVALID] * 4
        assert "has a fifth" in (answers[-1].remark or "")
        assert (await weak.do(OpType.LEASE, 20, 60_000)).code == SUCCESS
        for number in (1, 2):
            result(await owner.do(OpType.REVOKE, number))
        assert (await owner.do(OpType.LEASE, 9, 60_000)).code == SUCCESS


async def test_a_transaction_under_a_lease_that_is_gone_does_nothing(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        keys = Keys(broker.connect())
        await keys.put(b"other", b"")
        body = encode_txn(
            Txn([], [Operation.delete(b"other"), Operation.put(b"a", b"", lease=7)], [])
        )
        answer = await keys.ask(Code.KV_WRITE, body, opType=OpType.TXN)
        assert answer.code == NO_LEASE
        assert await keys.get(b"other") is not None


@pytest.mark.parametrize(
    "terms",
    [LeaseTerms(0, 5), LeaseTerms(7), LeaseTerms(LEASE_MAX + 1, 5), LeaseTerms(7, 5, of_any=True)],
)
async def test_what_is_no_grant_is_refused_before_it_is_kept(
    tmp_path: Path, terms: LeaseTerms
) -> None:
    async with keys_of(tmp_path) as (keys, _):
        await keys.put(b"other", b"")
        before = (await keys.status()).position
        answer = await keys.ask(Code.KV_WRITE, encode_terms(terms), opType=OpType.LEASE)
        assert answer.code == INVALID
        assert (await keys.status()).position == before
