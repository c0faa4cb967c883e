"""Requests to the broker that holds a namespace: found, tried again, and understood."""

from collections.abc import Sequence
from typing import Final, final

import msgspec
import trio

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import LONE_BROKER, OpType, WriteAnswer, decode_answer, kv_topic

from .._errors import BrokerUnreachable, LanemqError, NoRoute, RefusedByBroker, RequestTimedOut
from ..admin._caller import Header
from ..admin._client import AdminClient, chosen_address
from ..net._remoting import RemotingClient
from ._errors import (
    KvCompacted,
    KvNotSupported,
    KvRejected,
    KvStateLost,
    KvWriteForgotten,
    NoNamespace,
)

ATTEMPT_S: Final = 3.0
FIRST_PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0
OUTSTANDING_MAX: Final = 200
"""Writes under way at once, at most; a broker keeps the results of the latest 256."""
TRIED_AGAIN: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})
ANY_CODE: Final = range(1 << 31)


@final
class KvCalls:
    """Asks the holder of one namespace."""

    def __init__(
        self,
        client: RemotingClient,
        name_servers: Sequence[str],
        *,
        namespace: str,
        broker: str | None,
        client_id: str,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._admin = AdminClient(client, name_servers, timeout_s=ATTEMPT_S)
        self.namespace = namespace
        self._named = broker
        self._known: str | None = None
        """The broker that has answered for the namespace."""
        self._found = ""
        self._create_at: str | None = None
        self._client_id = client_id
        self.timeout_s = timeout_s
        self._address: str | None = None
        self._next = 1
        self._outstanding: dict[int, None] = {}
        self._freed = trio.Event()

    async def ask(
        self, code: RequestCode, header: Header, body: bytes = b"", *, wait_s: float = 0.0
    ) -> bytes:
        """Ask until there is an answer; returns its body.

        The broker may wait for ``wait_s`` before it answers. A broker that cannot be reached or
        is busy is asked again, until ``timeout_s`` is over; then what was wrong the last time is
        raised.
        """
        deadline_s = trio.current_time() + self.timeout_s + wait_s
        pause_s = FIRST_PAUSE_S
        while True:
            error: LanemqError
            try:
                address = await self._holder()
                if isinstance(header, KvWrite):
                    header = msgspec.structs.replace(header, create_at=self._create_at)
                frame = request(code, header.to_fields(), body=body)
                answer = await self._client.call(
                    address, frame, ATTEMPT_S + wait_s, accept=ANY_CODE
                )
            except (BrokerUnreachable, NoRoute, RequestTimedOut) as unreachable:
                self._address = None
                error = unreachable
            else:
                if answer.code == ResponseCode.SUCCESS:
                    self._known = self._found
                    return answer.body
                if answer.code == ResponseCode.KV_NAMESPACE_NOT_EXIST:
                    self._address = None  # another may have it by the next call
                error = self._error(answer, address)
                if answer.code not in TRIED_AGAIN:
                    raise error
            if trio.current_time() + pause_s >= deadline_s:
                raise error
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def write(self, op_type: str, body: bytes) -> WriteAnswer:
        """Write once, however often it has to be tried."""
        while self._outstanding and self._next - next(iter(self._outstanding)) >= OUTSTANDING_MAX:
            await self._freed.wait()
        sequence = self._next
        self._next += 1
        self._outstanding[sequence] = None
        try:
            header = KvWrite(
                op_type=op_type,
                namespace=self.namespace,
                client=self._client_id,
                sequence=sequence,
                waits=next(iter(self._outstanding)),
            )
            return decode_answer(await self.ask(RequestCode.KV_WRITE, header, body), WriteAnswer)
        finally:
            del self._outstanding[sequence]
            freed, self._freed = self._freed, trio.Event()
            freed.set()

    async def create(self) -> None:
        """Have the namespace made, if it is missing. Raises ``NoNamespace`` where nobody may."""
        await self.write(OpType.CREATE, b"")

    async def _holder(self) -> str:
        """Return the address of the broker that has the namespace, or may make it."""
        if self._address is None:
            self._address = await self._find()
        return self._address

    async def _find(self) -> str:
        cluster = (await self._admin.cluster()).broker_addr_table
        holders = await self._holders()
        self._create_at, name = None, self._named
        if name is not None and not holders:
            self._create_at = name
        elif name is not None and name not in holders:
            raise self._no_namespace(f"broker {holders[0]} has it, and not {name}")
        elif name is None and len(holders) > 1:
            raise self._no_namespace(
                f"there are several, at brokers {', '.join(holders)}: say which one is meant, "
                "with broker="
            )
        elif name is None and holders:
            name = holders[0]
        elif name is None and self._known is not None:
            name = self._known  # it is not registered now, and nobody else has what it has
        elif name is None:
            name, self._create_at = self._only(list(cluster)), LONE_BROKER
        broker = cluster.get(name)
        address = chosen_address(broker) if broker is not None else None
        if address is None:
            raise NoRoute(kv_topic(self.namespace), f"broker {name} is not registered now")
        self._found = name
        return address

    async def _holders(self) -> list[str]:
        """Return the names of the brokers that have the namespace, of those registered now."""
        try:
            route = await self._admin.route(kv_topic(self.namespace))
        except NoRoute:
            return []
        return sorted(broker.broker_name for broker in route.broker_datas)

    def _only(self, names: list[str]) -> str:
        if not names:
            raise NoRoute(kv_topic(self.namespace), "no broker is registered")
        if len(names) > 1:
            raise self._no_namespace(
                "no broker that is registered now has it. If none ever had, say which one is to "
                f"have it, with broker=, one of {', '.join(sorted(names))}"
            )
        return names[0]

    def _no_namespace(self, why: str) -> NoNamespace:
        return NoNamespace(self.namespace, why)

    def _error(self, answer: Frame, address: str) -> LanemqError:
        remark = answer.remark or ""
        match answer.code:
            case ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return KvNotSupported(address)
            case ResponseCode.KV_NAMESPACE_NOT_EXIST:
                return NoNamespace(self.namespace, remark)
            case ResponseCode.INVALID_PARAMETER:
                return KvRejected(remark)
            case ResponseCode.KV_COMPACTED:
                return KvCompacted(remark)
            case ResponseCode.KV_STATE_LOST:
                return KvStateLost(remark)
            case ResponseCode.KV_WRITE_FORGOTTEN:
                return KvWriteForgotten(remark)
        return RefusedByBroker(answer.code, answer.remark, address)
