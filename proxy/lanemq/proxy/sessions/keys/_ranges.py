"""KV_RANGE: entries from key to key, forward or back, counted, and at an earlier revision."""

from collections.abc import Awaitable
from functools import partial
from typing import final

from attrs import define

from lanemq.storage.kv import Compacted, KvState, RangeRead, Span
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvRange
from lanemq.wire.kv import RangePage

from ...net._long_answer import LongAnswer
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
        if header.revision is not None:
            return self._past(header, span, session)
        return self._turns.read(session, partial(self._present, header, RangeRead(span)))

    async def _past(self, header: KvRange, span: Span, session: Session) -> KvResult:
        """Read at a revision: what is noted from turn to turn is charged to the peer, and a
        connection has one such read at a time."""
        async with LongAnswer.begin(session, RequestCode.KV_RANGE) as answer:
            read, page = RangeRead(span, header.revision), None
            while page is None:
                before_bytes = read.kept_bytes
                page = await self._turns.later(session, partial(self._page, header, read))
                answer.charge(read.kept_bytes - before_bytes)
        return KvResult.of(page)

    def _present(self, header: KvRange, read: RangeRead, until_s: float) -> KvResult:
        page = self._page(header, read, until_s)
        assert page is not None, "only reads of the past take several turns"
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
