"""The other proxies of the cluster, and which of them clients are sent to.

All proxies tell clients the same brokers; whose address a broker has is divided among those that
live, so that a sender that may choose a queue finds another proxy at once when one is gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.bodies import ClusterInfo
from lanemq.wire.frame import request

from ..net._turns import read_answer
from ._brokers import UpstreamBrokers
from ._numbers import BrokerKey
from .kv import KnownLog, KnownLogs

LOGGER = get_logger("lanemq.proxy.gateway", by_peers=True)

OWN_FIELD: Final = "lanemqProxy"
"""A field of questions for the cluster that asks for a proxy's own addresses; in the answer it is
the proxy's name, empty from one that stops."""
LOGICAL_FIELD: Final = "lanemqProxyLogical"
"""A field of the answer: whether the proxy keeps the order of queues."""
MOVES_FIELD: Final = "lanemqProxyMoves"
"""A field of the answer: whether it lets queues move."""
LOG_FIELD: Final = "lanemqProxyLog"
"""A field of the answer: the log of orders that the proxy knows."""
KEY_LOGS_FIELD: Final = "lanemqProxyKeyLogs"
"""A field of the answer: the logs of keys that the proxy knows."""
LOOK_S: Final = 2.0
"""Seconds between questions to another proxy."""
ASK_S: Final = 2.0
LIFE_S: Final = 7.0
"""Seconds without an answer after which another proxy counts as gone."""


@final
@dataclass(slots=True)
class _Peer:
    name: str = ""
    """Its address, as it gives it itself; empty if it is gone or stops."""
    keeps_order: bool | None = None
    """True if it keeps the order of queues; None until it has told."""
    moves: bool | None = None
    """True if it lets queues move; None until it has told."""
    heard_s: float = 0.0
    addresses: Mapping[BrokerKey, str] = field(default_factory=dict)


