"""Requests to the brokers that hold a namespace: tried again, and understood."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeVar, final

import msgspec
import trio

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import request
from lanemq.wire.headers import Header, KvGet, KvStatus, KvWrite
from lanemq.wire.kv import (
    Entry,
    Moved,
    NamespaceStatus,
    OpType,
    WriteAnswer,
    decode_answer,
    decode_entry,
    encode_key,
    partition_of,
)

from ..._errors import BrokerUnreachable, LanemqError, NoRoute, RequestTimedOut
from ..._tasks import gather
from ...admin._client import AdminClient
from ...net._remoting import RemotingClient
from ._attempts import ATTEMPT_S, Attempts
from ._errors import KvRejected, NoNamespace, refusal
from ._holders import Holders
from ._writes import WriteWindows

T = TypeVar("T")
BUSY: Final = ResponseCode.SYSTEM_BUSY
TRIED_AGAIN: Final = frozenset({BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})
ANY_CODE: Final = range(1 << 31)
DENIALS_MAX: Final = 4
"""Answers that a broker does not have the namespace after which a write looks for it again."""

Chosen = Callable[[int], int]
"""Number of partitions -> the partition to ask."""


class OtherPartitions(Exception):  # noqa: N818 - it is not an error: the call begins again
    """The namespace has another number of partitions than was assumed."""


@final
class KvCalls:
    """Asks the holders of one namespace."""

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
        admin = AdminClient(client, name_servers, timeout_s=ATTEMPT_S)
        self.namespace = namespace
        self.holders = Holders(admin, namespace, broker)
        self.timeout_s = timeout_s
        self._windows = WriteWindows(namespace, client_id)

    def attempts(self, more_s: float = 0.0) -> Attempts:
        """Return the attempts of a new call."""
        return Attempts(trio.current_time() + self.timeout_s + more_s)

    def attempts_within(self, wait_s: float, later: trio.CancelScope) -> Attempts:
        """Return attempts for ``wait_s`` at most; ``later`` ends then, but not the first one."""
        return Attempts(trio.current_time() + min(wait_s, self.timeout_s), later)

    # Calls of one partition

    async def ask(
        self,
        key: bytes,
        code: RequestCode,
        header: Header,
        *,
        wait_s: float = 0.0,
        attempts: Attempts | None = None,
    ) -> bytes:
        """Ask the partition of a key until there is an answer; returns its body.

        The broker may wait for ``wait_s`` before it answers. A broker that cannot be reached or
        is busy is asked again, until ``timeout_s`` is over; then what was wrong the last time is
        raised.
        """
        attempts = attempts or self.attempts(wait_s)

        async def once(partitions: int) -> bytes:
            partition = partition_of(key, partitions)
            return await self.ask_at(
                partition, partitions, code, header, attempts=attempts, wait_s=wait_s
            )

        return await self.of_all(once, attempts)

    async def write(
        self, key: bytes, op_type: str, body: bytes, *, attempts: Attempts | None = None
    ) -> WriteAnswer:
        """Write to the partition of a key, once, however often it has to be tried."""
        chosen = partial(partition_of, key)
        return await self.write_chosen(chosen, op_type, body, attempts=attempts)

    async def write_chosen(
        self, chosen: Chosen, op_type: str, body: bytes, *, attempts: Attempts | None = None
    ) -> WriteAnswer:
        """Write to the partition that ``chosen`` says, which may raise ``KvRejected``."""
        found = await self.write_raw(chosen, op_type, body, attempts=attempts)
        return decode_answer(found, WriteAnswer)

    async def write_raw(
        self, chosen: Chosen, op_type: str, body: bytes, *, attempts: Attempts | None = None
    ) -> bytes:
        """Write as ``write_chosen``; returns the body of the answer."""
        attempts = attempts or self.attempts()

        async def once(partitions: int) -> bytes:
            try:
                partition = chosen(partitions)
            except KvRejected as error:
                await self.refuse(partitions, error)
            return await self.write_at(partition, partitions, op_type, body, attempts=attempts)

        return await self.of_all(once, attempts)

    async def sure_entry(self, key: bytes) -> Entry | None:
        """Return the entry of a key, None only where the holder of its partition has none.

        Raises as ``surely``.
        """
        header = KvGet(key=encode_key(key), namespace=self.namespace)
        read = partial(self.ask, key, RequestCode.KV_GET, header)
        return decode_entry(await self.surely(read))

    async def surely(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return what ``read`` returns; a missing namespace is created, and then read.

        ``NoNamespace`` says only that the broker which was asked is no holder: the namespace may
        be at one that is starting. Creation finds that out, and an existing namespace accepts it
        too. So only a later read tells what is in the namespace. Raises as ``read``, and
        ``NoNamespace`` if the namespace must not be created.
        """
        try:
            return await read()
        except NoNamespace:
            await self.create()
        return await read()

    async def create(self) -> None:
        """Have the namespace made, if it is missing. Raises ``NoNamespace`` if none may."""
        await self.write_chosen(lambda _: 0, OpType.CREATE, b"")

    # Calls of several

    async def of_all(
        self, ask: Callable[[int], Awaitable[T]], attempts: Attempts | None = None
    ) -> T:
        """Call ``ask`` with the number of partitions, again where that was not right."""
        attempts = attempts or self.attempts()
        while True:
            try:
                partitions = await attempts.look_up(self.holders.partitions)
            except (BrokerUnreachable, NoRoute, RequestTimedOut) as error:
                await attempts.pause(error)
                continue
            try:
                return await ask(partitions)
            except OtherPartitions:
                if not attempts.may_follow():
                    why = "brokers do not agree on the number of its partitions"
                    await attempts.pause(LanemqError(f"namespace {self.namespace!r}: {why}"))

    async def each(self, ask: Callable[[int, int, Attempts], Awaitable[T]]) -> list[T]:
        """Call ``ask`` for every partition at once; it gets its number, and how many there are."""
        attempts = self.attempts()

        async def once(partitions: int) -> list[T]:
            return await gather(
                [
                    partial(ask, partition, partitions, attempts.fork())
                    for partition in range(partitions)
                ]
            )

        return await self.of_all(once, attempts)

    async def sure_partitions(self) -> int:
        """Return the number of partitions as a broker says it."""
        if self.holders.is_sure:
            return await self.holders.partitions()
        attempts = self.attempts()
        await self.of_all(lambda known: self.status_at(0, known, attempts=attempts), attempts)
        return await self.holders.partitions()

    async def refuse(self, partitions: int, why: KvRejected) -> NoReturn:
        """Raise ``why``, which follows from the number of partitions, if that number is right."""
        await self.sure_partitions()
        if not self.holders.agree_on(partitions):
            raise OtherPartitions
        raise why

    # One partition, known by its number

    async def status_at(
        self, partition: int, partitions: int, *, attempts: Attempts
    ) -> NamespaceStatus:
        """Return a partition's numbers of entries and bytes, and its position."""
        header = KvStatus(self.namespace)
        code = RequestCode.KV_STATUS
        body = await self.ask_at(partition, partitions, code, header, attempts=attempts)
        found = decode_answer(body, list[NamespaceStatus])
        return next((one for one in found if one.partition == partition), found[0])

    async def write_at(
        self,
        partition: int,
        partitions: int,
        op_type: str,
        body: bytes,
        *,
        attempts: Attempts,
        create_at: str | None = None,
    ) -> bytes:
        """Write to one of ``partitions``, as ``ask_at``."""
        async with self._windows.numbered(op_type, partition, attempts) as header:
            code = RequestCode.KV_WRITE
            return await self.ask_at(
                partition, partitions, code, header, body, attempts=attempts, create_at=create_at
            )

    async def ask_at(
        self,
        partition: int,
        partitions: int,
        code: RequestCode,
        header: Header,
        body: bytes = b"",
        *,
        attempts: Attempts,
        wait_s: float = 0.0,
        create_at: str | None = None,
    ) -> bytes:
        """Ask the holder of one of ``partitions``; a write has it made at ``create_at``.

        A busy broker is asked again, but not to wait (``wait_s``): see ``changes_after``. Raises
        ``OtherPartitions`` where there is another number of them.
        """
        holders, denials = self.holders, 0
        while True:
            if not holders.agree_on(partitions):
                raise OtherPartitions
            error: LanemqError
            try:
                search = partial(holders.locate, partition, create_at=create_at)
                at = await attempts.look_up(search)
                placed: dict[str, Any] = {"partition": partition, "partitions": partitions}
                if isinstance(header, KvWrite):
                    placed["create_at"] = create_at or at.create_at
                fields = msgspec.structs.replace(header, **placed).to_fields()
                attempts.asked = True
                frame = request(code, fields, body=body)
                within_s = attempts.request_s(wait_s, len(body))
                answer = await self._client.call(at.address, frame, within_s, accept=ANY_CODE)
            except (BrokerUnreachable, NoRoute, RequestTimedOut) as unreachable:
                holders.forget(partition)
                error = unreachable
            else:
                if answer.code == ResponseCode.SUCCESS:
                    holders.answered(partition, at)
                    attempts.answered()
                    return answer.body
                error = refusal(answer, at.address, self.namespace)
                if answer.code == ResponseCode.KV_MOVED:
                    holders.moved(partition, decode_answer(answer.body, Moved))
                    if not holders.agree_on(partitions) or attempts.may_follow():
                        continue
                    holders.forget(partition)
                elif answer.code not in TRIED_AGAIN or (wait_s and answer.code == BUSY):
                    if answer.code == ResponseCode.KV_NAMESPACE_NOT_EXIST:
                        holders.denied(partition, at)  # another may have it by the next call
                        denials += 1
                        # A name server lists what was deleted for a moment longer.
                        if isinstance(header, KvWrite) and denials <= DENIALS_MAX:
                            await attempts.pause(error)
                            continue
                    raise error
            await attempts.pause(error)
