"""The verdict that a drained broker can be switched off: who needs it, and what is behind ends."""

from collections import UserDict
from collections.abc import ItemsView, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import trio

from lanemq.proxy.gateway.moves import LeftBehind, MoveContext, _handover, _rest
from lanemq.proxy.gateway.moves._progress import TURN, indexed
from lanemq.proxy.gateway.order import MovedQueue, Part
from lanemq.sdk import Message, RefusedByBroker, open_producer
from lanemq.sdk.admin import open_admin
from lanemq.testkit.proxy.drains import command, send, sending, sides
from lanemq.testkit.proxy.gateways import until
from lanemq.testkit.proxy.moves import A, Stand, standing
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S
from lanemq.wire import Permission, RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue, TopicConfig
from lanemq.wire.frame import Frame

Code = RequestCode
SWITCHED_OFF: Final = "can be switched off now"


@pytest.fixture(autouse=True)
def answers_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_handover, "LATE_S", 0.1)
    monkeypatch.setattr(_rest, "DIRECT_S", 0.2)
    monkeypatch.setattr(_rest, "SENT_S", 0.2)


def first_index(broker: str) -> int:
    return 0 if broker == A else 2


async def commit(at: Stand, broker: str, queue_id: int, offset: int) -> None:
    client = await at.client(broker)
    fields = {"topic": "T", "queueId": str(queue_id), "consumerGroup": "g"}
    answer = await client.call(Code.UPDATE_CONSUMER_OFFSET, {**fields, "commitOffset": str(offset)})
    assert answer.code == 0


async def known(at: Stand, *brokers: str) -> None:
    """Make a topic at brokers, and wait until it has an order."""
    orders = at.proxy.orders
    assert orders is not None
    async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as direct:
        for name in brokers:
            await direct.put_topic(str(at.brokers[name].address), TopicConfig("D"))
    async with open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin:
        while (order := orders.of("D")) is None or {*order.ends()} != {*brokers}:
            try:
                await admin.route("D")
            except RefusedByBroker:
                await trio.sleep(0.05)


async def delete(at: Stand, *brokers: str) -> None:
    async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as direct:
        for name in brokers:
            await direct.delete_topic(str(at.brokers[name].address), "D")