@final
class Peers:
    """The other proxies; ``run`` asks them again and again."""

    def __init__(
        self,
        client: RemotingClient,
        others: Sequence[str],
        brokers: UpstreamBrokers,
        *,
        own_name: str,
        keeps_order: bool = False,
        moves: bool = False,
        known: KnownLog | None = None,
        known_keys: KnownLogs | None = None,
    ) -> None:
        self._client = client
        self._known = known
        self._known_keys = known_keys
        self._peers = {address: _Peer() for address in others}
        self._brokers = brokers
        self.own_name = own_name
        self.keeps_order = keeps_order
        """True for a proxy that keeps the order of queues."""
        self.moves = moves
        """True for a proxy that lets queues move."""
        self.is_leaving = False
        """True once clients are to go to other proxies, if there are any."""

    @property
    def living(self) -> Sequence[str]:
        """The names of the other proxies that live."""
        return sorted({one.name for one in self._peers.values() if one.name} - {self.own_name})

    def known(self) -> Sequence[tuple[str, str, str]]:
        """Return the address of each other proxy, as configured, its name, which is empty if it is
        gone or stops, and what is wrong with it."""
        return [
            (address, one.name, self._problem(one) or self._why_differs(address))
            for address, one in self._peers.items()
        ]

    def _why_differs(self, address: str) -> str:
        kinds = self._known, self._known_keys
        return next(filter(None, (one.why_differs(address) for one in kinds if one)), "")

    def told(self) -> dict[str, str]:
        """Return the fields in which this proxy tells another one of itself."""
        return {
            OWN_FIELD: "" if self.is_leaving else self.own_name,
            LOGICAL_FIELD: str(self.keeps_order).lower(),
            MOVES_FIELD: str(self.moves).lower(),
            LOG_FIELD: "" if self._known is None else self._known.told(),
            KEY_LOGS_FIELD: "" if self._known_keys is None else self._known_keys.told(),
        }

    def why_no_move(self) -> str:
        """Return the reason why no move may begin: another proxy that may not know; or empty."""
        for address, one in self._peers.items():
            if not one.name:
                return (
                    f"the proxy at {address} does not answer, or stops: it has to be there when a "
                    "queue begins to move, or not to be named by --peer"
                )
            if not one.moves and one.name != self.own_name:
                return f"the proxy at {address} runs without --moves"
        return ""

    def _problem(self, peer: _Peer) -> str:
        if peer.name and peer.moves is not None and peer.moves != self.moves:
            one, other = ("it", "this one") if peer.moves else ("this one", "it")
            return (
                f"{one} runs with --moves, and {other} without: once a queue has moved, clients of "
                "the latter do not find its messages"
            )
        if not peer.name or peer.keeps_order in {None, self.keeps_order}:
            return ""
        one, other = ("it", "this one") if peer.keeps_order else ("this one", "it")
        return (
            f"{one} runs with --logical, and {other} without: once a topic's queues are in another "
            "order than the cluster's, clients of the two divide them twice"
        )

    async def run(self) -> None:
        """Ask all other proxies again and again, until cancelled."""
        async with trio.open_nursery() as nursery:
            for address, peer in self._peers.items():
                nursery.start_soon(self._watch, address, peer)

    async def _watch(self, address: str, peer: _Peer) -> None:
        frame = request(RequestCode.GET_BROKER_CLUSTER_INFO, {OWN_FIELD: self.own_name})
        while True:
            try:
                answer = await self._client.call(address, frame, ASK_S)
                name = answer.fields.get(OWN_FIELD, "")
                read = partial(ClusterInfo.decode, answer.body)
                table = (await read_answer(len(answer.body), read)).broker_addr_table
            except (LanemqError, RemoteProtocolError) as error:
                if peer.name and trio.current_time() - peer.heard_s > LIFE_S:
                    LOGGER.warning("the proxy at %s is gone: %s", address, error)
                    peer.name = ""
            else:
                if name != peer.name:
                    LOGGER.info("the proxy at %s %s", address, "is there" if name else "stops")
                peer.name, peer.heard_s = name, trio.current_time()
                if self._known is not None:
                    self._known.note_told(address, answer.fields.get(LOG_FIELD, ""))
                if self._known_keys is not None:
                    self._known_keys.note_told(address, answer.fields.get(KEY_LOGS_FIELD, ""))
                before = peer.keeps_order, peer.moves
                peer.keeps_order = _told(answer.fields, LOGICAL_FIELD)
                peer.moves = _told(answer.fields, MOVES_FIELD)
                if before != (peer.keeps_order, peer.moves) and (why := self._problem(peer)):
                    LOGGER.error("the proxy at %s: %s", address, why)
                peer.addresses = {
                    BrokerKey(broker.broker_name, broker_id): at
                    for broker in table.values()
                    for broker_id, at in broker.broker_addrs.items()
                }
            await trio.sleep(LOOK_S)

    def own_addresses(self) -> dict[BrokerKey, str]:
        """Return the address of each broker at this proxy."""
        return {key: str(port.address) for key, port in self._brokers.ports.items()}

    def addresses(self) -> dict[BrokerKey, str]:
        """Return the address of each broker that clients are told."""
        own = self.own_addresses()
        living = {one.name: one.addresses for one in self._peers.values() if one.name}
        living.pop(self.own_name, None)
        if not living:
            return own
        if not self.is_leaving:
            living[self.own_name] = own
        proxies = [living[name] for name in sorted(living)]
        names = sorted({key.name for key in own})
        number = {name: at for at, name in enumerate(names)}
        # A proxy that has not heard of a broker yet leaves it to this one.
        return {
            key: proxies[number[key.name] % len(proxies)].get(key, address)
            for key, address in own.items()
        }


def _told(fields: Mapping[str, str], name: str) -> bool | None:
    """Return what a proxy tells of itself; None for one that does not tell."""
    return {"true": True, "false": False}.get(fields.get(name, ""))
