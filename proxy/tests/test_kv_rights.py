"""Rights to keys by their beginnings: of both kinds of accounts, at every request for keys."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

from lanemq.testkit.proxy.accounts import CHIEF, KINDS, open_guarded_broker
from lanemq.testkit.proxy.brokers import Client, TestBroker
from lanemq.testkit.proxy.keys import Keys
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from lanemq.wire.frame import Frame
from lanemq.wire.kv import (
    Action,
    Compare,
    NamespaceStatus,
    Operation,
    OpType,
    Page,
    Step,
    Txn,
    WriteAnswer,
    decode_answer,
    encode_drop,
    encode_key,
    encode_load,
    encode_steps,
    encode_txn,
)
from lanemq.wire.requests import REQUESTS
from lanemq.wire.requests import Keys as KeysNamed

SUCCESS, INVALID = ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER
RULES: Mapping[str, Mapping[str, str]] = {
    "worker01": {"%KV%shop/jobs/*": "PUB|SUB", "%KV%shop/jobs/secret*": "DENY"},
    "reader01": {"%KV%shop": "SUB", "%KV%shop/hidden*": "DENY", "%KV%shop/hidden/one": "SUB"},
    "writer01": {"%KV%shop/jobs/*": "PUB"},
    "single01": {r"%KV%shop/a\x20b\x2a\\\xff": "PUB|SUB"},
    "whole001": {"%KV%shop": "PUB|SUB"},
    "other001": {"%KV%shop2": "PUB|SUB", "%KV%sho": "PUB|SUB"},
}
PUT, GET = Code.KV_WRITE, Code.KV_GET


def accounts() -> str:
    lines = ["accounts:", "  - {accessKey: chief12, secretKey: secret-of-chief, admin: true}"]
    for name, rules in RULES.items():
        lines += [f"  - accessKey: {name}", "    secretKey: secret-of-it", "    topicPerms:"]
        lines += [f"      - '{resource}={held}'" for resource, held in rules.items()]
    return "\n".join(lines) + "\n"


async def make_users(chief: Client) -> None:
    actions = {"PUB": ("Pub",), "SUB": ("Sub",), "PUB|SUB": ("Pub", "Sub"), "DENY": ("All",)}
    for name, rules in RULES.items():
        body = UserInfo(None, "secret-of-it", None).encode()
        answer = await chief.call(Code.AUTH_CREATE_USER, {"username": name}, body)
        assert answer.code == SUCCESS, answer.remark
        entries = tuple(
            PolicyEntryInfo(
                f"Topic:{resource}", actions[held], None, "Deny" if held == "DENY" else "Allow"
            )
            for resource, held in rules.items()
        )
        body = AclInfo(f"User:{name}", (PolicyInfo("Custom", entries),)).encode()
        answer = await chief.call(Code.AUTH_CREATE_ACL, {"subject": f"User:{name}"}, body)
        assert answer.code == SUCCESS, answer.remark


class Sender:
    """Asks as one account, and says whether it may."""

    def __init__(self, broker: TestBroker, name: str) -> None:
        self.client = broker.connect(account=(name, "secret-of-it"))

    async def may(self, code: int, body: bytes = b"", **fields: object) -> bool:
        named = {"namespace": "shop", **{name: str(value) for name, value in fields.items()}}
        answer = await self.client.call(code, named, body)
        is_refused = answer.code in (1, 16) and "permission" in (answer.remark or "")
        assert is_refused or answer.code not in (1, 16), answer
        return not is_refused

    async def may_write(self, *steps: Step, op_type: str | None = None) -> bool:
        op_type = op_type or (OpType.PUT if len(steps) == 1 else OpType.BATCH)
        return await self.may(PUT, encode_steps(steps), opType=op_type)

    async def may_get(self, key: bytes) -> bool:
        return await self.may(GET, key=encode_key(key))

    async def may_list(self, *keys: bytes) -> bool:
        return await self.may(Code.KV_MULTI_GET, msgspec.msgpack.encode(keys))

    async def may_scan(self, prefix: bytes) -> bool:
        return await self.may(Code.KV_SCAN, prefix=encode_key(prefix))

    async def may_watch(self, prefix: bytes) -> bool:
        return await self.may(Code.KV_WATCH, prefix=encode_key(prefix), position=0)


@pytest.fixture(params=KINDS)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestBroker]:
    async with open_guarded_broker(tmp_path, request.param, accounts=accounts()) as broker:
        chief = broker.connect(account=CHIEF)
        if request.param == "5.x":
            await make_users(chief)
        keys = Keys(chief, "shop")
        for key in (b"jobs/1", b"jobs/secret/1", b"hidden/one", b"hidden/two", b"z"):
            assert (await keys.put(key, b"value")).code == SUCCESS
        yield broker


def put(key: bytes, **conditions: int | bytes) -> Step:
    return Step(key, Action.PUT, b"v", **conditions)  # type: ignore[arg-type]


async def test_a_beginning_of_keys_is_all_that_its_owner_may_use(broker: TestBroker) -> None:
    worker = Sender(broker, "worker01")
    assert await worker.may_get(b"jobs/1")
    assert await worker.may_get(b"jobs/not there")
    assert await worker.may_write(put(b"jobs/2", if_version=0))
    assert await worker.may_list(b"jobs/1", b"jobs/2")
    assert await worker.may_scan(b"jobs/1")
    assert await worker.may_watch(b"jobs/t")
    assert await worker.may(Code.KV_STATUS)
    for key in (b"jobs", b"z", b"jobs/secret", b"jobs/secret/1", b"hidden/one"):
        assert not await worker.may_get(key)
        assert not await worker.may_write(put(key))
        assert not await worker.may_write(put(b"jobs/1"), put(key))
        assert not await worker.may_write(
            put(b"jobs/1"), Step(key, Action.CHECK, if_version=1), op_type=OpType.BATCH
        )
        assert not await worker.may_write(Step(key, Action.DELETE), op_type=OpType.DELETE)
        assert not await worker.may_list(b"jobs/1", key)
    for prefix in (b"", b"j", b"jobs", b"jobs/", b"jobs/s", b"jobs/secret", b"z"):
        assert not await worker.may_scan(prefix), prefix
        assert not await worker.may_watch(prefix), prefix


async def test_what_concerns_all_keys_needs_the_right_to_all(broker: TestBroker) -> None:
    whole, load = Sender(broker, "whole001"), encode_load([])
    for name in ("worker01", "reader01", "writer01", "single01"):
        some = Sender(broker, name)
        for op_type, body in (
            (OpType.CLEAR, b""),
            (OpType.DROP, encode_drop("someone")),
            (OpType.IMPORT, b""),
            (OpType.LOAD, load),
            (OpType.IMPORTED, b""),
            (OpType.CREATE, b""),
            ("nothing", b""),
        ):
            assert not await some.may(PUT, body, opType=op_type), op_type
        new = encode_steps([put(b"jobs/1")])
        assert not await some.may(PUT, new, opType=OpType.PUT, createAt="*")
        # The log of the namespace has all keys, whatever request reads it.
        assert not await some.may(
            Code.PULL_MESSAGE,
            topic="%KV%shop",
            consumerGroup="g",
            queueId=0,
            queueOffset=0,
            maxMsgNums=32,
            sysFlag=4,
            commitOffset=0,
            suspendTimeoutMillis=0,
            subscription="*",
            subVersion=0,
        )
        assert not await some.may(Code.QUERY_MESSAGE, topic="%KV%shop", key="k", maxNum=1)
    assert await whole.may_scan(b"")
    assert await whole.may(PUT, load, opType=OpType.LOAD)


async def test_rows_of_a_partition_that_moves_are_for_brokers(broker: TestBroker) -> None:
    """They have the results of all accounts' writes, whatever their keys."""
    asked = {"namespace": "shop", "partition": "0", "position": "9"}
    for name in RULES:
        assert not await Sender(broker, name).may(Code.KV_STATE, partition=0, position=9), name
    answer = await broker.connect(account=CHIEF).call(Code.KV_STATE, asked)
    assert answer.code == ResponseCode.SYSTEM_BUSY, "it is open here"


