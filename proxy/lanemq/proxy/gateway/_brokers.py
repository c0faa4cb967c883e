"""The brokers of the cluster: where they are, and at which port clients see each."""

import os
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import Dial, RemotingClient
from lanemq.wire import HostAddress, RemoteProtocolError
from lanemq.wire.bodies import MASTER_ID, BrokerData

from ..net.limits._budget import Budget
from ..net.transport._listen import AddressUnavailable, listen_with_vip
from ..net.transport._tls import ServerTls
from ._added_port import AddedPort
from ._broker_port import BrokerPort
from ._config import PORT_STEP, GatewayConfig
from ._left_addresses import links_to_left, note_host, taken_over
from ._link import BrokerLink
from ._members import Members
from ._numbers import BROKERS_MAX, BrokerKey, BrokerNumbers
from ._seen_port import SeenPort, end_in_turns
from ._shared_ports import SharedPorts
from ._unlisted import added_brokers, gone_brokers
from ._ways import Ways
from .kv import KeyRequests
from .moves import MovedRequests, MovingQueues
from .order import PortQueues, QueueOrders, added_number

LOGGER = get_logger("lanemq.proxy.gateway", by_peers=True)

PORT_MAX: Final = 65_535
AGAIN_S: Final = 2.0
"""Seconds between two tries to give a port to a broker that got none."""


