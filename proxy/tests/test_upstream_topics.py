"""The broker of a log over a cluster, as the cluster's name servers keep it."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.gateway.kv import FILE, LOGS, KnownLog, NotYet, _located
from lanemq.proxy.gateway.kv._located import NOTED_S, LocatedQueue, LogLocation
from lanemq.proxy.gateway.kv._topics import note_broker, noted_broker
from lanemq.proxy.gateway.kv._upstream import UpstreamBroker
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.sdk import open_remoting_client
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.testkit.servers import PATIENT_S

TOPIC = "LANEMQ_PROXY_queues"
SNAPSHOTS = "LANEMQ_PROXY_%SNAPSHOTS%queues"


@pytest.fixture
async def servers() -> AsyncIterator[list[str]]:
    """Two name servers."""
    async with AsyncExitStack() as stack:
        config = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
        opened = [await stack.enter_async_context(open_nameserver(config)) for _ in range(2)]
        yield [one.address for one in opened]


async def noted(*servers: str) -> str | None:
    async with open_remoting_client() as client:
        return await noted_broker(client, AdminClient(client, servers, timeout_s=3), TOPIC)


async def test_one_name_server_that_knows_is_enough_and_tells_the_others(
    servers: list[str],
) -> None:
    assert await noted(*servers) is None
    async with open_admin(name_servers=servers[1], timeout_s=PATIENT_S) as admin:
        await note_broker(admin, TOPIC, "broker-b")
    async with open_admin(name_servers=servers[0], timeout_s=PATIENT_S) as new:
        assert await new.value(LOGS, TOPIC) is None
        assert await noted(*servers) == "broker-b"
        assert await new.value(LOGS, TOPIC) == "broker-b"


async def test_nobody_takes_a_log_for_new_while_one_that_may_know_is_silent(
    servers: list[str],
) -> None:
    down = "127.0.0.1:1"
    with pytest.raises(NotYet, match=down):
        await noted(*servers, down)
    async with open_admin(name_servers=servers[0], timeout_s=PATIENT_S) as admin:
        await note_broker(admin, TOPIC, "broker-a")
    assert await noted(*servers, down) == "broker-a"


async def test_name_servers_that_do_not_agree_are_named_with_the_way_on(
    servers: list[str],
) -> None:
    for server, broker in zip(servers, ("broker-a", "broker-b"), strict=True):
        async with open_admin(name_servers=server, timeout_s=PATIENT_S) as admin:
            await note_broker(admin, TOPIC, broker)
    with pytest.raises(NotYet, match=r"broker-a and broker-b.*updateKvConfig"):
        await noted(*servers)


async def test_name_servers_that_have_all_lost_it_get_it_from_who_follows_the_log(
    servers: list[str], autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_remoting_client())
        admin = AdminClient(client, servers, timeout_s=3)
        ones = [AdminClient(client, [server], timeout_s=3) for server in servers]
        await note_broker(admin, TOPIC, "broker-b")
        place = LogLocation(client, admin, TOPIC, queues=1, broker=None)
        place._found = UpstreamBroker(client, admin, "broker-b", "127.0.0.1:1")
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(place.keep_noted)

        async def told() -> list[str | None]:
            await trio.sleep(2 * NOTED_S)
            return [await one.value(LOGS, TOPIC) for one in ones]

        for one in ones:
            await one.delete_value(LOGS, TOPIC)
        assert await told() == [None, None]  # its records were not seen yet
        place.fix()
        assert await told() == ["broker-b", "broker-b"]
        await ones[0].put_value(LOGS, TOPIC, "broker-a")
        assert await told() == ["broker-a", "broker-b"]
        said = [one.message for one in caplog.records if one.levelno == logging.CRITICAL]
        assert len(said) == 1
        assert f"name server {servers[0]} says that it is at broker-a" in said[0]
        place.failed()
        for one in ones:
            await one.delete_value(LOGS, TOPIC)
        assert await told() == [None, None]  # the log may be gone for good
        nursery.cancel_scope.cancel()


async def test_each_text_of_a_known_log_that_is_gone_names_all_steps_and_these_lead_on(
    servers: list[str], tmp_path: Path
) -> None:
    async with open_remoting_client() as client:
        admin = AdminClient(client, servers, timeout_s=3)

        async def why() -> str:
            """Return why a proxy that starts has no log yet."""
            known = KnownLog(tmp_path / FILE, TOPIC)
            place = LogLocation(client, admin, TOPIC, queues=1, broker=None, known=known)
            with pytest.raises(NotYet) as caught:
                await place.broker()
            return str(caught.value)

        KnownLog(tmp_path / FILE, TOPIC).check("birth", "broker-b")
        await note_broker(admin, TOPIC, "broker-b")
        unregistered = await why()
        assert "is at broker broker-b, of which no master is registered now" in unregistered
        await admin.delete_value(LOGS, TOPIC)
        unlisted = await why()
        assert f"no name server lists topic {TOPIC} at broker broker-b, which had it" in unlisted
        for text in (unregistered, unlisted):
            steps = ("stop all", f"deleteKvConfig -s {LOGS} -k {TOPIC})", f"remove {FILE}", "start")
            places = [text.find(step) for step in steps]
            assert -1 not in places
            assert places == sorted(places)
        (tmp_path / FILE).unlink()
        assert await why() == "no master of any broker is registered now"  # it is to begin


async def test_a_log_that_nobody_knows_is_created_where_it_is_begun(
    servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name servers do not list its topic at once."""
    created = list[str]()

    async def chosen(*_: object, **__: object) -> str:
        return "broker-b"

    async def create_log(*_: object, broker: str, **__: object) -> None:
        created.append(broker)

    monkeypatch.setattr(_located, "chosen", chosen)
    monkeypatch.setattr(_located, "create_log", create_log)
    async with open_remoting_client() as client:
        admin = AdminClient(client, servers, timeout_s=3)
        known = KnownLog(None, TOPIC)
        place = LogLocation(client, admin, TOPIC, queues=1, broker=None, known=known)
        with pytest.raises(NotYet, match="is being created"):
            await place.broker()
    assert created == ["broker-b"]