async def test_the_hash_of_all_keys_is_for_those_who_may_read_them(broker: TestBroker) -> None:
    """It would tell others whether they have guessed a value right."""
    for name, is_shown in {"worker01": False, "writer01": False, "whole001": True}.items():
        client = Sender(broker, name).client
        answer = await client.call(Code.KV_STATUS, {"namespace": "shop"})
        (status,) = decode_answer(answer.body, list[NamespaceStatus])
        assert bool(status.state_hash) is is_shown, name
        assert status.entries == 5


async def test_a_right_to_all_but_some_keys(broker: TestBroker) -> None:
    reader = Sender(broker, "reader01")
    for key in (b"z", b"jobs/secret/1", b"hidde", b"hidden/one"):
        assert await reader.may_get(key)
        assert not await reader.may_write(put(key))
    assert not await reader.may_get(b"hidden/two")
    assert await reader.may_scan(b"jobs/")
    for prefix in (b"", b"h", b"hidden", b"hidden/t"):
        assert not await reader.may_scan(prefix)


async def test_a_condition_reads(broker: TestBroker) -> None:
    """Else a guess after the other finds out what a key has, or the answer says it at once."""
    writer = Sender(broker, "writer01")
    assert await writer.may_write(put(b"jobs/1"))
    assert await writer.may_write(Step(b"jobs/1", Action.DELETE), op_type=OpType.DELETE)
    assert not await writer.may_write(put(b"jobs/1", if_version=1), op_type=OpType.CAS)
    assert not await writer.may_write(put(b"jobs/1", if_value=b"1"), op_type=OpType.CAS)
    assert not await writer.may_write(
        Step(b"jobs/1", Action.CHECK, if_version=0), op_type=OpType.BATCH
    )
    assert not await writer.may_get(b"jobs/1")


