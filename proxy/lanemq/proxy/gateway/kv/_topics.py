"""The topics of an upstream cluster that are logs of keys: found, or created at one broker."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, NoRoute, RemotingClient
from lanemq.sdk.admin import AdminClient
from lanemq.wire import Permission, ProtocolError
from lanemq.wire.bodies import MASTER_ID, RouteData, TopicConfig

from ._choice import LogState, only, state_of
from ._known import LOGS, KnownLog
from ._queue import LogQueue, NotYet
from ._upstream import CALL_S, UpstreamBroker, UpstreamQueue, refusal

LOGGER: Final = get_logger("lanemq.proxy.gateway.kv", by_peers=True)
BROKER_PERMISSION: Final = "brokerPermission"


class LogBroker(NamedTuple):
    """The broker of a log."""

    broker: str
    queues: int
    """Number of its queues there, which is that of the partitions."""


async def find_log(
    client: RemotingClient, admin: AdminClient, topic: str, *, broker: str | None = None
) -> LogBroker | None:
    """Return where a log is; None if the cluster, or ``broker``, has none of that name.

    Raises ``NotYet``, ``LogSplit``.
    """
    try:
        route = await admin.route(topic)
    except NoRoute:
        return None
    except (LanemqError, ProtocolError) as error:
        raise NotYet(str(error)) from error
    if broker is None:
        return await _found(client, admin, topic, route)
    queues = [one.read_queue_nums for one in route.queue_datas if one.broker_name == broker]
    return LogBroker(broker, queues[0]) if queues else None


async def _found(
    client: RemotingClient, admin: AdminClient, topic: str, route: RouteData
) -> LogBroker:
    places = {
        one.broker_name: LogBroker(one.broker_name, one.read_queue_nums)
        for one in sorted(route.queue_datas, key=lambda one: one.broker_name)
    }
    if not places:
        raise NotYet(f"no broker has topic {topic} now")
    first = next(iter(places.values()))
    if len(places) == 1:
        return first
    # Two proxies that saw different brokers have both begun it, or an operator has made it.
    masters = {one.broker_name: one.broker_addrs.get(MASTER_ID) for one in route.broker_datas}
    kept = []
    for name in places:
        address = masters.get(name)
        if address is None:
            raise NotYet(f"broker {name} has topic {topic}, and no master now")
        queue = UpstreamQueue(UpstreamBroker(client, admin, name, address), topic, 0)
        if await state_of(queue) is LogState.KEPT:
            kept.append(name)
    return places[only(kept, topic)] if kept else first


async def noted_broker(client: RemotingClient, admin: AdminClient, topic: str) -> str | None:
    """Return the broker at which a log was created, as name servers keep it; None where none of
    them knows.

    One that has lost its table, as a new one has, gets it from the others. Raises ``NotYet``, also
    where one does not answer that may be the only one to know.
    """
    told: dict[str, str | None] = {}
    failed: Exception | None = None
    for server in admin.name_servers:
        try:
            told[server] = await AdminClient(client, [server], timeout_s=CALL_S).value(LOGS, topic)
        except (LanemqError, ProtocolError) as error:
            failed = error
    found = sorted({one for one in told.values() if one is not None})
    if len(found) > 1:
        raise NotYet(
            f"the name servers do not agree on the broker of topic {topic}, a log of keys: they "
            f"say {' and '.join(found)}. With that of the right one: mqadmin updateKvConfig "
            f"-s {LOGS} -k {topic} -v BROKER"
        )
    if not found:
        if failed is not None:
            raise NotYet(str(failed)) from failed
        return None
    if None in told.values():
        LOGGER.info("topic %s is at broker %s: not all name servers knew", topic, found[0])
        with suppress(NotYet):  # one that is down now gets it at another start
            await note_broker(admin, topic, found[0])
    return found[0]


async def note_again(
    client: RemotingClient, admin: AdminClient, topic: str, broker: str
) -> Mapping[str, str]:
    """Have each name server keep the broker of a log that keeps none, as one that has lost its
    table; returns those that keep another one, with that."""
    others = dict[str, str]()
    for server in admin.name_servers:
        one = AdminClient(client, [server], timeout_s=CALL_S)
        with suppress(LanemqError, ProtocolError):  # one that is down now is asked again
            told = await one.value(LOGS, topic)
            if told is None:
                await one.put_value(LOGS, topic, broker)
                LOGGER.warning(
                    "name server %s had lost that topic %s, a log of keys, is at broker %s",
                    server,
                    topic,
                    broker,
                )
            elif told != broker:
                others[server] = told
    return others


async def note_broker(admin: AdminClient, topic: str, broker: str) -> None:
    """Have all name servers keep the broker of a log. Raises ``NotYet``."""
    try:
        await admin.put_value(LOGS, topic, broker)
    except (LanemqError, ProtocolError) as error:
        raise NotYet(str(error)) from error


async def _masters(admin: AdminClient) -> dict[str, str]:
    """Return the address of each master, by what one name server says. Raises ``NotYet``."""
    try:
        brokers = (await admin.cluster()).broker_addr_table
    except (LanemqError, ProtocolError) as error:
        raise NotYet(str(error)) from error
    return {
        name: data.broker_addrs[MASTER_ID]
        for name, data in brokers.items()
        if MASTER_ID in data.broker_addrs
    }


async def _brokers_of(admin: AdminClient, topic: str) -> set[str]:
    """Return the brokers that have a topic, with a master now or without. Raises ``NotYet``."""
    try:
        return {one.broker_name for one in (await admin.route(topic)).queue_datas}
    except NoRoute:
        return set()
    except (LanemqError, ProtocolError) as error:
        raise NotYet(str(error)) from error


@final
class ClusterCandidates:
    """The brokers that may have a log; see ``Candidates``. Any name server of a cluster may
    have heard of others."""

    def __init__(
        self,
        client: RemotingClient,
        admin: AdminClient,
        topic: str,
        *,
        queues: int,
        known: KnownLog | None = None,
    ) -> None:
        self._client = client
        self._admin = admin
        self._topic = topic
        self._queues = queues
        self._known = known
        self._masters: dict[str, str] = {}
        self._same_since_s = 0.0

    async def queues(self) -> Mapping[str, LogQueue]:
        client, admin = self._client, self._admin
        before, self._masters = self._masters, {}  # a look that fails is one without masters
        found, having = dict[str, str](), set[str]()
        for server in admin.name_servers:
            one = AdminClient(client, [server], timeout_s=CALL_S)
            found = await _masters(one) | found
            having |= await _brokers_of(one, self._topic)
        if missing := having - found.keys():
            raise NotYet(f"broker {min(missing)} has topic {self._topic}, and no master now")
        self._masters = found
        if found != before:
            self._same_since_s = trio.current_time()
        return {
            name: UpstreamQueue(UpstreamBroker(client, admin, name, address), self._topic, 0)
            for name, address in found.items()
        }

    async def create(self, broker: str) -> None:
        address = self._masters[broker]
        if self._known is not None:
            self._known.check_begin(trio.current_time() - self._same_since_s)
        await _create(self._admin, self._topic, self._queues, broker, address)

    async def is_writable(self, broker: str) -> bool:
        try:
            return may_write(await self._admin.config(self._masters[broker]))
        except (LanemqError, ProtocolError) as error:
            raise refusal(error) from error


def may_write(config: Mapping[str, str]) -> bool:
    """Return whether a broker has its own permission to write: without it, all its topics are
    registered as read-only, those that are made later, too (BrokerController.registerBrokerAll)."""
    told = config.get(BROKER_PERMISSION, "")
    return not told.isdecimal() or bool(int(told[:9]) & Permission.WRITE)


async def create_log(
    admin: AdminClient, topic: str, *, queues: int, broker: str, known: KnownLog | None = None
) -> None:
    """Create a log at a broker. Raises ``NotYet``, which names the way on where the broker is gone:
    that of a log that proxies keep as ``known`` has a step more.

    Proxies that do it at once do the same, and it changes nothing the second time.
    """
    address = (await _masters(admin)).get(broker)
    if address is None:
        way_on = (
            f". If it is gone for good, with all keys in it: mqadmin deleteKvConfig -s {LOGS} "
            f"-k {topic}"
            if known is None
            else f": {known.way_on}"
        )
        raise NotYet(
            f"topic {topic}, a log of keys, is at broker {broker}, of which no master is registered"
            f" now{way_on}"
        )
    await _create(admin, topic, queues, broker, address)


async def _create(admin: AdminClient, topic: str, queues: int, broker: str, address: str) -> None:
    try:
        LOGGER.info("topic %s, a log of keys, is created at broker %s", topic, broker)
        config = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
        await admin.put_topic(address, config)
    except (LanemqError, ProtocolError) as error:
        raise refusal(error) from error