@final
class UpstreamBrokers:
    """The ports of all brokers. One that is gone keeps its port: it may come back."""

    def __init__(
        self,
        config: GatewayConfig,
        numbers: BrokerNumbers,
        *,
        nursery: trio.Nursery,
        dial: Dial,
        budget: Budget,
        tls: ServerTls,
        keys: KeyRequests | None = None,
        orders: QueueOrders | None = None,
    ) -> None:
        self._config = config
        self._keys = keys
        self._orders = orders
        self._rng = random.Random(os.urandom(8))
        self._host = config.advertised_host
        self._numbers = numbers
        self._nursery = nursery
        self._dial = dial
        self._budget = budget
        self._tls = tls
        self._limits = config.limits()
        path = config.state_path if config.is_shared else None
        self._moving: MovingQueues | None = None
        self._client: RemotingClient | None = None
        self._shared = None if path is None else SharedPorts(path)
        self._ports: dict[BrokerKey, SeenPort] = {}
        self._own_addresses: frozenset[str] = frozenset()
        self._portless: dict[BrokerKey, tuple[str, float]] = {}
        """Broker without a usable address, or without a port -> why, and when to try again."""
        self.listed: frozenset[BrokerKey] = frozenset()
        """The brokers that the name servers' last answer about the cluster has."""
        self.members = Members()
        """The same by name, without added brokers."""
        self._hosts: dict[bytes, bytes] = {}

    @property
    def first_name(self) -> str:
        """The name of the first broker, at whose port clients look for keys; empty without one."""
        return min((key.name for key in self._ports), default="")

    @property
    def ports(self) -> Mapping[BrokerKey, SeenPort]:
        """The ports that are open."""
        return self._ports

    def note_all(self, *brokers: BrokerData) -> None:
        """Take all brokers of the cluster, as ``note``."""
        if self._orders is not None:
            self._orders.note_brokers(*(one.broker_name for one in brokers))
        self.members.note(brokers)
        gone = gone_brokers(self.drained, brokers)
        brokers = (*brokers, *added_brokers(self._orders, brokers), *gone)
        self.listed = frozenset(
            BrokerKey(broker.broker_name, broker_id)
            for broker in brokers
            for broker_id, address in broker.broker_addrs.items()
            if address or added_number(broker.broker_name) is not None
        )
        self._portless = {key: one for key, one in self._portless.items() if key in self.listed}
        self._note(brokers)

    def note(self, *brokers: BrokerData) -> None:
        """Take the addresses of brokers and their slaves, as a name server told them."""
        self._note((*brokers, *added_brokers(self._orders, brokers)))

    @property
    def gone(self) -> Collection[str]:
        """The drained brokers that name servers do not list."""
        return [name for name in self.drained if self.address_of(name) is None]

    @property
    def drained(self) -> Sequence[str]:
        """The brokers for which others stand in."""
        return () if self._moving is None else self._moving.stands.drained

    def _is_added(self, key: BrokerKey) -> bool:
        """Return whether a broker is an added one of this proxy; another one may be upstream."""
        return self._orders is not None and added_number(key.name) is not None

    def _note(self, brokers: Sequence[BrokerData]) -> None:
        left: dict[str, BrokerPort] = {}
        for lost in taken_over(self._ports, self.listed, brokers):
            left[lost.upstream] = lost
            self._move(lost, "")
        new: dict[BrokerKey, str] = {}
        now_s = trio.current_time()
        for broker in sorted(brokers, key=lambda one: one.broker_name):
            for broker_id, address in sorted(broker.broker_addrs.items()):
                key = BrokerKey(broker.broker_name, broker_id)
                port = self._ports.get(key)
                if port is not None and (not address or port.upstream == address):
                    continue
                if key in self._portless and now_s < self._portless[key][1]:
                    continue
                if address and not self._is_usable(key, address):
                    continue
                if port is None:
                    new[key] = address
                elif isinstance(port, BrokerPort):
                    left[port.upstream] = port
                    self._move(port, address)
        links = links_to_left(self._ports.values(), left) if left else ()
        if links:
            self._nursery.start_soon(end_in_turns, links)
        why = self._numbers.add(new) if new else ""
        for key, address in new.items():
            self._open(key, address, why)

    def _move(self, port: BrokerPort, address: str) -> None:
        port.moved_to(address)
        self._note_host(port)

    def _gets_none(self, key: BrokerKey, why: str) -> None:
        """Say once why a broker gets no port, or is not led to, and try again a while later."""
        before = self._portless.get(key)
        if before is None and len(self._portless) >= BROKERS_MAX:
            return  # said of so many
        if before is None or before[0] != why:
            LOGGER.error("broker %s %s", key, why)
        self._portless[key] = why, trio.current_time() + AGAIN_S

    def _note_host(self, port: BrokerPort) -> None:
        """Note an address that ids of messages may have."""
        if added_number(port.name) is not None or not port.upstream:
            return  # its broker has a port of its own, or is gone
        note_host(self._hosts, port, self._ports.values())

    def _is_usable(self, key: BrokerKey, address: str) -> bool:
        """Return whether an address is one, and none of this proxy's own."""
        try:
            HostAddress.parse(address)
        except RemoteProtocolError as error:
            self._gets_none(key, f"has no address that can be one: {error}")
            return False
        if address in self._own_addresses:
            self._gets_none(
                key,
                f"is said to be at {address}, which is this proxy: upstream names a proxy in place "
                "of the cluster's name servers",
            )
            return False
        return True

    def _open(self, key: BrokerKey, address: str, why: str) -> None:
        """Open the port of a broker; ``why`` its number could not be kept is empty if it was."""
        number = self._numbers.get(key)
        if number is None and not self._numbers.is_full:
            self._gets_none(key, f"gets no port: {why}")
            return
        base, bound = self._config.broker_port, self._config.bind_address
        at = base and base + PORT_STEP * (number or 0)
        if number is None or at > PORT_MAX:
            self._gets_none(
                key,
                f"gets no port: there are {BROKERS_MAX} brokers at most, and ports up to "
                f"{PORT_MAX}",
            )
            return
        try:
            if self._shared is None:
                listeners = list(listen_with_vip(bound, at))
            else:
                listeners = self._shared.listen(bound, at)
        except AddressUnavailable as error:
            self._gets_none(key, f"gets no port, until that is free: {error}")
            return
        except OSError as error:
            self._gets_none(key, f"gets no port: {error}")
            return
        seen = HostAddress(self._host, listeners[0].getsockname()[1])
        port = (
            self._added_port(key, seen) if self._is_added(key) else self._port(key, address, seen)
        )
        self._ports[key] = port
        if self._moving is not None and self._client is not None:
            port.ways = Ways(
                key,
                seen,
                hosts=self._hosts,
                counts=port.counts,
                start=port.start_link,
                behind=self._behind,
                members=self.members,
            )
            port.moved = MovedRequests(
                port,
                self._moving,
                self._client,
                self._rng,
                address=self.address_of,
                is_listed=lambda: key in self.listed,
            )
        self._portless.pop(key, None)
        self._own_addresses |= {str(seen)}
        self._nursery.start_soon(port.server.serve, listeners)
        where = address or ("brokers by topic" if self._is_added(key) else "no address, drained")
        LOGGER.info("broker %s at %s is seen at %s", key, where, seen)

    def close(self) -> None:
        """Leave ports to others that were shared; their servers have stopped."""
        if self._shared is not None:
            self._shared.close()

    def _port(self, key: BrokerKey, address: str, seen: HostAddress) -> BrokerPort:
        orders = self._orders
        port = BrokerPort(
            key.name,
            address,
            address=seen,
            nursery=self._nursery,
            dial=self._dial,
            limits=self._limits,
            budget=self._budget,
            tls=self._tls,
            hosts=self._hosts,
            queues=None if orders is None else PortQueues(orders, key.name, key.name),
        )
        if self._keys is not None and added_number(key.name) is None:
            self._keys.add_to(port.server.handlers)
        self._note_host(port)
        return port

    def _added_port(self, key: BrokerKey, seen: HostAddress) -> AddedPort:
        assert self._orders is not None, "a proxy that keeps orders"

        return AddedPort(
            key,
            address=seen,
            nursery=self._nursery,
            limits=self._limits,
            budget=self._budget,
            tls=self._tls,
            hosts=self._hosts,
            orders=self._orders,
            rng=self._rng,
            behind=self._behind,
            members=self.members,
        )

    def _behind(self, key: BrokerKey) -> BrokerPort | None:
        port = self._ports.get(key)
        return port if isinstance(port, BrokerPort) else None

    def let_move(self, moving: MovingQueues, client: RemotingClient) -> None:
        """Let queues move between brokers; before any port is open."""
        self._moving, self._client = moving, client

    def address_of(self, broker: str) -> str | None:
        """Return the address of a broker's master, if name servers list it."""
        key = BrokerKey(broker, MASTER_ID)
        port = self._behind(key)
        return port.upstream if port is not None and key in self.listed else None

    def masters(self) -> list[str]:
        """Return the names of the cluster's brokers that have a master."""
        names = sorted(key.name for key in self.listed if key.broker_id == MASTER_ID)
        return [name for name in names if added_number(name) is None and self.address_of(name)]

    def links_to(self, broker: str) -> Iterator[BrokerLink]:
        """Iterate over the links over which requests for a broker's queues may go."""
        for key, port in self._ports.items():
            if key.name == broker or isinstance(port, AddedPort):
                yield from port.all_links
