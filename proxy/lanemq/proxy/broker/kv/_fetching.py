"""The state of a partition, fetched from the broker that had it.

All rows come, page by page, the next one while the last is being written; they are compared with
the state's hash, and durable, in the database and as the partition's base, before anybody sees
them.
"""

from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.storage import KvStates, StoreError
from lanemq.storage.kv import BaseWriter, KvMeta, StateCopy
from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import KvState as KvStateHeader
from lanemq.wire.headers import KvStatus
from lanemq.wire.kv import (
    NamespaceStatus,
    StateRows,
    decode_answer,
    encode_key,
    parse_partition,
)
from lanemq.wire.logical import Segment

from ..cluster._peers import Peers

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
ASK_S: Final = 10.0
AT_ONCE_MAX: Final = 4
"""Partitions whose rows come at once, each with two pages in memory."""


@final
class StateFetcher:
    """Questions about partitions to the brokers that have, or had, their logs."""

    def __init__(self, *, peers: Peers, states: KvStates) -> None:
        self._peers = peers
        self._states = states
        self._at_once = trio.CapacityLimiter(AT_ONCE_MAX)

    async def take_over(self, name: str, before: Segment, meta: KvMeta) -> None:
        """Copy the state from the broker before. Raises ``Refused`` and the like: once more."""
        first: StateRows | None = await self._rows(name, before, meta.first, None)
        if not self._at_once.available_tokens:
            first = None  # there may be many, and each waits with it
        async with self._at_once:
            if first is None:
                first = await self._rows(name, before, meta.first, None)
            LOGGER.info("partition %s comes from %s", name, before.broker_name)
            await self._copy(name, before, first, meta)
        await self._states.catch_up()
        await self._states.flush()
        LOGGER.info("partition %s goes on here from record %d", name, meta.first)

    async def _copy(self, name: str, before: Segment, first: StateRows, meta: KvMeta) -> None:
        kept = self._states.kept
        async with kept.bases.writing(name) as base, kept.copying(name) as copy:
            failed: Exception | None = None
            async with trio.open_nursery() as nursery:
                send, receive = trio.open_memory_channel[StateRows | Exception](0)
                nursery.start_soon(self._fetch, name, before, first, send)
                try:
                    await self._write(copy, base, first, receive)
                except (OSError, StoreError, Refused, RemoteProtocolError) as error:
                    failed = error  # as it is, and not as one of a group
                    nursery.cancel_scope.cancel()
            if failed is not None:
                raise failed
            made = await base.finish()
            await kept.copied(name, copy, meta)
            await kept.bases.keep(base, made)

    async def _write(
        self,
        copy: StateCopy,
        base: BaseWriter,
        rows: StateRows,
        receive: trio.MemoryReceiveChannel[StateRows | Exception],
    ) -> None:
        """Write page after page. Raises what fetching or the disk raises."""
        copy.put(rows.rows)
        base.put(rows.rows)
        while rows.cursor is not None:
            if self._states.wants_flush:
                await self._states.flush()
            following = await receive.receive()
            if isinstance(following, Exception):
                raise following
            rows = following
            copy.put(rows.rows)
            base.put(rows.rows)

    async def _fetch(
        self,
        name: str,
        before: Segment,
        rows: StateRows,
        send: trio.MemorySendChannel[StateRows | Exception],
    ) -> None:
        """Fetch the pages behind ``rows``, one ahead of what is written here."""
        position = rows.position
        while rows.cursor is not None:
            cursor = rows.cursor
            try:
                rows = await self._rows(name, before, position, cursor)
                if rows.cursor is not None and rows.cursor <= cursor:
                    raise RemoteProtocolError(f"{before.broker_name}: its pages do not end")
            except (Refused, RemoteProtocolError) as error:
                await send.send(error)
                return
            await send.send(rows)

    async def _rows(
        self, name: str, before: Segment, position: int, cursor: bytes | None
    ) -> StateRows:
        namespace, partition = parse_partition(name)
        header = KvStateHeader(
            namespace=namespace,
            partition=partition,
            position=position,
            cursor=None if cursor is None else encode_key(cursor),
        )
        answer = await self._ask(before, RequestCode.KV_STATE, header.to_fields())
        return decode_answer(answer.body, StateRows)

    async def is_open_at(self, name: str, end: Segment, partitions: int) -> bool:
        """Return whether a partition of ``partitions`` takes reads and writes at its log's end."""
        namespace, partition = parse_partition(name)
        header = KvStatus(namespace=namespace, partition=partition, partitions=partitions)
        try:
            answer = await self._ask(end, RequestCode.KV_STATUS, header.to_fields())
            found = decode_answer(answer.body, list[NamespaceStatus])
        except (Refused, RemoteProtocolError):
            return False
        status = found[0] if len(found) == 1 else None
        if status is None:
            return False
        return status.is_open and not status.lost and status.position >= end.delta

    async def _ask(self, host: Segment, code: RequestCode, fields: dict[str, str]) -> Frame:
        asked, name = request(code, fields), host.broker_name
        try:
            answer = await self._peers.call(name, host.broker_address, asked, ASK_S)
        except Refused as error:
            raise Refused(error.code, f"{name}: {error.remark}") from error
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, f"{name}: {answer.remark}")
        return answer
