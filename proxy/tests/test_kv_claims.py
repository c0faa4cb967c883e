"""Name servers remember the brokers of a namespace: nobody creates it a second time."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest
import trio
from click.testing import CliRunner

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.broker.cluster._peers import Peers
from lanemq.proxy.broker.kv import _claim_tables as tables_module
from lanemq.proxy.broker.kv import _claims as claims_module
from lanemq.proxy.broker.kv._claim_tables import ClaimTables
from lanemq.proxy.broker.kv._claims import Claims
from lanemq.proxy.broker.kv._partitions import Partitions
from lanemq.proxy.nameserver import NameServer, NameServerConfig, open_nameserver
from lanemq.proxy.process import RunningBroker, open_broker
from lanemq.sdk import LanemqError, NoRoute
from lanemq.sdk.admin import open_admin
from lanemq.sdk.kv import KvRejected, NamespaceSplit, NoNamespace, open_kv_store
from lanemq.sdk.kv.cli import kv
from lanemq.storage import Document, KvEngine, KvStates
from lanemq.testkit.proxy.brokers import SMALL_STORE
from lanemq.testkit.servers import PATIENT_S, free_port
from lanemq.wire import RequestCode
from lanemq.wire.bodies import ClusterInfo, KVTable
from lanemq.wire.frame import Frame
from lanemq.wire.kv import CLAIMS_NAMESPACE, Claim, claim_key, encode_claim, parse_claims, rivals


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "PERIOD_S", 0.05)


@asynccontextmanager
async def name_server(root: Path | None = None, port: int = 0) -> AsyncIterator[NameServer]:
    path = None if root is None else root / "kv.json"
    config = NameServerConfig(bind_address="127.0.0.1", listen_port=port, kv_config_path=path)
    async with open_nameserver(config) as opened:
        yield opened


@asynccontextmanager
async def running(root: Path, name: str, name_servers: str) -> AsyncIterator[RunningBroker]:
    config = BrokerConfig(
        broker_name=name,
        bind_address="127.0.0.1",
        listen_port=0,
        logical_listen_port=-1,
        namesrv_addr=name_servers,
        store_path_root_dir=root / name,
        kv_engine=KvEngine.MEMORY,
        **SMALL_STORE,  # type: ignore[arg-type]
    )
    async with open_broker(config) as broker:
        yield broker


def claims_of(broker: RunningBroker) -> Claims:
    kv = broker.broker._kv
    assert kv is not None
    return kv.claims


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - what is waited for happens at other processes
            await trio.sleep(0.01)


async def knows(broker: RunningBroker, namespace: str, other: str) -> None:
    await until(lambda: (namespace, other) in claims_of(broker).others)


async def create(address: str, broker: str) -> None:
    async with open_kv_store(name_servers=address, timeout_s=60) as store:
        await store.create(brokers=[broker])


async def put_at(address: str, broker: str) -> None:
    async with open_kv_store(name_servers=address, broker=broker, timeout_s=60) as store:
        await store.put(b"k", b"split")


async def create_partitions(address: str, broker: str) -> None:
    async with open_kv_store(name_servers=address, timeout_s=60) as store:
        await store.create(2, [broker])


SPLITS: Final[dict[str, Callable[[str, str], Awaitable[None]]]] = {
    "create": create,
    "first write": put_at,
    "create partitions": create_partitions,
}


@pytest.mark.slow
@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize("lost_memory", [False, True])
async def test_a_namespace_whose_broker_is_away_is_not_created_a_second_time(
    tmp_path: Path, how: str, lost_memory: bool
) -> None:
    """However long the name server has run: one without memory learns it from the other broker."""
    root, port = None if lost_memory else tmp_path, free_port()
    async with name_server(root, port) as server:
        b, a = (running(tmp_path, name, server.address) for name in "ba")
        async with b as left, a:
            async with open_kv_store(name_servers=server.address, broker="a") as store:
                await store.put(b"k", b"1")
            await knows(left, "default", "a")
    async with name_server(root, port) as server, running(tmp_path, "b", server.address) as left:
        await until(lambda: bool(claims_of(left)._tables.connections))
        with pytest.raises(LanemqError, match=r"broker a has it|at broker a|has one partition"):
            await SPLITS[how](server.address, "b")
        kv = left.broker.context.store.kv
        assert kv is not None
        assert not kv.states
        async with open_kv_store(name_servers=server.address, timeout_s=1) as store:
            with pytest.raises(NoRoute, match="broker a is not registered now"):
                await store.checkpoint("c").load()
            (place,) = await store.namespaces()
            assert (place.namespace, place.brokers, place.away) == ("default", (), ("a",))
        found = open_kv_store(name_servers=server.address)
        async with running(tmp_path, "a", server.address), found as store:
            assert await store.put(b"k", b"2") == 2


@pytest.mark.slow
async def test_a_broker_that_was_given_up_leaves_its_namespaces_to_others(tmp_path: Path) -> None:
    async with name_server() as server, running(tmp_path, "b", server.address) as left:
        async with running(tmp_path, "a", server.address):
            await create(server.address, "a")
            await knows(left, "default", "a")
        async with open_admin(name_servers=server.address, timeout_s=PATIENT_S) as admin:
            await admin.forget_broker("a")
        await until(lambda: not claims_of(left).others)
        await put_at(server.address, "b")


@pytest.mark.slow
async def test_one_broker_and_one_name_server_need_no_create(tmp_path: Path) -> None:
    async with name_server() as server:
        jobs = partial(open_kv_store, name_servers=server.address, namespace="jobs")
        async with running(tmp_path, "a", server.address) as first:
            async with open_kv_store(name_servers=server.address) as store:
                assert await store.put(b"k", b"1") == 1
            async with running(tmp_path, "b", server.address):
                pass  # however short it was there: the name server knows it
            async with jobs() as store:
                with pytest.raises(NoNamespace, match="another broker could have it"):
                    await store.put(b"k", b"1")
            async with running(tmp_path, "b", server.address):
                await until(lambda: claims_of(first).has_company)
            async with jobs() as store:
                with pytest.raises(NoNamespace, match="known brokers: a, b"):
                    await store.put(b"k", b"1")
        async with running(tmp_path, "a", server.address), jobs() as store:  # a remembers b
            with pytest.raises(NoNamespace, match="known brokers: a, b"):
                await store.put(b"k", b"1")


@pytest.mark.slow
async def test_two_namespaces_of_one_name_are_shown_and_one_can_be_deleted(
    tmp_path: Path,
) -> None:
    """As earlier versions could leave them: each broker created it while it saw nobody else."""
    for name in ("a", "b"):
        async with name_server() as server, running(tmp_path, name, server.address):
            await put_at(server.address, name)
        (tmp_path / name / "config" / "kvClaims.json").unlink(missing_ok=True)
    async with (
        name_server() as server,
        running(tmp_path, "a", server.address) as first,
        running(tmp_path, "b", server.address) as second,
    ):
        await knows(first, "default", "b")
        await knows(second, "default", "a")
        async with open_kv_store(name_servers=server.address) as store:
            with pytest.raises(NamespaceSplit, match=r"at a and b|at b and a"):
                await store.get(b"k")
            assert len(await store.namespaces()) == 2
        read = partial(CliRunner().invoke, kv, ["get", "-n", server.address, "k"])
        said = (await trio.to_thread.run_sync(read)).stderr
        assert "`lanemq kv export --namespace default --broker " in said
        assert "`lanemq kv delete --namespace default --broker " in said
        for name in ("a", "b"):
            async with open_kv_store(name_servers=server.address, broker=name) as store:
                await store.put(b"k", name.encode())
                assert (await store.status()).broker == name
        async with open_kv_store(name_servers=server.address, broker="b") as store:
            await store.delete_namespace()
        await until(lambda: not rivals(claims_of(first).others, "default"))
        async with open_kv_store(name_servers=server.address) as store:
            entry = await store.get(b"k")
            assert entry is not None
            assert entry.value == b"a"


@pytest.mark.slow
async def test_partitions_at_several_brokers_have_one_identity(tmp_path: Path) -> None:
    async with (
        name_server() as server,
        running(tmp_path, "a", server.address),
        running(tmp_path, "b", server.address),
        open_kv_store(name_servers=server.address) as store,
    ):
        await store.create(4, ["a", "b"])
        for number in range(16):
            await store.put(b"%d" % number, b"")
        identities = {one.identity for one in await store.statuses()}
        assert len(identities) == 1
        assert identities != {""}
        (place,) = await store.namespaces()
        assert (place.partitions, place.brokers) == (4, ("a", "b"))
        with pytest.raises(KvRejected, match="has 4 partitions"):
            await store.create(2, ["a", "b"])


def test_claims_that_are_none_are_left_out() -> None:
    good = encode_claim(Claim(identity="one", partitions=2, here=(1,)))
    table = {
        claim_key("n", "b@c"): good,
        claim_key("a b", "b"): good,
        "n": good,
        "n@": good,
        claim_key("x", "b"): "{",
        claim_key("y", "b"): '{"partitions":0}',
        claim_key("z", "b"): '{"partitions":1,"here":[1]}',
        claim_key("v", "b"): '{"identity":"a b"}',
        claim_key("w", "b"): '{"identity":"' + "x" * 5000 + '"}',
    }
    assert parse_claims(table) == {("n", "b@c"): Claim(identity="one", partitions=2, here=(1,))}
    assert CLAIMS_NAMESPACE == "LANEMQ_KV"


class OneNameServer:
    """The peers of a broker that has one name server, with a table of claims."""

    def __init__(self, table: dict[str, str]) -> None:
        self.table = table
        self.name_servers = ("n",)
        self.codes: list[int] = []

    async def ask_name_server(self, server: str, frame: Frame) -> Frame:
        self.codes.append(frame.code)
        key = frame.fields.get("key", "")
        if frame.code == RequestCode.GET_KVLIST_BY_NAMESPACE:
            return frame.reply(body=KVTable(dict(self.table)).encode())
        if frame.code == RequestCode.DELETE_KV_CONFIG:
            del self.table[key]
        elif frame.code == RequestCode.PUT_KV_CONFIG:
            self.table[key] = frame.fields["value"]
        else:
            return frame.reply(body=ClusterInfo().encode())
        return frame.reply()

    def connection_number(self, server: str) -> int:
        return 1


class Written:
    """A document in memory."""

    path = "kvClaims.json"

    def __init__(self) -> None:
        self.members: dict[str, object] = {}
        self.writes = 0

    def load(self, *, after_crash: bool) -> dict[str, object]:
        return self.members

    def write(self, members: dict[str, object]) -> None:
        self.members = members
        self.writes += 1

    async def sync(self) -> None:
        await trio.lowlevel.checkpoint()


def tables_over(written: Written, peers: OneNameServer, own: dict[str, Claim]) -> ClaimTables:
    return ClaimTables(
        broker_name="me",
        document=cast(Document, written),
        own=lambda: own,
        peers=cast(Peers, peers),
    )


def filled(broker: str, number: int) -> dict[str, str]:
    text = encode_claim(Claim(identity="one", here=(0,)))
    return {claim_key(f"n{n}", broker): text for n in range(number)}


async def test_a_filled_table_of_claims_is_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = Written()
    tables = tables_over(written, OneNameServer(filled("b", 5000)), {})
    threads: list[int] = []

    def noting(table: dict[str, str]) -> object:
        threads.append(threading.get_ident())
        return parse_claims(table)

    monkeypatch.setattr(tables_module, "parse_claims", noting)
    for _ in range(2):
        assert await tables.sync()
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert len(tables.others) == tables_module.OTHERS_MAX
    assert tables.of("n7") == {("n7", "b"): Claim(identity="one", here=(0,))}
    assert tables_over(written, OneNameServer({}), {}).others == tables.others
    assert written.writes == 1


async def test_claims_that_are_not_one_s_own_are_deleted_a_number_at_each_look() -> None:
    peers = OneNameServer(filled("me", 600))
    own = {"mine": Claim(identity="two", here=(0,))}
    tables = tables_over(Written(), peers, own)
    deleted = []
    for _ in range(4):
        await tables.sync()
        deleted.append(peers.codes.count(RequestCode.DELETE_KV_CONFIG))
        assert claim_key("mine", "me") in peers.table
    assert deleted == [256, 512, 600, 600]
    assert len(peers.table) == 1


async def test_own_namespaces_are_compared_with_the_claims_to_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {f"n{n}": Claim(identity="two", here=(0,)) for n in range(300)}
    peers = OneNameServer(filled("b", 2000))
    claims = Claims(
        broker_name="me",
        document=cast(Document, Written()),
        mappings={},
        partitions=cast(Partitions, None),
        peers=cast(Peers, peers),
        states=cast(KvStates, SimpleNamespace(states={})),
    )
    monkeypatch.setattr(Claims, "own", lambda self: own)
    looked = 0

    def counting(of: dict[tuple[str, str], Claim], namespace: str) -> dict[str, list[str]]:
        nonlocal looked
        looked += len(of)
        return rivals(of, namespace)

    monkeypatch.setattr(claims_module, "rivals", counting)
    await claims.sync()
    assert claims._split == own.keys()
    assert looked < 3 * len(own)
    looked = 0
    assert not claims.is_deleted("n1")
    assert claims._found("n5") == "two"
    assert claims._found("n1000") == ""  # the partition 0 is at another broker
    assert looked <= 3