async def test_who_may_only_write_a_key_learns_its_version_and_no_value(broker: TestBroker) -> None:
    """docs/kv.md says so."""
    writer = broker.connect(account=("writer01", "secret-of-it"))
    for step, version in (
        (put(b"jobs/1"), 2),
        (Step(b"jobs/1", Action.DELETE), 2),
        (Step(b"jobs/1", Action.DELETE), 0),
    ):
        op_type = OpType.PUT if step.action is Action.PUT else OpType.DELETE
        fields = {"namespace": "shop", "opType": op_type}
        frame = await writer.call(PUT, fields, encode_steps([step]))
        answer = decode_answer(frame.body, WriteAnswer)
        assert [one.version for one in answer.results] == [version]
        assert answer.value is None


async def test_a_transaction_needs_the_rights_of_whatever_it_may_do(broker: TestBroker) -> None:
    """Of both lists, whichever is done: which one it is tells something, too."""
    worker, writer = Sender(broker, "worker01"), Sender(broker, "writer01")
    own, other = b"jobs/1", b"hidden/one"

    async def may(
        sender: Sender, compares: list[Compare], then: list[Operation], otherwise: list[Operation]
    ) -> bool:
        body = encode_txn(Txn(compares, then, otherwise))
        return await sender.may(PUT, body, opType=OpType.TXN)

    put_own, get_own = Operation.put(own, b"v"), Operation.get(own)
    assert await may(worker, [Compare.exists(own)], [put_own], [get_own])
    assert await may(writer, [], [put_own], [Operation.delete(own)])
    assert not await may(writer, [Compare.exists(own)], [put_own], [])
    assert not await may(writer, [], [put_own], [get_own])
    for foreign in (Operation.get(other), Operation.put(other, b""), Operation.delete(other)):
        assert not await may(worker, [], [put_own, foreign], [])
        assert not await may(worker, [], [put_own], [foreign])
    for compare in (Compare.missing(other), Compare.value(other, "<", b"x")):
        assert not await may(worker, [compare], [put_own], [])


async def test_who_may_write_no_key_adds_nothing_to_the_log(broker: TestBroker) -> None:
    """Conditions and reads are records as well: the change feed has them, and they count for the
    history that is kept."""
    reader, single = Sender(broker, "reader01"), Sender(broker, "single01")
    own = b"a b*\\\xff"
    checks = encode_steps([Step(b"z", Action.CHECK, if_version=1)])
    log = broker.context.store.statistics
    before = log().max_position
    assert await reader.may_get(b"z")
    for op_type in (OpType.BATCH, OpType.PUT, OpType.DELETE, OpType.CAS):
        assert not await reader.may(PUT, checks, opType=op_type), op_type
        assert not await reader.may(PUT, checks, opType=op_type, client="c", sequence=1, waits=1)
    for txn in (
        Txn([Compare.exists(b"z")], [], []),
        Txn([], [Operation.get(b"z")], []),
        Txn([Compare.exists(b"z")], [], [Operation.get(b"z")]),
    ):
        assert not await reader.may(PUT, encode_txn(txn), opType=OpType.TXN), txn
    assert log().max_position == before
    reads = Txn([Compare.exists(own)], [Operation.get(own)], [])
    assert await single.may(PUT, encode_txn(reads), opType=OpType.TXN)
    assert await single.may_write(Step(own, Action.CHECK, if_version=0), op_type=OpType.BATCH)
    assert log().max_position > before


