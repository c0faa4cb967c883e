"""The requests for keys at the ports of a proxy, as at a broker's.

A read waits until the proxy has passed the end that the log had when it came; then the code of the
broker's keys answers it. A write is answered once it is applied. A client finds the proxy by the
claims in the name server's table: see ``KeyNamespaces.claims`` and ``claims_answer``.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias, final

import trio
from attrs import define, field

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import KVTable
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetKVListByNamespace,
    KvFollow,
    KvGet,
    KvLeases,
    KvMultiGet,
    KvRange,
    KvScan,
    KvStatus,
    KvWatch,
    KvWrite,
)
from lanemq.wire.kv import (
    CLAIMS_NAMESPACE,
    NamespaceStatus,
    OpType,
    partition_name,
)

from ...net._dispatch import Handlers, typed
from ...net._page_turns import Turns
from ...net._session import Session
from ...sessions.keys._checks import DURING_IMPORT, SHRINKING, checked_write
from ...sessions.keys._leases import LeaseReads
from ...sessions.keys._pages import Pages
from ...sessions.keys._ranges import Ranges
from ...sessions.keys._remarks import DELETED, IMPORTING
from ...sessions.keys._result import KvResult, add_encoder, result_of, status_of
from ...sessions.keys._snapshots import NEW
from ...sessions.keys._watches import Watches
from ._keys import UpstreamKeys
from ._log import PartitionLog
from ._namespaces import KeyNamespaces
from ._open_keys import OpenKeys, not_yet, partition_of_keys
from ._queue import TooLong

ANSWER_S: Final = 2.5
"""Seconds after which a request is answered with "not yet": clients wait for three, and ask
again."""
TICK_S: Final = 0.25
_Read: TypeAlias = KvGet | KvMultiGet | KvScan | KvRange | KvWatch | KvFollow | KvLeases
ASK_AGAIN: Final = "the write is not in the log yet ({}): ask again with the same sequence number"


@final
@define(eq=False, kw_only=True, repr=False)
class KeyRequests:
    """Answers requests for keys at all ports of a proxy; ``run`` is its task."""

    _namespaces: KeyNamespaces
    _broker_name: Callable[[], str]
    _now_s: Callable[[], float]
    _open: OpenKeys = field(init=False)
    _pages: Pages = field(init=False)
    _ranges: Ranges = field(init=False)
    _turns: Turns = field(init=False, factory=Turns)
    _watches: Watches = field(init=False)
    _lease_reads: LeaseReads = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._open = OpenKeys(self._namespaces)
        self._pages = Pages(now_s=self._now_s, readable=self._open, turns=self._turns)
        self._ranges = Ranges(readable=self._open, turns=self._turns)
        self._watches = Watches(readable=self._open, turns=self._turns)
        self._lease_reads = LeaseReads(
            now_ms=self._open.now_ms,
            readable=self._open,
            signer=lambda frame, session: "",  # a proxy has no accounts
            turns=self._turns,
        )
        self._namespaces.on_opened.append(self._opened)

    def _opened(self, keys: UpstreamKeys) -> None:
        for log in keys.logs:
            log.follower.on_news.append(partial(self._watches.wake, log.name))

    async def run(self) -> None:
        """Read pages in their turns, and give up snapshots that nobody reads, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._turns.run)
            try:
                while True:
                    await trio.sleep(TICK_S)
                    self._pages.snapshots.expire(self._now_s())
            finally:
                self._pages.snapshots.clear()

    def add_to(self, handlers: Handlers) -> None:
        """Register the requests at a port of a broker."""
        add_encoder(handlers)
        handlers.add(RequestCode.KV_WRITE, typed(KvWrite, self._write))
        handlers.add(RequestCode.KV_GET, typed(KvGet, self._get))
        handlers.add(RequestCode.KV_MULTI_GET, typed(KvMultiGet, self._multi_get))
        handlers.add(RequestCode.KV_SCAN, typed(KvScan, self._scan))
        handlers.add(RequestCode.KV_WATCH, typed(KvWatch, self._watch))
        handlers.add(RequestCode.KV_RANGE, typed(KvRange, self._range))
        handlers.add(RequestCode.KV_FOLLOW, typed(KvFollow, self._follow))
        handlers.add(RequestCode.KV_LEASES, typed(KvLeases, self._leases))
        handlers.add(RequestCode.KV_STATUS, typed(KvStatus, self._status))

    # Reads

    async def _get(self, header: KvGet, frame: Frame, session: Session) -> KvResult:
        await self._passed(header, session)
        return self._pages.get(header)

    async def _multi_get(self, header: KvMultiGet, frame: Frame, session: Session) -> KvResult:
        await self._passed(header, session)
        return await _result(self._pages.multi_get(header, frame, session))

    async def _scan(self, header: KvScan, frame: Frame, session: Session) -> KvResult:
        if header.snapshot in (None, NEW):
            await self._passed(header, session)
        return await _result(self._pages.scan(header, frame, session))

    async def _range(self, header: KvRange, frame: Frame, session: Session) -> KvResult:
        await self._passed(header, session)
        return await _result(self._ranges.range(header, frame, session))

    async def _watch(self, header: KvWatch, frame: Frame, session: Session) -> KvResult:
        await self._passed_by_position(header, session)
        return await _result(self._watches.watch(header, frame, session))

    async def _follow(self, header: KvFollow, frame: Frame, session: Session) -> KvResult:
        await self._passed_by_position(header, session)
        return await _result(self._watches.follow(header, frame, session))

    async def _passed_by_position(self, header: KvWatch | KvFollow, session: Session) -> None:
        """Wait only where another proxy is further than this one."""
        keys = await self._namespaces.open(header.namespace, host=session.peer.host)
        log = partition_of_keys(keys, header.namespace, header.partition, header.partitions)
        if header.position > log.state.meta.next:
            await self._passed(header, session)

    async def _leases(self, header: KvLeases, frame: Frame, session: Session) -> KvResult:
        await self._passed(header, session)
        return await _result(self._lease_reads.leases(header, frame, session))

    async def _passed(self, header: _Read, session: Session) -> None:
        """Wait until the proxy has applied all that was in the log when the call began."""
        keys = await self._namespaces.open(header.namespace, host=session.peer.host)
        log = partition_of_keys(keys, header.namespace, header.partition, header.partitions)
        if isinstance(header, (KvGet, KvMultiGet)) and header.consistency == "local":
            return
        with trio.move_on_after(ANSWER_S) as scope:
            await log.current()
        if scope.cancelled_caught:
            raise not_yet(log)

    async def _status(self, header: KvStatus, frame: Frame, session: Session) -> KvResult:
        if header.namespace is None:
            return KvResult.of(
                [
                    self._status_of(namespace, number)
                    for namespace, keys in sorted(self._namespaces.opened.items())
                    for number, log in enumerate(keys.logs)
                    if not log.state.meta.deleted
                ]
            )
        keys = await self._namespaces.open(header.namespace, host=session.peer.host)
        numbers = range(len(keys.logs))
        if header.partition is not None:
            partition_of_keys(keys, header.namespace, header.partition, header.partitions)
            numbers = range(header.partition, header.partition + 1)
        for number in numbers:
            with trio.move_on_after(ANSWER_S) as scope:
                await keys.logs[number].current()
            if scope.cancelled_caught:
                raise not_yet(keys.logs[number])
            self._open.log_of(header.namespace, number, len(keys.logs))
        return KvResult.of([self._status_of(header.namespace, number) for number in numbers])

    def _status_of(self, namespace: str, number: int) -> NamespaceStatus:
        logs = self._namespaces.opened[namespace].logs
        log = logs[number]
        return status_of(
            log.state,
            partition_name(namespace, number),
            partitions=len(logs),
            engine="memory",
            broker=self._broker_name(),
            is_open=log.follower.opened.is_set(),
            watchers=self._watches.waiting[partition_name(namespace, number)],
            end=log.follower.end,
        )

    # Writes

    async def _write(self, header: KvWrite, frame: Frame, session: Session) -> KvResult | None:
        checked = checked_write(header, frame.body)
        creates = header.create_at is not None
        partitions = header.partitions if creates else None
        host = session.peer.host
        keys = await self._namespaces.open(header.namespace, partitions=partitions, host=host)
        log = partition_of_keys(keys, header.namespace, header.partition, header.partitions)
        why = log.follower.why
        with trio.move_on_after(ANSWER_S) as scope:
            await log.follower.opened.wait()
            why = "its broker has not answered"
            if log.state.meta.deleted and creates:
                await log.begin_again()
            self._check(header, log)
            op_type = OpType.TICK if header.op_type == OpType.CREATE else header.op_type
            try:
                outcome = await log.write(
                    op_type,
                    frame.body,
                    key=checked.key,
                    lessor=checked.lessor("", session.peer.host),
                    client=header.client or "",
                    sequence=header.sequence or 0,
                    waits=header.waits or 0,
                )
            except TooLong as error:
                raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if scope.cancelled_caught:
            why = log.follower.why or why
            raise Refused(ResponseCode.SYSTEM_BUSY, ASK_AGAIN.format(why))
        result = result_of(partition_name(header.namespace, header.partition), outcome)
        if isinstance(result, Refused):
            raise result
        return result

    def _check(self, header: KvWrite, log: PartitionLog) -> None:
        """Check that the partition takes a write. Raises ``Refused``."""
        meta = log.state.meta
        if meta.deleted:
            remark = DELETED.format(header.namespace)
            raise Refused(ResponseCode.KV_NAMESPACE_NOT_EXIST, remark)
        if meta.importing and header.op_type not in DURING_IMPORT:
            raise Refused(ResponseCode.SYSTEM_BUSY, IMPORTING.format(header.namespace))
        reason = log.why_full()
        if reason and header.op_type not in SHRINKING:
            raise Refused(ResponseCode.SYSTEM_BUSY, f"no writes are taken now: {reason}")


async def _result(result: KvResult | Awaitable[KvResult]) -> KvResult:
    return result if isinstance(result, KvResult) else await result


def claims_answer(
    namespaces: KeyNamespaces, broker_name: str, header: GetKVListByNamespace, frame: Frame
) -> Frame | None:
    """Answer GET_KVLIST_BY_NAMESPACE (219) at a proxy's port for routes, where it asks for the
    claims of keys; None for any other table, which is the upstream name server's."""
    if header.namespace != CLAIMS_NAMESPACE:
        return None
    return frame.reply(body=KVTable(dict(namespaces.claims(broker_name))).encode())