@pytest.mark.parametrize(
    "asked",
    [
        lambda queue: queue.pull(0, wait_s=0),
        lambda queue: queue.append(b"", b""),
        lambda queue: queue.end(),
    ],
    ids=["pull", "append", "end"],
)
async def test_what_an_operator_deletes_of_a_log_whose_broker_is_dead_stays_deleted(
    servers: list[str],
    autojump_clock: MockClock,
    asked: Callable[[LocatedQueue], Awaitable[object]],
) -> None:
    """Its snapshots, too, which a proxy reads when it starts, and not again."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_remoting_client())
        admin = AdminClient(client, servers, timeout_s=3)
        log = LogLocation(client, admin, TOPIC, queues=1, broker=None)
        beside = LogLocation(client, admin, SNAPSHOTS, queues=1, broker=None, beside=log)
        nursery = await stack.enter_async_context(trio.open_nursery())
        for place in (log, beside):
            place._found = UpstreamBroker(client, admin, "broker-b", "127.0.0.1:1")
            place.fix()
            nursery.start_soon(place.keep_noted)

        async def told() -> list[str | None]:
            await trio.sleep(2 * NOTED_S)
            return [await admin.value(LOGS, topic) for topic in (TOPIC, SNAPSHOTS)]

        assert await told() == ["broker-b", "broker-b"]
        with pytest.raises(NotYet):
            await asked(LocatedQueue(log, 0))
        for topic in (TOPIC, SNAPSHOTS):
            await admin.delete_value(LOGS, topic)
        assert await told() == [None, None]
        beside.failed()
        log.fix()
        assert await told() == ["broker-b", None]
        beside.taken()
        assert await told() == ["broker-b", "broker-b"]
        nursery.cancel_scope.cancel()
