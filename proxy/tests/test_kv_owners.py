"""Writes that are repeated belong to an account: with accounts of both kinds, nobody is answered
another account's results, takes its numbers, or has them forgotten."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lanemq.testkit.proxy.accounts import CHIEF, KINDS, OWNER, WEAK, open_guarded_broker
from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker
from lanemq.testkit.proxy.keys import Keys, result
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo
from lanemq.wire.frame import Frame
from lanemq.wire.kv import (
    PARTITIONS_MAX,
    SEQUENCE_MAX,
    Action,
    Operation,
    OpType,
    Step,
    Txn,
    TxnAnswer,
    decode_answer,
    encode_key,
    encode_steps,
    encode_txn,
)

SUCCESS, INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER
FORGOTTEN = ResponseCode.KV_WRITE_FORGOTTEN
RIGHTS = {OWNER[0]: ("victim/*", "shared"), WEAK[0]: ("weak/*", "shared")}
ACCOUNTS = """
accounts:
  - {accessKey: chief12, secretKey: secret-of-chief, admin: true}
  - accessKey: owner12
    secretKey: secret-of-owner
    topicPerms: ['%KV%shop/victim/*=PUB|SUB', '%KV%shop/shared=PUB|SUB']
  - accessKey: weak1234
    secretKey: secret-of-weak
    topicPerms: ['%KV%shop/weak/*=PUB|SUB', '%KV%shop/shared=PUB|SUB']
