"""The addresses of all brokers, as name servers list them, and as they did before they forgot."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.bodies import MASTER_ID, ClusterInfo
from lanemq.wire.frame import request

from ....net._turns import read_answer
from ._accounts import OwnAccount
from ._views import is_lasting

LOGGER = get_logger("lanemq.proxy.logical.listener", by_peers=True)

ASK_S: Final = 3.0
RETRY_S: Final = 1.0
"""Seconds for which a question that no name server answered is not repeated."""
PATIENCE_S: Final = 0.5
"""Seconds for which the answer is waited for if other brokers are known already."""
KEPT_S: Final = 3600.0
"""Seconds for which a broker is kept that name servers do not list: its messages may be there."""

TOLD_MAX: Final = 10_000
"""Most brokers that are kept, the last ones told."""


class _Told(NamedTuple):
    address: str
    told_s: float


@final
class BrokerAddresses:
    """Broker name -> address of the master, for every broker of the cluster."""

    def __init__(
        self, client: RemotingClient, name_servers: Iterable[str], own: OwnAccount | None
    ) -> None:
        self._client = client
        self._name_servers = tuple(name_servers)
        self._own = own
        self._told: dict[str, _Told] = {}
        self._answered_s: float | None = None
        self._failed_s: float | None = None
        self._listed: frozenset[str] = frozenset()

    def note(self, addresses: Mapping[str, str]) -> None:
        """Keep addresses that a name server has told with a route."""
        now_s = trio.current_time()
        self._told |= {name: _Told(address, now_s) for name, address in addresses.items()}
        if len(self._told) > TOLD_MAX:
            latest = sorted(self._told.items(), key=lambda item: item[1].told_s)[-TOLD_MAX:]
            self._told = dict(latest)

    async def ask(self) -> Mapping[str, str]:
        """Ask a name server; return its list, and what was listed or stored before it.

        A broker stays in the list until the answers have lacked it for ``KEPT_S``.
        """
        stored, own = self._stored(), self._own
        near = {own.broker_name: own.address} if own is not None else {}
        now_s = trio.current_time()
        if self._failed_s is None or now_s - self._failed_s >= RETRY_S:
            others = (self._told.keys() | stored.keys()) - near.keys()
            listed = await self._ask(PATIENCE_S if others else ASK_S)
            self._failed_s = trio.current_time() if listed is None else None
            if listed is not None:
                self._answered_s = trio.current_time()
                self._listed = frozenset(listed)
                self.note(listed)
        limit_s = (self._answered_s or 0.0) - KEPT_S
        self._told = {name: one for name, one in self._told.items() if one.told_s >= limit_s}
        return stored | {name: one.address for name, one in self._told.items()} | near

    async def are_listed(self) -> bool:
        """Return whether a name server lists all brokers that are known: one that has just started
        does not."""
        return (await self.ask()).keys() <= self._listed

    def _stored(self) -> dict[str, str]:
        """Return the addresses that this process's broker has on its disk."""
        known = self._own.known_queues() if self._own is not None else {}
        segments = (s for queues in known.values() for s in queues.segments)
        lasting = filter(is_lasting, segments)
        return {s.broker_name: s.broker_address for s in lasting if s.broker_address}

    async def _ask(self, timeout_s: float) -> dict[str, str] | None:
        frame = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        for server in self._name_servers:
            try:
                answer = await self._client.call(server, frame, timeout_s)
                return await read_answer(len(answer.body), partial(_masters, answer.body))
            except (LanemqError, RemoteProtocolError) as error:
                LOGGER.info("name server %s does not tell the brokers: %s", server, error)
                continue
        return None


def _masters(body: bytes) -> dict[str, str]:
    return {
        name: broker.broker_addrs[MASTER_ID]
        for name, broker in ClusterInfo.decode(body).broker_addr_table.items()
        if MASTER_ID in broker.broker_addrs
    }
