"""KV_RANGE: entries from key to key, forward or back, counted, and at an earlier revision."""

from collections.abc import Awaitable
from functools import partial
from typing import final

from attrs import define

from lanemq.storage.kv import Compacted, KvState, RangeRead, Span
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvRange
from lanemq.wire.kv import RangePage

from ...net._page_turns import Turns
from ...net._session import Session
from ._checks import decoded_key
from ._readable import Readable
from ._result import KvResult


@final
@define(eq=False, kw_only=True, repr=False)
class Ranges:
    """Answers KV_RANGE."""

    _readable: Readable
    _turns: Turns

    def range(
        self, header: KvRange, frame: Frame, session: Session
    ) -> KvResult | Awaitable[KvResult]:
        """Answer a page; at an earlier revision after as many turns as its changes take."""
        span = Span(
            decoded_key(header.begin, "begin"),
            None if header.end is None else decoded_key(header.end, "end"),
            reverse=header.reverse,
            limit=header.limit,
            keys_only=header.keys_only,
            count_only=header.count_only,
        )
        self._check_revision(header, self._state(header))
        read = RangeRead(span, header.revision)
        if self._turns.is_free:
            page = self._turns.now(partial(self._page, header, read))
            if page is not None:
                return KvResult.of(page)
        return self._later(header, read, session)

    async def _later(self, header: KvRange, read: RangeRead, session: Session) -> KvResult:
        page = None
        while page is None:
            page = await self._turns.later(session, partial(self._page, header, read))
        return KvResult.of(page)

    def _page(self, header: KvRange, read: RangeRead, until_s: float) -> RangePage | None:
        state = self._state(header)
        log = self._readable.log(header.namespace, header.partition)
        try:
            return read.page(state, log, until_s)
        except Compacted as error:
            remark = f"revision {header.revision} of namespace {header.namespace}: {error}"
            raise Refused(ResponseCode.KV_COMPACTED, remark) from error
        except OSError as error:
            raise self._readable.unreadable(header.namespace, header.partition, error) from error

    def _check_revision(self, header: KvRange, state: KvState) -> None:
        revision = header.revision
        if revision is not None and not 0 <= revision <= state.meta.next:
            remark = (
                f"namespace {header.namespace} is at revision {state.meta.next}: there is no "
                f"revision {revision}"
            )
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)

    def _state(self, header: KvRange) -> KvState:
        return self._readable.find(header.namespace, header.partition, header.partitions)
