"""Brokers that come to stand in for drained ones: who is chosen, and when locks go over."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
import trio
from attrs import evolve
from click.testing import CliRunner
from msgspec.structs import replace

from lanemq.proxy.gateway._connecting import Connecting, Unreachable
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.kv import LOGS
from lanemq.proxy.gateway.moves import _handover, _rest
from lanemq.proxy.gateway.moves._held_locks import HeldLocks
from lanemq.proxy.gateway.moves._locks import LocksOf, StoodLocks
from lanemq.proxy.gateway.moves._stands import Stand, change_stand, version_of_stand
from lanemq.proxy.gateway.order import added_name, tag_of
from lanemq.proxy.logical.rules._positions import tagged
from lanemq.sdk import LanemqError, RefusedByBroker, RemotingClient, dial_tcp, open_remoting_client
from lanemq.sdk.admin import open_admin
from lanemq.sdk.admin.cli import admin as admin_command
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.gateways import until
from lanemq.testkit.proxy.moves import A, B, put, reading, standing
from lanemq.testkit.proxy.moves import Stand as Standing
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.servers import PATIENT_S
from lanemq.wire import HostAddress, RequestCode, ResponseCode
from lanemq.wire.bodies import BrokerDrain, LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import Frame, request

Code = RequestCode
C: Final = "broker-c"


@pytest.fixture(autouse=True)
def answers_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_handover, "LATE_S", 0.1)
    monkeypatch.setattr(_handover, "LOCKS_LOOK_S", 0.05)
    monkeypatch.setattr(_rest, "DIRECT_S", 0.2)


@pytest.fixture
def locks_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that wait for their end; those that do not may take longer on a busy machine."""
    monkeypatch.setattr(_handover, "LENT_S", 0.5)


async def sides(at: Standing) -> tuple[str, str]:
    """Return the broker that has the log of orders, and the other one, which can go."""
    async with open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin:
        (kept,) = set((await admin.values(LOGS)).values())
    return kept, B if kept == A else A


async def drained(at: Standing, broker: str) -> BrokerDrain:
    """Have a broker drained, without the moves of its queues."""
    async with open_admin(name_servers=at.address, timeout_s=PATIENT_S) as admin:
        while (found := await admin.drain_at_proxy(at.address, broker)).state == "draining":
            pass
    return found


async def note(at: Standing, broker: str, stand: Stand) -> None:
    """Write who stands in for a broker."""
    assert at.proxy.orders is not None
    keys = at.proxy.orders.keys
    await change_stand(keys, broker, stand, version_of_stand(keys, broker))
    await until(lambda: stand_of(at, broker) == stand)


def stand_of(at: Standing, broker: str) -> Stand | None:
    assert at.proxy.moving is not None
    at.proxy.moving.refresh()
    found = at.proxy.moving.stands.of(broker)
    return None if found is None else replace(found, number=0)


async def third(at: Standing) -> None:
    """Add a broker without the topic."""
    await at.cluster.broker(C)
    await until(lambda: BrokerKey(C, 0) in at.proxy.brokers.ports)


async def stop(at: Standing, broker: str) -> None:
    """Stop a broker for good, and wait until the proxy knows."""
    at.stops[broker].set()
    await at.stopped[broker].wait()
    await until(lambda: BrokerKey(broker, 0) not in at.proxy.brokers.listed)


async def commit(at: Standing, broker: str) -> None:
    """Give group g progress at a broker, which then tells that it reads there."""
    fields = {"topic": "T", "queueId": "0", "consumerGroup": "g", "commitOffset": "0"}
    assert (await (await at.client(broker)).call(Code.UPDATE_CONSUMER_OFFSET, fields)).code == 0


async def locked(client: Client, client_id: str, *queues: MessageQueue) -> set[MessageQueue]:
    body = LockBatch("g", client_id, queues).encode()
    answer = await client.call(Code.LOCK_BATCH_MQ, {}, body)
    assert answer.code == 0, answer.remark
    return set(LockBatchResult.decode(answer.body).lock_ok_mq_set)


