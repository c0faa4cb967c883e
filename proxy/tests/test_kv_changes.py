"""Changes of a name server's key-value configuration: one write is for all that wait."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.local import replace_file
from lanemq.proxy.nameserver import NameServerConfig, _kv
from lanemq.proxy.nameserver._handlers import NameServerHandlers
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.nameserver.routes._table import RouteTable
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.testkit.proxy.peers import Connect, Peer
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import RegisterBroker, UnregisterBroker
from lanemq.wire.kv import CLAIMS_NAMESPACE, Claim, claim_key, encode_claim
from lanemq.wire.requests import Port

SUCCESS, BUSY, FAILED = (
    ResponseCode.SUCCESS,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SYSTEM_ERROR,
)


class Writes:
    """The writes of the file; those that are held wait in their thread."""

    def __init__(self) -> None:
        self.number = 0
        self.fails = False
        self._may_go_on = threading.Event()
        self._may_go_on.set()

    def replace(self, path: Path, data: bytes) -> None:
        self.number += 1
        self._may_go_on.wait()
        if self.fails:
            raise OSError(28, "No space left on device")
        replace_file(path, data)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._may_go_on.clear()
        try:
            yield
        finally:
            self._may_go_on.set()


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    writes = Writes()
    monkeypatch.setattr(_kv, "replace_file", writes.replace)
    return writes


@pytest.fixture
def kv(tmp_path: Path, writes: Writes) -> KVConfig:
    return KVConfig(tmp_path / "kvConfig.json")


@pytest.fixture
async def server(kv: KVConfig) -> Server:
    handlers = Handlers(Port.NAME_SERVER)
    config = NameServerConfig()
    NameServerHandlers(config, RouteTable(), kv, now_s=trio.current_time).add_to(handlers)
    return Server(handlers, name="name server")


def put(key: str, value: str = "v", *, namespace: str = "N") -> Frame:
    entry = {"namespace": namespace, "key": key, "value": value}
    return request(RequestCode.PUT_KV_CONFIG, entry)


async def codes(peer: Peer, number: int) -> Counter[int]:
    return Counter([(await peer.receive()).code for _ in range(number)])


async def test_a_change_waits_for_two_writes_however_many_another_address_sends(
    connect: Connect, server: Server, kv: KVConfig, writes: Writes
) -> None:
    greedy, other = connect(server, host="10.0.0.1"), connect(server, host="10.0.0.2")
    with writes.held():
        await greedy.send(put("first"))
        await wait_all_tasks_blocked()
        await greedy.send(*(put(f"k{number}") for number in range(250)))
        await wait_all_tasks_blocked()
        await other.send(put("mine"))
        await wait_all_tasks_blocked()
    assert (await other.receive()).code == SUCCESS
    assert await codes(greedy, 251) == {SUCCESS: 205, BUSY: 46}  # a fifth of 1,024 places wait
    assert writes.number == 2
    assert len(kv.namespace("N") or ()) == 206
    assert (await greedy.call(put("later"))).code == SUCCESS, "places are given back"


async def test_changes_that_are_written_together_fail_each_by_itself_or_all(
    connect: Connect, server: Server, kv: KVConfig, writes: Writes, tmp_path: Path
) -> None:
    peer = connect(server)
    with writes.held():
        await peer.send(put("first"))
        await wait_all_tasks_blocked()
        wrong = put("$ref", "$"), put("k" * 1025), put("k", "v" * 65_537)
        await peer.send(*wrong, put("good"))
        await wait_all_tasks_blocked()
    assert await codes(peer, 5) == {SUCCESS: 2, FAILED: 3}
    assert writes.number == 2
    writes.fails = True
    with writes.held():
        await peer.send(put("third"))
        await wait_all_tasks_blocked()
        await peer.send(put("a" * 9, "v" * 60_000), put("good", "changed"))
        await wait_all_tasks_blocked()
    assert await codes(peer, 3) == {FAILED: 3}
    assert kv.namespace("N") == {"first": "v", "good": "v"}
    assert KVConfig(tmp_path / "kvConfig.json").namespace("N") == kv.namespace("N")
    writes.fails = False
    for number in range(25):  # what was not written is no part of the share
        assert (await peer.call(put(f"b{number}", "v" * 60_000))).code == SUCCESS


async def test_a_change_whose_sender_has_left_is_not_made(
    connect: Connect, server: Server, kv: KVConfig, writes: Writes
) -> None:
    leaving, other = connect(server), connect(server)
    with writes.held():
        await other.send(put("first"))
        await wait_all_tasks_blocked()
        await leaving.send(put("left"))
        await wait_all_tasks_blocked()
        await leaving.stream.aclose()
        await wait_all_tasks_blocked()
    assert (await other.receive()).code == SUCCESS
    assert (await other.call(put("last"))).code == SUCCESS
    assert kv.namespace("N") == {"first": "v", "last": "v"}


async def test_the_claims_of_a_forgotten_broker_are_removed_in_one_write(
    connect: Connect, server: Server, kv: KVConfig, writes: Writes
) -> None:
    peer = connect(server)
    broker = RegisterBroker(
        broker_name="a",
        broker_addr="127.0.0.1:1",
        cluster_name="c",
        ha_server_addr="",
        broker_id=0,
    )
    assert (
        await peer.call(request(RequestCode.REGISTER_BROKER, broker.to_fields()))
    ).code == SUCCESS
    draft = kv.draft()
    for number in range(30):
        for name in ("a", "b"):
            draft.put(CLAIMS_NAMESPACE, claim_key(f"n{number}", name), encode_claim(Claim()))
    kv.write(draft)
    before = writes.number
    fields = UnregisterBroker(
        broker_name="a",
        broker_addr="127.0.0.1:1",
        cluster_name="c",
        broker_id=0,
        forget_logical_queues=True,
    ).to_fields()
    assert (await peer.call(request(RequestCode.UNREGISTER_BROKER, fields))).code == SUCCESS
    assert writes.number == before + 1
    assert set(kv.namespace(CLAIMS_NAMESPACE) or ()) == {
        claim_key(f"n{number}", "b") for number in range(30)
    }
