"""A broker's calls to other brokers and name servers.

A broker is asked at the address that the name servers give for its name: an address that was
written down with a segment may be that of an earlier machine.
Source: RocketMQ 5.0.0-PREVIEW, BrokerOuterAPI (forwardRequest), BrokerController (its cluster
info map).
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import BrokerUnreachable, LanemqError, RemotingClient, RequestTimedOut
from lanemq.wire import ProtocolError, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import MASTER_ID, BrokerData, ClusterInfo
from lanemq.wire.frame import Frame, request

from ...net._turns import read_answer
from ...sessions.values._shared import ANY_CODE
from ..settings._config import BrokerConfig

LOGGER = get_logger("lanemq.proxy.broker.peers", by_peers=True)

ADDRESSES_S: Final = 10.0
"""Seconds after which addresses are asked for again."""
RETRY_S: Final = 1.0
"""Seconds until the next question where no name server, or not the broker, answered."""
ADDRESSES_MAX: Final = 10_000
"""Most brokers whose addresses are kept, listed or not."""
NAME_SERVER_S: Final = 3.0
PATIENCE_S: Final = 0.5
"""Seconds for which name servers are waited for if an address is known: one that does not answer
holds up nobody."""


@final
class Peers:
    """Calls to others on behalf of the broker of ``config``; without ``client`` there are none."""

    def __init__(self, config: BrokerConfig, client: RemotingClient | None) -> None:
        self._config = config
        self._client = client
        self._addresses: dict[str, str] = {}
        self._fresh_until_s = -math.inf
        self._asking = trio.Lock()

    async def call(
        self, broker_name: str, fallback: str | None, frame: Frame, timeout_s: float
    ) -> Frame:
        """Ask a broker; any answer is returned. ``fallback`` is for an unknown name.

        Raises ``Refused`` (SYSTEM_ERROR) where there is no address, no connection or no answer.
        """
        address = await self.address(broker_name, fallback)
        assert self._client is not None, "an address is only known to one who can ask"
        try:
            return await self._client.call(address, frame, timeout_s, accept=ANY_CODE)
        except RequestTimedOut:
            remark = f"wait response from {address} timeout: {round(timeout_s * 1000)}ms"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None
        except LanemqError as error:
            raise self._unreachable(address, error) from error

    async def oneway(self, broker_name: str, fallback: str | None, frame: Frame) -> None:
        """Send a oneway request to a broker; errors as ``call``, as far as they show at once."""
        address = await self.address(broker_name, fallback)
        assert self._client is not None, "an address is only known to one who can ask"
        try:
            await self._client.oneway(address, frame)
        except LanemqError as error:
            raise self._unreachable(address, error) from error

    async def address(self, broker_name: str, fallback: str | None = None) -> str:
        """Return the address of the master of that name. Raises ``Refused`` (SYSTEM_ERROR)."""
        if broker_name not in self._addresses or trio.current_time() >= self._fresh_until_s:
            is_known = broker_name in self._addresses or bool(fallback)
            async with self._asking:
                if trio.current_time() >= self._fresh_until_s:
                    await self._refresh(PATIENCE_S if is_known else NAME_SERVER_S)
        address = self._addresses.get(broker_name) or fallback
        if not address or self._client is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"unknown brokerName {broker_name}")
        return address

    async def is_listed(self, broker_name: str) -> bool:
        """Return whether any name server that answers has a master of that name registered."""
        answers = await self.ask_name_servers(request(RequestCode.GET_BROKER_CLUSTER_INFO))
        for answer in answers:
            try:
                broker = (await read_brokers(answer)).get(broker_name)
            except ProtocolError:
                continue
            if broker is not None and MASTER_ID in broker.broker_addrs:
                return True
        return False

    async def ask_name_servers(self, frame: Frame, timeout_s: float = NAME_SERVER_S) -> list[Frame]:
        """Ask all name servers; return the answers that come in time, whatever their codes."""
        answers: list[Frame] = []

        async def ask(server: str) -> None:
            answer = await self.ask_name_server(server, frame, timeout_s)
            if answer is not None:
                answers.append(answer)

        async with trio.open_nursery() as nursery:
            for server in self.name_servers:
                nursery.start_soon(ask, server)
        return answers

    async def ask_name_server(
        self, server: str, frame: Frame, timeout_s: float = NAME_SERVER_S
    ) -> Frame | None:
        """Ask one name server; any answer is returned, None where none comes in time."""
        if self._client is None:
            return None
        try:
            return await self._client.call(server, frame, timeout_s, accept=ANY_CODE)
        except LanemqError as error:
            LOGGER.info("name server %s did not answer %d: %s", server, frame.code, error)
            return None

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The name servers that can be asked; none without a client."""
        return () if self._client is None else tuple(self._config.name_servers)

    def connection_number(self, server: str) -> int | None:
        """Return a number that only the present connection to a name server has."""
        return None if self._client is None else self._client.connection_number(server)

    async def _refresh(self, timeout_s: float) -> None:
        asked = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        answers = await self.ask_name_servers(asked, timeout_s)
        for answer in answers:
            try:
                brokers = await read_brokers(answer)
            except ProtocolError as error:
                LOGGER.warning("a name server's cluster info cannot be read: %s", error)
                continue
            if len(self._addresses) > ADDRESSES_MAX:
                self._addresses.clear()  # those that are listed come now
            for name, broker in brokers.items():
                master = broker.broker_addrs.get(MASTER_ID)
                if master:
                    self._addresses[name] = master
        self._fresh_until_s = trio.current_time() + (ADDRESSES_S if answers else RETRY_S)

    def _unreachable(self, address: str, error: LanemqError) -> Refused:
        # It may have come back at another address; but nobody asks more than once a second.
        self._fresh_until_s = min(self._fresh_until_s, trio.current_time() + RETRY_S)
        reason = error.reason if isinstance(error, BrokerUnreachable) else str(error)
        return Refused(ResponseCode.SYSTEM_ERROR, f"send request failed to {address}: {reason}")


async def read_brokers(answer: Frame) -> Mapping[str, BrokerData]:
    """Return the brokers that a name server lists. Raises ``ProtocolError``."""
    read = partial(ClusterInfo.decode, answer.body)
    return (await read_answer(len(answer.body), read)).broker_addr_table