async def test_one_key_of_any_bytes(broker: TestBroker) -> None:
    single = Sender(broker, "single01")
    assert await single.may_write(put(b"a b*\\\xff"))
    assert await single.may_get(b"a b*\\\xff")
    for key in (b"a b*\\\xff1", b"a b*\\", b"a b"):
        assert not await single.may_get(key)
        assert not await single.may_scan(key)


async def test_a_namespace_whose_name_begins_alike_is_another(broker: TestBroker) -> None:
    other = Sender(broker, "other001")
    assert not await other.may_get(b"jobs/1")
    assert not await other.may(Code.KV_STATUS)
    assert not await other.may(Code.KV_STATUS, namespace="")


async def test_no_request_takes_a_key_for_the_name_of_a_namespace(broker: TestBroker) -> None:
    worker = Sender(broker, "worker01")
    for namespace in ("shop/jobs/1", "shop/jobs/*", "shop (any key)", "shop/jobs/1 to 2"):
        for code, fields in (
            (GET, {"key": encode_key(b"z")}),
            (Code.KV_SCAN, {"prefix": ""}),
            (PUT, {"opType": "clear"}),
            (Code.KV_STATUS, {}),
        ):
            answer = await worker.client.call(code, {"namespace": namespace, **fields})
            assert answer.code == INVALID, (namespace, code)
            assert "not the name of a namespace" in (answer.remark or "")


async def test_a_request_that_cannot_be_read_is_refused_as_without_accounts(
    broker: TestBroker,
) -> None:
    client = broker.connect(account=("worker01", "secret-of-it"))

    async def asked(code: int, body: bytes = b"", **fields: str) -> Frame:
        return await client.call(code, {"namespace": "shop", **fields}, body)

    for answer in (
        await asked(GET, key="no base64!"),
        await asked(Code.KV_SCAN, prefix="no base64!"),
        await asked(Code.KV_MULTI_GET, b"\xc1"),
        await asked(PUT, b"\xc1", opType=OpType.PUT),
    ):
        assert answer.code == INVALID, answer


@pytest.mark.parametrize("resource", [r"%KV%shop/a\q", "%KV%shop/", "%KV%shop/a*b", "%KV%sh op/a"])
@pytest.mark.parametrize("kind", KINDS)
async def test_rules_that_name_no_keys_are_refused(
    tmp_path: Path, kind: str, resource: str
) -> None:
    async with open_guarded_broker(tmp_path, kind) as broker:
        chief = broker.connect(account=CHIEF)
        if kind == "4.x":
            fields = {"accessKey": "new12345", "secretKey": "secret-of-it"}
            answer = await chief.call(
                Code.UPDATE_AND_CREATE_ACL_CONFIG, {**fields, "topicPerms": f"{resource}=SUB"}
            )
        else:
            entry = PolicyEntryInfo(f"Topic:{resource}", ("Sub",), None, "Allow")
            body = AclInfo("User:weak1234", (PolicyInfo("Custom", (entry,)),)).encode()
            answer = await chief.call(Code.AUTH_CREATE_ACL, {"subject": "User:weak1234"}, body)
        assert answer.code != SUCCESS
        words = ("names no key", "backslash", "asterisk", "name of a namespace")
        assert any(word in (answer.remark or "") for word in words), answer


def test_every_request_for_keys_says_which_it_touches() -> None:
    of_keys = {code: spec for code, spec in REQUESTS.items() if spec.code.name.startswith("KV_")}
    assert len(of_keys) >= 7
    del of_keys[Code.KV_STATE]  # brokers' own
    for spec in of_keys.values():
        assert all(isinstance(touch.source, KeysNamed) for touch in spec.touches), spec.code.name


async def test_a_snapshot_is_the_connections_that_made_it(broker: TestBroker) -> None:
    """Neither another account nor another connection of the same one reads or ends it."""
    keys = Keys(broker.connect(account=CHIEF), "shop")
    begun = decode_answer((await keys.ask(Code.KV_SCAN, limit=1, snapshot="new")).body, Page)
    assert begun.snapshot is not None
    assert begun.cursor is not None
    for account in (CHIEF, ("whole001", "secret-of-it")):
        other = Keys(broker.connect(account=account), "shop")
        answer = await other.ask(Code.KV_SCAN, snapshot=begun.snapshot)
        unknown = await other.ask(Code.KV_SCAN, snapshot="no such one")
        assert answer.code == unknown.code == ResponseCode.KV_COMPACTED
    cursor = encode_key(begun.cursor)
    rest = await keys.ask(Code.KV_SCAN, snapshot=begun.snapshot, cursor=cursor)
    assert len(decode_answer(rest.body, Page).entries) == 4