"""


class Writer:
    """Writes of one account, with ids and numbers that it chooses."""

    def __init__(
        self, broker: TestBroker, account: tuple[str, str] | None, *, named: str | None = None
    ) -> None:
        """Sign as ``account``, or name one, ``named``, without a signature."""
        self.keys = Keys(broker.connect(account=account), "shop")
        self.named = {} if named is None else {"AccessKey": named}

    async def put(self, key: bytes, sequence: int, waits: int = 1, client: str = "till") -> Frame:
        body = encode_steps([Step(key, Action.PUT, b"of " + key)])
        return await self.write(OpType.PUT, body, sequence, waits, client)

    async def read(self, key: bytes, sequence: int) -> Frame:
        body = encode_txn(Txn([], [Operation.get(key)], []))
        return await self.write(OpType.TXN, body, sequence, 1, "till")

    async def write(
        self, op_type: str, body: bytes, sequence: int, waits: int, client: str
    ) -> Frame:
        return await self.keys.ask(
            Code.KV_WRITE,
            body,
            opType=op_type,
            client=client,
            sequence=sequence,
            waits=waits,
            **self.named,
        )

    async def value(self, key: bytes) -> bytes | None:
        entry = await self.keys.get(key)
        return None if entry is None else entry.value


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_guarded_broker(tmp_path, request.param, accounts=ACCOUNTS) as broker:
        chief = broker.connect(account=CHIEF)
        if request.param == "5.x":
            for name, keys in RIGHTS.items():
                entries = tuple(
                    PolicyEntryInfo(f"Topic:%KV%shop/{key}", ("Pub", "Sub"), None, "Allow")
                    for key in keys
                )
                body = AclInfo(f"User:{name}", (PolicyInfo("Custom", entries),)).encode()
                answer = await chief.call(Code.AUTH_UPDATE_ACL, {"subject": f"User:{name}"}, body)
                assert answer.code == SUCCESS, answer.remark
        assert (await Keys(chief, "shop").put(b"victim/secret", b"hidden")).code == SUCCESS
        yield broker


def answered(answer: Frame) -> TxnAnswer:
    assert answer.code == SUCCESS, answer.remark
    return decode_answer(answer.body, TxnAnswer)


async def test_an_account_is_not_answered_the_results_of_another(broker: TestBroker) -> None:
    victim, weak = Writer(broker, OWNER), Writer(broker, WEAK)
    (read,) = answered(await victim.read(b"victim/secret", 1)).results
    assert read.entry is not None
    assert read.entry.value == b"hidden"
    (found,) = answered(await weak.read(b"weak/1", 1)).results
    assert found.entry is None
    assert b"hidden" not in (await weak.put(b"weak/1", 1)).body
    # A repeat of its own is answered as before.
    (again,) = answered(await victim.read(b"victim/secret", 1)).results
    assert again.entry == read.entry


async def test_an_account_takes_no_numbers_of_another(broker: TestBroker) -> None:
    victim, weak, chief = (Writer(broker, one) for one in (OWNER, WEAK, CHIEF))
    first = result(await victim.put(b"victim/1", 1))
    for other in (weak, chief):
        taken = result(await other.put(b"shared", 2))
        assert taken.position != first.position
        second = result(await victim.put(b"victim/2", 2))
        assert second.position != taken.position
    assert await victim.value(b"victim/2") == b"of victim/2"
    assert result(await victim.put(b"victim/2", 2)) == second


async def test_an_account_has_nothing_of_another_forgotten(broker: TestBroker) -> None:
    victim, weak, chief = (Writer(broker, one) for one in (OWNER, WEAK, CHIEF))
    first = result(await victim.put(b"victim/1", 1))
    for other in (weak, chief):
        for number in (1000, SEQUENCE_MAX):
            result(await other.put(b"shared", number, number))
    assert result(await victim.put(b"victim/1", 1)) == first
    for number in range(2, 5):
        result(await victim.put(b"victim/%d" % number, number, number))
        assert await victim.value(b"victim/%d" % number) == b"of victim/%d" % number
    # Its own numbers it may give up.
    assert (await victim.put(b"victim/1", 1)).code == FORGOTTEN


@pytest.mark.parametrize("client", ["till", "t" * 64, "a-b_c"])
async def test_the_log_tells_writers_apart_and_not_who_they_are(
    broker: TestBroker, client: str
) -> None:
    victim, weak = Writer(broker, OWNER), Writer(broker, WEAK)
    result(await victim.put(b"victim/1", 1, client=client))
    result(await weak.put(b"weak/1", 1, client=client))
    result(await victim.put(b"victim/2", 2, client=client))
    records = await broker.connect(account=CHIEF).all_messages("%KV%shop")
    named = [record.properties for record in records]
    logged = [one["kv_client"] for one in named if "kv_client" in one]
    writers = [text.partition(":")[0] for text in logged]
    assert [text.partition(":")[2] for text in logged] == ["1:1", "1:1", "2:1"]
    assert writers[0] == writers[2] != writers[1]
    for writer in writers:
        assert writer.partition("/")[0] == client
        assert OWNER[0] not in writer
        assert WEAK[0] not in writer
        # What is read there is no id that anybody may use.
        answer = await weak.put(b"weak/2", 9, client=writer)
        assert answer.code == INVALID, answer


async def test_a_number_is_no_second_operations(broker: TestBroker) -> None:
    victim = Writer(broker, OWNER)
    put = result(await victim.put(b"victim/1", 1))
    answered(await victim.read(b"victim/1", 2))
    for again in (await victim.read(b"victim/1", 1), await victim.put(b"victim/2", 2)):
        assert again.code == INVALID
        assert "number" in (again.remark or "")
    assert await victim.value(b"victim/2") is None
    assert result(await victim.put(b"victim/1", 1)) == put


@pytest.mark.parametrize("number", [0, -1, -(2**63), SEQUENCE_MAX + 1, 2**62, 2**63 - 1])
@pytest.mark.parametrize("name", ["sequence", "waits"])
async def test_numbers_that_the_log_has_no_room_for_are_refused(
    broker: TestBroker, name: str, number: int
) -> None:
    victim = Writer(broker, OWNER)
    body = encode_steps([Step(b"victim/1", Action.PUT, b"")])
    before = (await victim.keys.status()).position
    named = {"sequence": 1, "waits": 1, name: number}
    answer = await victim.keys.ask(Code.KV_WRITE, body, opType="put", client="till", **named)
    assert answer.code == INVALID, answer
    assert str(SEQUENCE_MAX) in (answer.remark or "")
    assert (await victim.keys.status()).position == before
    # The greatest one is taken, and its repeat is known.
    last = result(await victim.put(b"victim/1", SEQUENCE_MAX, SEQUENCE_MAX))
    assert result(await victim.put(b"victim/1", SEQUENCE_MAX, SEQUENCE_MAX)) == last


@pytest.mark.parametrize(
    ("partition", "partitions"),
    [(-1, 1), (1, 1), (0, 0), (-1, 0), (0, PARTITIONS_MAX + 1), (2**40, 1)],
)
async def test_a_partition_that_no_namespace_can_have_is_refused_everywhere(
    tmp_path: Path, partition: int, partitions: int
) -> None:
    """Not as one that opens later, for which clients would ask again."""
    key, put = encode_key(b"a"), encode_steps([Step(b"a", Action.PUT, b"")])
    async with open_test_broker(tmp_path) as broker:
        keys = Keys(broker.connect(), "shop")
        result(await keys.put(b"a", b"1"))
        for code, body, fields in (
            (Code.KV_WRITE, put, {"opType": "put"}),
            (Code.KV_WRITE, put, {"opType": "put", "createAt": "*"}),
            (Code.KV_GET, b"", {"key": key}),
            (Code.KV_MULTI_GET, b"\x90", {}),
            (Code.KV_SCAN, b"", {}),
            (Code.KV_SCAN, b"", {"snapshot": "new"}),
            (Code.KV_WATCH, b"", {"position": 0, "waitMillis": 1000}),
            (Code.KV_RANGE, b"", {}),
            (Code.KV_FOLLOW, b"", {"position": 0, "waitMillis": 1000}),
            (Code.KV_LEASES, b"", {}),
            (Code.KV_LEASES, b"", {"lease": 7}),
            (Code.KV_STATUS, b"", {}),
        ):
            named: dict[str, object] = {"partition": partition, "partitions": partitions, **fields}
            answer = await keys.ask(code, body, **named)
            assert answer.code == INVALID, (code, answer)
            assert f"partition {partition} of {partitions}" in (answer.remark or "")


async def test_a_state_is_asked_for_by_a_partition_that_can_be(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        keys = Keys(broker.connect(), "shop")
        result(await keys.put(b"a", b"1"))
        for partition in (-1, PARTITIONS_MAX, 2**40):
            answer = await keys.ask(Code.KV_STATE, partition=partition, position=1)
            assert answer.code == INVALID, answer


async def test_a_write_of_before_there_were_accounts_is_not_done_twice(tmp_path: Path) -> None:
    """Nor is its result told: whose it was is not known."""
    async with open_test_broker(tmp_path / "store") as before:
        nobody = Writer(before, None)
        assert (await Keys(before.connect(), "shop").put(b"victim/1", b"")).code == SUCCESS
        first = result(await nobody.put(b"victim/1", 1))
        result(await nobody.put(b"victim/2", 2))
        assert result(await nobody.put(b"victim/1", 1)) == first
    async with open_guarded_broker(tmp_path, "4.x", accounts=ACCOUNTS) as broker:
        victim, weak = Writer(broker, OWNER), Writer(broker, WEAK)
        for one, key in ((victim, b"victim/9"), (weak, b"weak/9")):
            for number in (1, 2):
                assert (await one.put(key, number)).code == FORGOTTEN
            third = result(await one.put(key, 3))
            assert result(await one.put(key, 3)) == third
            assert (await one.put(key, 2)).code == FORGOTTEN
        assert await victim.value(b"victim/9") == b"of victim/9"
    async with open_test_broker(tmp_path / "store") as after:
        nobody = Writer(after, None)
        assert result(await nobody.put(b"victim/1", 1)) == first


@pytest.mark.parametrize("where", ["all", "account"])
async def test_a_name_that_nobody_has_proved_owns_nothing(tmp_path: Path, where: str) -> None:
    """From an address that need not sign, the name of an account is anybody's."""
    listed = (
        f"globalWhiteRemoteAddresses: ['127.0.0.1']{ACCOUNTS}"
        if where == "all"
        else (ACCOUNTS.replace("admin: true", "admin: true, whiteRemoteAddress: 127.0.0.1"))
    )
    async with open_guarded_broker(tmp_path, "4.x", accounts=listed) as broker:
        chief = Writer(broker, CHIEF)
        assert (await Keys(broker.connect(account=CHIEF), "shop").put(b"a", b"")).code == SUCCESS
        signed = Writer(broker, (CHIEF[0], "no secret of it"))
        forged = Writer(broker, None, named=CHIEF[0])
        first = result(await chief.put(b"victim/1", 1))
        answer = await signed.put(b"victim/1", 1)
        if where == "all":
            assert result(answer) == first
        else:
            assert "Check signature failed" in (answer.remark or "")
        # Where a signature is checked, the owner has proved the name: this is another's write.
        assert (result(await forged.put(b"victim/1", 1)) == first) is (where == "all")
        assert result(await chief.put(b"victim/1", 1)) == first