async def test_a_group_still_at_an_earlier_part_has_a_middle_part_to_read(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at, sending(at) as producer:
        kept, gone = await sides(at)
        await send(producer, range(16))
        await commit(at, kept, 0, 1)
        await at.move(first_index(kept), gone)
        await send(producer, range(16, 32))
        for queue_id in (0, 1):
            await commit(at, gone, queue_id, 8)
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        assert "still there: 4 messages that a group has not read, most of them g of T" in shown
        assert SWITCHED_OFF not in shown


async def test_what_is_behind_an_end_and_not_sent_on_keeps_the_broker_in_use(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = LeftBehind._is_chosen

    async def never(self: LeftBehind) -> bool:
        return False

    monkeypatch.setattr(LeftBehind, "_is_chosen", never)
    async with standing(tmp_path, dial) as at, sending(at) as producer:
        kept, gone = await sides(at)
        await send(producer, range(8))
        await at.move(first_index(gone), kept)
        async with open_producer(
            "d", name_servers=at.cluster.name_server, options=PATIENT_PRODUCER
        ) as direct:
            queue = MessageQueue("T", gone, 0)
            await direct.send(Message(topic="T", body=b"late"), queue=queue)
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        assert "still there: 1 messages behind ends are not sent on yet" in shown
        assert SWITCHED_OFF not in shown
        monkeypatch.setattr(LeftBehind, "_is_chosen", chosen)
        monkeypatch.setattr(_rest, "SENT_S", 30.0)
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        assert SWITCHED_OFF in shown


async def test_a_group_that_is_known_again_only_after_a_look_has_its_messages_to_read(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker was restarted before that."""
    async with standing(tmp_path, dial) as at, sending(at) as producer:
        kept, gone = await sides(at)
        await send(producer, range(16))
        for index in (0, 1):
            await at.move(first_index(gone) + index, kept)
        looks = list[str]()

        async def has_heard(_: object, broker: str, __: object) -> bool:
            looks.append(broker)
            if len(looks) == 1:
                await commit(at, gone, 0, 1)
            return len(looks) > 1

        monkeypatch.setattr(_rest, "has_heard", has_heard)
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        assert looks[:2] == [gone, gone]
        assert "messages that a group has not read" in shown
        assert SWITCHED_OFF not in shown


async def test_no_verdict_before_direct_producers_have_asked_for_their_routes(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rest, "DIRECT_S", 3600.0)
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        kept, gone = await sides(at)
        for index in (0, 1):
            await at.move(first_index(gone) + index, kept)
        found = await admin.drain_at_proxy(at.address, gone)
        while "go direct" not in found.what:
            assert found.state == "draining"
            found = await admin.drain_at_proxy(at.address, gone)
        assert found.state == "draining"


async def test_topics_that_the_broker_has_no_longer_do_not_count(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        _, gone = await sides(at)
        orders = at.proxy.orders
        assert orders is not None
        await known(at, *at.brokers)
        await delete(at, *at.brokers)
        shown = await command("drainBroker", "-n", at.address, "-b", gone)
        order = orders.of("D")
        assert order is not None
        assert gone in order.ends()
        assert f"{gone} {SWITCHED_OFF}" in shown


@pytest.mark.parametrize("is_drained", [True, False])
@pytest.mark.parametrize("is_known_elsewhere", [True, False])
async def test_a_broker_is_forgotten_where_its_topics_are_known_to_be_deleted(
    is_known_elsewhere: bool, is_drained: bool, tmp_path: Path, dial: Dial
) -> None:
    async with (
        standing(tmp_path, dial) as at,
        open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin,
    ):
        kept, gone = await sides(at)
        await known(at, *((kept, gone) if is_known_elsewhere else (gone,)))
        if not is_drained:  # another broker stands in for it, and queues are written at it
            for index in (0, 1):
                await at.move(first_index(gone) + index, kept)
            while (await admin.drain_at_proxy(at.address, gone)).state == "draining":
                pass
        await delete(at, gone)
        if is_drained:
            await command("drainBroker", "-n", at.address, "-b", gone)
        assert at.proxy.moving is not None
        assert at.proxy.moving.stands.known[gone].is_done == is_drained
        at.stops[gone].set()
        await until(lambda: gone not in at.proxy.brokers.masters())
        if is_known_elsewhere:
            with pytest.raises(RefusedByBroker, match="queues are written"):
                await admin.drain_at_proxy(at.address, gone, forget=True)
            await delete(at, kept)
        if is_known_elsewhere or is_drained:
            assert (await admin.drain_at_proxy(at.address, gone, forget=True)).state == "forgotten"
        else:  # it may be there alone yet
            with pytest.raises(RefusedByBroker, match="queues are written"):
                await admin.drain_at_proxy(at.address, gone, forget=True)


async def test_a_table_is_turned_in_short_turns(autojump_clock: object) -> None:
    table = {f"T{n % 100}@g{n}": {0: n, 1: n} for n in range(2 * TURN)}
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        found = await indexed(table, {f"T{n}" for n in range(100)})
        nursery.cancel_scope.cancel()
    assert turns >= 4
    assert found["T7", 1]["g107"] == 107
    assert sum(map(len, found.values())) == 4 * TURN


class Scanned(UserDict[str, dict[int, int]]):
    scans = 0

    def items(self) -> ItemsView[str, dict[int, int]]:
        self.scans += 1
        return super().items()


class Peer:
    """A broker's answers, and what it was asked."""

    def __init__(self, progress: int = -1) -> None:
        self.progress = progress
        self.updates: list[Mapping[str, str]] = []
        self.put: list[TopicConfig] = []
        self.table = Scanned()

    async def call(self, _address: str, frame: Frame, _seconds: float) -> Frame:
        if frame.code == Code.UPDATE_CONSUMER_OFFSET:
            self.updates.append(frame.fields)
            return frame.reply()
        if frame.code == Code.QUERY_CONSUMER_OFFSET:
            if self.progress < 0:
                raise RefusedByBroker(ResponseCode.QUERY_NOT_FOUND, "")
            return Frame(0, fields={"offset": str(self.progress)})
        return Frame(0, fields={"offset": "0"})

    async def offset_table(self, _address: str) -> Scanned:
        return self.table

    async def groups_of_topic(self, _address: str, _topic: str) -> list[str]:
        return []

    async def put_topic(self, _address: str, config: TopicConfig) -> None:
        self.put.append(config)


def rest_of(peer: Peer, targets: list[str] | None = None) -> _rest.Rest:
    order = SimpleNamespace(ends=lambda: ["a"], targets=lambda: targets or [""])
    moving: Any = SimpleNamespace(
        refresh=lambda: None,
        orders=SimpleNamespace(of=lambda _: order),
        stands=SimpleNamespace(of=lambda _: None, is_forgotten=lambda _: False),
    )
    fake: Any = peer
    context = MoveContext(moving, fake, fake, lambda name: f"{name}:1", list, str)
    return _rest.Rest(context, "b", {})


async def test_a_drain_does_not_wait_for_ever_for_a_broker_whose_queues_stay_behind(
    autojump_clock: object,
) -> None:
    """Brokers of 5.x that flush before they answer may be up for moments only."""
    peer, behind = Peer(), ["12"]
    told = {"brokerVersionDesc": "V5_3_3", "commitLogMaxOffset": "100"}

    async def config(_: str) -> Mapping[str, str]:
        return {"flushDiskType": "SYNC_FLUSH"}

    async def runtime(_: str) -> Mapping[str, str]:
        return {**told, "dispatchBehindBytes": behind[0]}

    peer.config, peer.runtime = config, runtime  # type: ignore[attr-defined]
    rest = rest_of(peer)
    begun_s = trio.current_time()
    assert await rest._count_behind("b:1", []) == 0
    assert "the queues of broker b stay behind its log" in rest.why_unknown
    assert trio.current_time() - begun_s <= 31
    behind[0] = "0"
    await rest._count_behind("b:1", [])
    assert not rest.why_unknown


async def test_each_table_is_read_once(autojump_clock: object) -> None:
    peer = Peer(progress=1)
    moved = [MovedQueue((Part("b", n, 2), Part("a", n))) for n in range(20)]
    peer.table.update({f"T@g{n}": dict.fromkeys(range(20), 1) for n in range(5)})
    rest = rest_of(peer)
    await rest._find_unread([_rest.PartThere("T", one, 0) for one in moved])
    assert peer.table.scans == 2  # once for each of the two brokers


@pytest.mark.parametrize(("own", "unread"), [(1, 1), (2, 0)])
async def test_a_group_finds_the_begin_of_the_next_part_once_the_broker_is_gone(
    own: int, unread: int, autojump_clock: object
) -> None:
    peer = Peer()
    peer.table["T@g"] = {0: own}
    rest = rest_of(peer)
    await rest._find_unread([_rest.PartThere("T", MovedQueue((Part("b", 0, 2), Part("a", 7))), 0)])
    assert sum(one.count for one in rest.unread) == unread
    assert [(one["queueId"], one["commitOffset"]) for one in peer.updates] == [("7", "0")]


@pytest.mark.parametrize(("progress", "written"), [(-1, 1), (0, 1), (7, 0)])
async def test_progress_that_came_meanwhile_stays(
    progress: int, written: int, autojump_clock: object
) -> None:
    peer = Peer(progress)
    await rest_of(peer)._note_begin("T", [Part("a", 3)], "g")
    assert len(peer.updates) == written


@pytest.mark.parametrize(("target", "count"), [("b", 0), ("", 1)])
async def test_the_permission_stays_where_a_queue_is_on_its_way(
    target: str, count: int, autojump_clock: object
) -> None:
    peer = Peer()
    configs = {"T": TopicConfig("T", perm=Permission.READ_WRITE)}
    await rest_of(peer, [target])._have_nobody_write("b:1", configs, ["T"])
    assert len(peer.put) == count
