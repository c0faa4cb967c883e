"""Drain and balance behind a proxy in front of a cluster, which moves the queues itself."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, final

import trio

from lanemq.local import print_line
from lanemq.wire import DLQ_PREFIX, RETRY_PREFIX, ResponseCode, is_system_topic, reply_topic
from lanemq.wire.bodies import BrokerDrain

from ...._errors import LanemqError, NoRoute, RefusedByBroker
from ...._tasks import open_quiet_nursery
from ..._client import AdminClient
from ..._remains import Remainder, waiting_messages
from ...logical._spread import Move, drain_moves
from ...requests._servers import masters_by_name
from ..command._command import Output
from ._proxy_moves import move_at_proxy

DRAINING: Final = "draining"
AT_ONCE: Final = 16
"""Most topics of which queues move at the same time; of one topic it is one queue."""
OWN_PREFIX: Final = "LANEMQ_"
"""Begin of the names of topics that proxies make for themselves."""
NAMED_MAX: Final = 5


@final
class ProxyCluster:
    """The cluster behind a proxy with ``--moves``."""

    def __init__(
        self, admin: AdminClient, brokers: Mapping[str, str], own: Collection[str]
    ) -> None:
        self._admin = admin
        self._address = admin.name_servers[0]
        self.brokers = brokers
        """The masters: name -> the address at the proxy."""
        self._own = own
        self.unmovable: dict[str, str] = {}
        """Topics whose queues cannot move, with the reasons."""
        self.begun: list[Move] = []
        """The moves that have begun: no other queue of their topics moves before their ends."""

    async def written(self, topics: Collection[str]) -> dict[str, dict[int, str]]:
        """Return the broker to which each queue of some topics is written, of those that can
        move; of one that is on its way, the broker to which it goes."""
        self.begun = []
        found: dict[str, dict[int, str]] = {}
        for topic in sorted(topics):
            if self._is_plain(topic):
                try:
                    await self._admin.route(topic)  # its queues get their places by that
                except NoRoute:
                    continue
                told = await self._admin.proxied_queues(self._address, topic)
                if told.problem:
                    self.unmovable[topic] = told.problem
                else:
                    found[topic] = dict(enumerate(told.brokers))
                    for index, target in enumerate(told.targets):
                        if target:
                            self.begun.append(Move(topic, index, told.brokers[index], target))
                            found[topic][index] = target
        return found

    async def topics_at(self, broker: str) -> list[str]:
        """Return the names of the topics that a broker has."""
        address = self.brokers[broker]
        return sorted((await self._admin.topic_configs(address)).topic_config_table)

    def _is_plain(self, topic: str) -> bool:
        """Return False for topics that every broker has, and for those of groups and proxies."""
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX, OWN_PREFIX)) or is_system_topic(topic):
            return False
        return topic not in self._own

    async def move(self, out: Output, moves: Sequence[Move]) -> list[Move]:
        """Move queues, of several topics at once; returns those that failed, which are told."""
        failures: list[Move] = []
        by_topic: dict[str, list[Move]] = {}
        for move in moves:
            by_topic.setdefault(move.topic, []).append(move)
        room, ended = trio.CapacityLimiter(AT_ONCE), 0

        async def of_topic(chosen: Sequence[Move]) -> None:
            nonlocal ended
            async with room:
                for move in chosen:
                    what = f"{move.topic} logical queue {move.index}"
                    try:
                        moved = await move_at_proxy(
                            self._admin,
                            move.topic,
                            move.index,
                            move.destination,
                            report=lambda _: None,
                        )
                    except LanemqError as error:
                        failures.append(move)
                        print_line(f"{what}: {error}", err=True)
                        continue
                    finally:
                        ended += 1
                    assert moved is not None, "a proxy with moves"
                    out.line(
                        f"[{ended}/{len(moves)}] {what}: {move.source} -> {move.destination}, "
                        f"from offset {moved.begin} on"
                    )

        async with open_quiet_nursery() as nursery:
            for chosen in by_topic.values():
                nursery.start_soon(of_topic, chosen)
        return failures

    async def has_entry(self, broker: str) -> bool:
        """Return whether a drain of a broker has begun, or it stands in for another one, whether it
        is registered or not."""
        status = await self._admin.proxy_status(self._address)
        stands = () if status.moves is None else status.moves.stands
        return any(broker in (one.broker_name, one.at, one.target) for one in stands)

    async def plan_drain(self, broker: str) -> list[Move]:
        """Plan to move all that is written at a broker, or is on its way there, while it is there:
        no end can be read at one that is gone. Moves that have begun come first. Raises
        ``ValueError``."""
        if broker not in self.brokers:
            return []
        written = await self.written(await self.topics_at(broker))
        moves = drain_moves(written, broker, await self.destinations(broker))
        leaving = {move.topic for move in moves}
        begun = [one for one in self.begun if one.source == broker or one.topic in leaving]
        return [*begun, *moves]

    async def destinations(self, broker: str = "") -> list[str]:
        """Return the brokers to which queues may go: not that one, nor drained ones."""
        status = await self._admin.proxy_status(self._address)
        stands = () if status.moves is None else status.moves.stands
        drained = {one.broker_name for one in stands} | {broker}
        return [name for name in self.brokers if name not in drained]

    async def check(self, broker: str) -> None:
        """Begin to drain a broker. Raises ``RefusedByBroker`` for one that has to stay."""
        await self._admin.drain_at_proxy(self._address, broker)

    async def drain(self, broker: str, out: Output) -> BrokerDrain:
        """Have another broker stand in for one, and return what is left there."""
        before = ""
        while True:
            found = await self._admin.drain_at_proxy(self._address, broker)
            if found.state != DRAINING:
                return found
            if found.what != before:
                out.line(found.what)
                before = found.what

    async def drain_beside(self, broker: str, out: Output) -> None:
        """Do as ``drain`` while queues move, which go on after an error: the next call tells it."""
        with suppress(LanemqError):
            await self.drain(broker, out)

    async def rest(self, broker: str) -> list[Remainder]:
        """Return what waits at a broker, and is lost with it; nothing of one that is gone."""
        address = self.brokers.get(broker)
        if address is None:
            return []
        names = (await self._admin.topic_configs(address)).topic_config_table
        return await waiting_messages(
            self._admin, address, names, await self._admin.offset_table(address)
        )


async def find_proxy(admin: AdminClient) -> ProxyCluster | None:
    """Return the cluster behind the proxy that is asked; None where none is, or one without
    ``--moves``."""
    try:
        status = await admin.proxy_status(admin.name_servers[0])
    except RefusedByBroker as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        return None
    if status.moves is None:
        return None
    brokers = await masters_by_name(admin, None)
    clusters = (await admin.cluster()).cluster_addr_table
    own = {*brokers, *clusters, *map(reply_topic, clusters)}
    return ProxyCluster(admin, dict(sorted(brokers.items())), own)


async def drain_behind(
    proxy: ProxyCluster, out: Output, broker: str, moves: Sequence[Move]
) -> tuple[list[Move], list[str]]:
    """Drain a broker; returns the moves that failed, and lines that say what keeps it in use."""
    await proxy.check(broker)
    async with open_quiet_nursery() as nursery:
        nursery.start_soon(proxy.drain_beside, broker, out)  # it waits for locks meanwhile
        failures = await proxy.move(out, moves)
    await proxy.drain(broker, out)
    rest = await proxy.rest(broker)
    # Once more: what waited until then for its time may have come behind an end since.
    found = await proxy.drain(broker, out)
    out.line(f"{found.stand_in} stands in for {broker}")
    lines = [found.what] if found.what else []
    if found.written:
        lines.append(f"{found.written} queues are still written at {broker}")
    if proxy.unmovable:
        names = sorted(proxy.unmovable)
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        lines.append(
            f"topics whose queues cannot move: {', '.join(names[:NAMED_MAX])}{more}; "
            f"{names[0]}: {proxy.unmovable[names[0]]}"
        )
    if found.unread:
        most = max(found.unread, key=lambda one: one.count)
        count = sum(one.count for one in found.unread)
        lines.append(
            f"still there: {count} messages that a group has not read, most of them "
            f"{most.group} of {most.topic}"
        )
    if found.behind:
        lines.append(f"still there: {found.behind} messages behind ends are not sent on yet")
    for left in rest:
        most_of = f", most of them {left.example}" if left.example else ""
        lines.append(f"still there: {left.count} {left.what}{most_of}")
    if broker not in proxy.brokers:
        lines.append(
            f"{broker} is not registered: forgetBroker says that it will not come back, and "
            "readers go on behind what was on it"
        )
    return failures, lines or [f"{broker} can be switched off now: nothing needs it"]
