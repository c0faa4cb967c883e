"""The users of a cluster behind proxies: those that come through them, and those that go direct."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple, final

import trio

from lanemq.sdk import LanemqError, RemotingClient, open_remoting_client
from lanemq.wire import RequestCode
from lanemq.wire.bodies import RouteData
from lanemq.wire.frame import request

from ._clients import OLD, QUICK, Reader, Sender, client_host
from ._ledger import Ledger
from ._network import Network
from ._proxy_process import ProxyProcess
from ._queue_lists import GROWING, MOVING, STEADY, TOPICS, Lists

OPEN_AGAIN_S: Final = 1.0
PAUSE_MEAN_S: Final = 0.3
LOOK_MEAN_S: Final = 0.5
RUSH_MEAN_S: Final = 0.001
"""Mean pause between questions while a topic grows: at a large cluster many clients ask."""
RUSH: Final = 50
"""Questions to each proxy while a topic grows."""
ASK_S: Final = 3.0


class Group(NamedTuple):
    """A consumer group, and where its members may go: ``direct`` or ``proxies``, or both."""

    topic: str
    name: str
    ways: str
    members: int

    @property
    def is_orderly(self) -> bool:
        return self.name.endswith("orderly")


GROUPS: Final = (
    Group(STEADY, "mixed-concurrent", "direct proxies", 2),
    Group(STEADY, "mixed-orderly", "direct proxies", 3),
    Group(GROWING, "proxied-concurrent", "proxies", 2),
    Group(GROWING, "proxied-orderly", "proxies", 3),
    Group(GROWING, "direct-orderly", "direct", 1),
    Group(MOVING, "moving-concurrent", "proxies", 2),
    Group(MOVING, "moving-orderly", "proxies", 2),
)
SENDERS: Final = (
    ("direct", "direct", QUICK),
    ("proxied", "proxies", QUICK),
    ("old-proxied", "proxies", OLD),
)
"""Names of senders to each topic, their ways and options."""


@final
class Ways:
    """The addresses that clients have: those of the name servers, or those of the proxies."""

    def __init__(self, name_servers: Sequence[str], proxies: Sequence[str], rng: Random) -> None:
        self._addresses = {"direct": list(name_servers), "proxies": list(proxies)}
        self._rng = rng

    def drawn(self, ways: str) -> str:
        """Return addresses, in any order, of one of some ways."""
        found = self._addresses[self._rng.choice(ways.split())]
        return ";".join(self._rng.sample(found, len(found)))


@final
class Member:
    """A member of a group, which may be restarted and come another way then."""

    def __init__(self, group: Group, ways: Ways, reader: Callable[[str], Reader]) -> None:
        """``reader`` makes one by the addresses that it has."""
        self.topic, self.group = group.topic, group.name
        self._ways = group.ways
        self._addresses = ways
        self._reader = reader
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Consume until cancelled."""
        while True:
            with trio.CancelScope() as self._scope:
                try:
                    await self._reader(self._addresses.drawn(self._ways)).run()
                except LanemqError:
                    await trio.sleep(OPEN_AGAIN_S)  # nobody answered it at its start

    def move(self) -> None:
        """Restart it."""
        self._scope.cancel()


def make_members(
    network: Network, ways: Ways, ledgers: dict[str, Ledger], lists: Lists
) -> list[Member]:
    """Make the members of all groups, each on a host of its own."""
    found: list[Member] = []

    def add(group: Group, host: str) -> None:
        def reader(addresses: str) -> Reader:
            return Reader(
                group.name,
                host,
                network,
                addresses,
                ledgers[group.topic],
                QUICK,
                is_orderly=group.is_orderly,
                topic=group.topic,
                place=lists.own,
            )

        found.append(Member(group, ways, reader))

    for group in GROUPS:
        for _ in range(group.members):
            add(group, client_host(len(found)))
    return found


def make_senders(
    network: Network,
    ways: Ways,
    ledgers: dict[str, Ledger],
    lists: Lists,
    rng: Random,
    topics: Sequence[str] = TOPICS,
) -> list[Sender]:
    """Make senders to each topic, which go direct or come through the proxies."""
    return [
        Sender(
            f"{name}-{topic}",
            client_host(100 + number),
            network,
            ways.drawn(way),
            ledgers[topic],
            Random(rng.getrandbits(64)),
            options,
            topic=topic,
            place=lists.own,
            pause_mean_s=PAUSE_MEAN_S,
        )
        for number, (topic, name, way, options) in enumerate(
            (topic, *one)
            for topic in topics
            for one in SENDERS
            if topic != MOVING or "direct" not in one[1:2]
        )
    ]


async def route_of(client: RemotingClient, proxy: ProxyProcess, topic: str) -> RouteData:
    """Ask a proxy for a route. Raises ``LanemqError``."""
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    answer = await client.call(proxy.address, request(code, {"topic": topic}), ASK_S)
    return RouteData.decode(answer.body)


async def watch(
    network: Network,
    host: str,
    proxy: ProxyProcess,
    lists: Lists,
    rng: Random,
    *,
    mean_s: float = LOOK_MEAN_S,
    times: int | None = None,
) -> None:
    """Ask a proxy for routes again and again, and note them: ``times``, or until cancelled."""
    async with open_remoting_client(dial=network.dialer(host)) as client:
        asked = 0
        while asked != times:
            await trio.sleep(rng.expovariate(1 / mean_s))
            asked += 1
            topic = rng.choice(TOPICS)
            try:
                route = await route_of(client, proxy, topic)
            except LanemqError:
                continue
            lists.note_orders(proxy)
            lists.note_route(proxy, topic, route)