async def test_who_stands_in_gets_no_request_in_the_numbers_of_another_broker(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        client = Client(await dial(at.proxy.address.port))
        orders = at.proxy.orders
        assert orders is not None
        for number, name in enumerate((A, B)):
            await put(at.brokers[name], 3)
            with trio.fail_after(PATIENT_S):
                while BrokerKey(added_name(number), 0) not in at.proxy.brokers.ports:
                    await client.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        order = orders.of("T")
        assert order is not None
        late_name = next(
            added_name(number)
            for number in range(orders.width)
            if (run := order.run_at(number)) and (run.broker, run.start) == (gone, 2)
        )
        await note(at, gone, Stand(kept))
        await stop(at, gone)
        late = await at.client(late_name)
        queue = {"topic": "T", "queueId": "0", "consumerGroup": "g"}
        position = str(tagged(tag_of(orders.behind, gone), 0))
        requests = [
            (Code.UPDATE_CONSUMER_OFFSET, {**queue, "commitOffset": "7"}),
            (Code.QUERY_CONSUMER_OFFSET, queue),
            (Code.GET_MAX_OFFSET, queue),
            (Code.VIEW_MESSAGE_BY_ID, {"offset": position}),
            (Code.CONSUMER_SEND_MSG_BACK, {"offset": position, "group": "g", "delayLevel": "0"}),
            (Code.END_TRANSACTION, {"commitLogOffset": position}),
        ]
        for code, fields in requests:
            answer = await late.call(code, fields)
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, code
            assert f"{gone} is drained and gone" in (answer.remark or ""), code
        refused = await late.send("T", queue_id=0)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert at.brokers[kept].broker.context.store.bounds("T", 2) == (0, 0)
        answer = await late.call(Code.GET_TOPIC_CONFIG, {"topic": "T"})
        assert answer.code == 0, answer.remark


async def test_a_drained_broker_does_not_come_to_stand_in_for_itself(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await third(at)
        await note(at, gone, Stand(C, "", is_done=True))
        assert (await drained(at, C)).stand_in == kept
        assert stand_of(at, gone) == Stand(kept, "", is_done=True)


async def test_locks_go_over_to_no_broker_that_is_drained_meanwhile(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await third(at)
        await note(at, gone, Stand(gone, C))
        await drained(at, C)
        assert stand_of(at, gone) == Stand(gone)
        # Nor is a broker chosen that is about to be drained.
        await note(at, C, Stand(C, kept))
        await note(at, gone, Stand(gone, C))
        assert (await drained(at, gone)).stand_in == kept


async def test_nobody_stands_in_where_all_others_are_drained(tmp_path: Path, dial: Dial) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await note(at, kept, Stand(gone))
        with pytest.raises(RefusedByBroker, match="all others are drained, too"):
            await drained(at, gone)


async def test_a_drain_whose_broker_dies_in_the_middle_comes_to_its_end(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await note(at, gone, Stand(gone, kept))
        await stop(at, gone)
        words = ("drainBroker", "-n", at.address, "-b", gone)
        shown = await trio.to_thread.run_sync(partial(CliRunner().invoke, admin_command, words))
        assert shown.exit_code == 0, shown.output
        assert f"{kept} stands in for {gone}\n" in shown.output
        assert f"2 queues are still written at {gone}\n{gone} is not registered" in shown.output
        assert stand_of(at, gone) == Stand(kept)


async def test_another_broker_stands_in_where_the_one_that_did_has_died(
    tmp_path: Path, dial: Dial
) -> None:
    """Orderly groups of the queues of C, which is gone, need it."""
    async with standing(tmp_path, dial) as at:
        kept, died = await sides(at)
        await note(at, C, Stand(died, "", is_done=True))
        await stop(at, died)
        words = ("drainBroker", "-n", at.address, "-b", died)
        shown = await trio.to_thread.run_sync(partial(CliRunner().invoke, admin_command, words))
        assert shown.exit_code == 0, shown.output
        assert f"{kept} stands in for {died}\n" in shown.output
        assert stand_of(at, died) == Stand(kept)
        assert stand_of(at, C) == Stand(kept, "", is_done=True)
        with pytest.raises(RefusedByBroker, match="no master that name servers list"):
            await drained(at, "broker-x")


async def test_locks_stay_while_members_go_direct(tmp_path: Path, dial: Dial) -> None:
    async with standing(tmp_path, dial) as at:
        _, gone = await sides(at)
        await commit(at, gone)
        async with (
            reading(at.cluster.name_server),
            open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as admin,
        ):
            address = str(at.brokers[gone].address)
            while not (found := await admin.consumer_connections(address, "g")):
                pass
            assert found.connection_set
            with pytest.raises(RefusedByBroker, match="group g has members who go direct"):
                await drained(at, gone)
        assert stand_of(at, gone) is None


async def test_locks_do_not_go_over_while_somebody_renews_one_at_the_first_broker_alone(
    tmp_path: Path, dial: Dial, locks_end_soon: None
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await commit(at, gone)
        queue = MessageQueue("T", gone, 0)
        direct = Client(await dial(at.brokers[gone].port))
        assert await locked(direct, "one", queue) == {queue}
        with pytest.raises(RefusedByBroker, match="somebody has a lock of a queue"):
            await drained(at, gone)
        assert stand_of(at, gone) == Stand(gone, kept)


async def test_locks_of_a_topic_that_only_the_drained_broker_has_go_over_too(
    tmp_path: Path, dial: Dial, locks_end_soon: None
) -> None:
    """The broker that stands in is drained in its turn, and lacks the topic."""
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await third(at)
        await commit(at, gone)
        await note(at, gone, Stand(C))
        queue, address = MessageQueue("T", gone, 1), at.proxy.brokers.address_of(C)
        assert address is not None
        holder = Client(await dial(HostAddress.parse(address).port))
        assert await locked(holder, "one", queue) == {queue}
        with pytest.raises(RefusedByBroker, match=f"somebody has a lock of a queue of {gone}"):
            await drained(at, C)
        assert stand_of(at, gone) == Stand(C, kept)


class Lending:
    """Brokers of which some lend locks, and others answer nothing."""

    def __init__(self, *silent: str) -> None:
        self._silent = silent

    async def call(self, address: str, frame: Frame, _: float) -> Frame:
        await trio.lowlevel.checkpoint()
        if address in self._silent:
            raise LanemqError("no answer")
        return frame.reply(body=LockBatchResult(LockBatch.decode(frame.body).mq_set).encode())


@pytest.mark.parametrize(
    ("silent", "code", "granted"),
    [((), 0, "bd"), (("a",), 0, "d"), (("b",), 0, "d"), (("b", "c"), 14, ""), (("c",), 0, "b")],
)
async def test_an_answer_without_locks_says_that_somebody_else_has_them(
    silent: tuple[str, ...], code: int, granted: str
) -> None:
    """The locks of b's queues are to go from a to b, those of d's have gone to c."""
    stands = {"b": Stand("a", "b"), "d": Stand("c")}
    moving: Any = SimpleNamespace(
        lease=SimpleNamespace(era=0),
        stands=SimpleNamespace(is_unreadable=lambda _: False, of=stands.get),
    )
    client = cast(RemotingClient, Lending(*silent))
    locks = StoodLocks(moving, client, lambda name: name)
    frames = {
        name: request(
            Code.LOCK_BATCH_MQ, {}, LockBatch("g", "one", (MessageQueue("T", name, 0),)).encode()
        )
        for name in stands
    }
    asked = [LocksOf(name, frame) for name, frame in frames.items()]
    answer = await locks.answer(frames["b"], asked)
    assert answer is not None
    assert answer.code == code
    if not code:
        found = LockBatchResult.decode(answer.body).lock_ok_mq_set
        assert {one.broker_name for one in found} == set(granted)


async def test_locks_are_lent_by_a_broker_that_name_servers_have_lost_from_view(
    tmp_path: Path, dial: Dial
) -> None:
    async with standing(tmp_path, dial) as at:
        kept, gone = await sides(at)
        await note(at, gone, Stand(kept))
        client, queue = await at.client(gone), MessageQueue("T", gone, 0)
        assert await locked(client, "one", queue) == {queue}
        at.proxy.brokers.listed = frozenset()
        assert await locked(client, "one", queue) == {queue}
        assert await locked(client, "two", queue) == set()


class Failing:
    """A client at which requests go wrong in one way."""

    def __init__(self, inner: RemotingClient, scope: trio.CancelScope | None = None) -> None:
        self._inner = inner
        self._scope = scope
        """Cancelled once a lock is granted; without it no lock is given back."""

    async def call(self, address: str, frame: Frame, timeout_s: float) -> Frame:
        if frame.code == Code.UNLOCK_BATCH_MQ and self._scope is None:
            raise LanemqError("the connection broke")
        await trio.lowlevel.checkpoint()
        answer = await self._inner.call(address, frame, timeout_s)
        if self._scope is not None:
            self._scope.cancel()
        return answer


Probes = Callable[[Callable[[RemotingClient], Failing] | None], HeldLocks]


@asynccontextmanager
async def probing(
    tmp_path: Path, dial: Dial
) -> AsyncIterator[tuple[Standing, Probes, str, tuple[str, str]]]:
    """Yield what is standing, what makes probes for locks by a client that goes wrong or by a sound
    one, the broker that goes, and the addresses of the first and the second one."""
    async with (
        standing(tmp_path, dial) as at,
        open_remoting_client() as client,
    ):
        kept, gone = await sides(at)
        await commit(at, gone)

        def locks(fails: Callable[[RemotingClient], Failing] | None) -> HeldLocks:
            asking = client if fails is None else cast(RemotingClient, fails(client))
            return HeldLocks(evolve(at.context(client), client=asking), gone)

        first, second = (str(at.brokers[one].address) for one in (gone, kept))
        yield at, locks, gone, (first, second)


async def test_what_one_proxy_has_not_given_back_is_no_clients_lock_to_another(
    tmp_path: Path, dial: Dial
) -> None:
    async with probing(tmp_path, dial) as (_, locks, _, places):
        queues = await locks(None).queues(places[0])
        with pytest.raises(LanemqError):
            await locks(Failing).held_alone(*places, queues)
        assert not await locks(None).held_alone(*places, queues)


async def test_locks_are_given_back_though_the_drain_ends_meanwhile(
    tmp_path: Path, dial: Dial
) -> None:
    async with probing(tmp_path, dial) as (at, locks, gone, places):
        asked = await locks(None).queues(places[0])
        with trio.CancelScope() as scope:
            await locks(partial(Failing, scope=scope)).held_alone(*places, asked)
        assert scope.cancel_called
        queues = [MessageQueue("T", gone, number) for number in range(2)]
        direct = Client(await dial(at.brokers[gone].port))
        assert await locked(direct, "one", *queues) == set(queues)


async def test_a_broker_without_an_address_cannot_be_reached() -> None:
    with pytest.raises(Unreachable, match="do not list the broker"):
        await Connecting(dial_tcp).connect("")
