"""The ends of transactions: END_TRANSACTION (37), and RESUME_CHECK_HALF_MESSAGE (323).

An end stores the message for its queue, if it is a commit, and with it the op message that says
that the half message is done with. An end that comes later is refused, and nothing is stored for
it.

Source: RocketMQ 4.9.8, EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage. (It
takes every end for the first one.)
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, final

from attrs import define

from lanemq.local import get_logger
from lanemq.storage import NewMessage
from lanemq.wire import (
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    SysFlag,
    SystemTopic,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import EndTransaction, ResumeCheckHalfMessage
from lanemq.wire.message import Property, StoredMessage, decode_offset_id

from ...acl import Rights, produces_as, sends_to
from ...logical.rules._gate import SegmentClosed
from ...net._answers import answer_after
from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ...sessions.values._results import DONE, Done
from ...sessions.values._rights import RightsOf
from ...sessions.values._touched import HALVES, owner_of
from ...sessions.values._waiting import no_target, target_of
from ..context._context import BrokerContext
from ..logical.traffic._delivery import Deliveries
from ..state._recent_halves import RecentHalves
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ..timers._sends import TimedSends
from ..writing._flushes import Flushes
from ..writing._writer import Writer
from ._rules import (
    committed_at_hand,
    committed_message,
    group_of,
    origin_of,
    property_of,
    resumed_message,
)
from ._state import Fate
from ._table import HALF, HalfTable

LOGGER = get_logger("lanemq.proxy.broker.transactions", by_peers=True)

NOT_FOUND: Final = "Find prepared transaction message failed"
RESUME_FAILED: Final = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
ENDED_ALREADY: Final = "The transaction has ended already: this request has changed nothing"
ASIDE: Final = SystemTopic.TRANSACTION_CHECK_MAX_TIME
NOT_KNOWN: Final = 0
"""The state of a transaction whose producer does not know it yet."""


@final
class _Ended(NamedTuple):
    """A half message whose transaction ends."""

    offset: int
    """The message's offset in the half queue."""
    origin: int
    """The place that it had first."""
    message: NewMessage | str
    """The message that consumers get, or why there is none."""
    level: int = 0
    """The level of its delay; 0 without one."""


@final
@define(eq=False, kw_only=True, repr=False)
class Ends:
    """The handlers of one broker's ends of transactions."""

    _commit_all: Callable[[], Awaitable[None]]
    _deliveries: Deliveries
    _flushes: Flushes
    _statistics: BrokerStatistics
    _recent: RecentHalves
    _rights: RightsOf
    _table: HalfTable
    _timed: TimedSends
    _topics: Topics
    _writer: Writer

    def end(
        self, header: EndTransaction, frame: Frame, session: Session
    ) -> Done | Awaitable[Done | None] | None:
        """Commit or roll back; a request whose state is unknown gets no answer.

        The half message says which rights that takes: to its topic and to its group. Raises
        ``Refused``, with SYSTEM_ERROR where it is not a half message of the group, or no state, or
        where the transaction has ended already.
        """
        if header.commit_or_rollback == NOT_KNOWN:
            return None
        if header.commit_or_rollback not in (
            SysFlag.TRANSACTION_COMMIT,
            SysFlag.TRANSACTION_ROLLBACK,
        ):
            remark = f"commitOrRollback is {header.commit_or_rollback}, not an end of a transaction"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if not self._table.loaded.is_set():
            return self._once_loaded(header, frame, session)
        rights = self._rights(frame, session)
        ended = self._recently(header, rights) or self._read(header, rights)
        origin = ended.origin
        offset = self._table.halves.resolve(ended.offset, origin)
        if offset is None or offset in self._table.under_way:
            LOGGER.info("%s ends the transaction of %s again", session.peer, header.msg_id)
            raise Refused(ResponseCode.SYSTEM_ERROR, ENDED_ALREADY)
        message = ended.message
        if header.commit_or_rollback == SysFlag.TRANSACTION_ROLLBACK:
            is_open = self._table.halves.fate(offset) is Fate.OPEN  # else it was given up before
            given_up = message if is_open and not isinstance(message, str) else None
            return self._answered(frame, self._table.append_op(offset, origin, given_up).end)
        if isinstance(message, str):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"of the half message, {message}")
        try:
            self._append(message, ended.level)
        except SegmentClosed:
            return self._deliver(message, offset, origin, frame)
        return self._answered(frame, self._table.append_op(offset, origin).end)

    async def _once_loaded(
        self, header: EndTransaction, frame: Frame, session: Session
    ) -> Done | None:
        await self._table.loaded.wait()
        return await answer_after(self._commit_all, self.end(header, frame, session))

    def _recently(self, header: EndTransaction, rights: Rights) -> _Ended | None:
        """Return the half message that a request names, if it came a moment ago. Raises
        ``Refused`` for the lack of rights."""
        half = self._recent.find(header.commit_log_offset)
        if half is None:
            return None
        offset = half.put.queue_offset
        if offset != header.tran_state_table_offset or group_of(half) != header.producer_group:
            return None
        rights.require(sends_to(half.topic), produces_as(header.producer_group))
        self._recent.take(header.commit_log_offset)
        return _Ended(offset, offset, committed_at_hand(half))

    def _read(self, header: EndTransaction, rights: Rights) -> _Ended:
        """Return the half message that a request names, from the log. Raises ``Refused``."""
        half = self._half(header, rights)
        target, level = target_of(half), property_of(half, Property.DELAY) or "0"
        return _Ended(
            half.queue_offset,
            origin_of(half),
            no_target(half) if target is None else committed_message(half, *target),
            int(level) if level.isdecimal() else 0,
        )

    def _half(self, header: EndTransaction, rights: Rights) -> StoredMessage:
        """Return the half message that is named. Raises ``Refused``, for the lack of rights before
        anything is said about it."""
        half = self._table.message_at(header.commit_log_offset)
        problem: str | None = None
        if half is None or half.topic != HALF:
            raise Refused(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        group = property_of(half, Property.PGROUP)
        rights.require(sends_to(owner_of(half)), produces_as(group or header.producer_group))
        if group != header.producer_group:
            problem = "The producer group wrong"
        elif half.queue_offset != header.tran_state_table_offset:
            problem = "The transaction state table offset wrong"
        elif half.log_position != header.commit_log_offset:
            problem = "The commit log offset wrong"
        if problem is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, problem)
        return half

    def _append(self, message: NewMessage, level: int) -> None:
        """Append the committed message, after its delay if it has one."""
        if level > 0:
            put = self._writer.append_waiting(message, level)
        else:
            put = self._timed.append_again(message)
        self._statistics.put(message.topic, 1, put.size_bytes)

    async def _deliver(
        self, message: NewMessage, offset: int, origin: int, frame: Frame
    ) -> Done | None:
        """Deliver a committed message to where its logical queue has moved to."""
        self._table.under_way.add(offset)
        try:
            await self._deliveries.deliver([message])
            end = self._table.append_op(offset, origin, given_up=message).end
            await self._commit_all()
        finally:
            self._table.under_way.discard(offset)
        answer = self._answered(frame, end)
        return await answer if isinstance(answer, Awaitable) else answer

    def _answered(self, frame: Frame, end: int) -> Done | Awaitable[Done]:
        """Answer once the appended record is as safe as a send."""
        return DONE if frame.is_oneway else self._flushes.answered(DONE, end)

    def resume(self, header: ResumeCheckHalfMessage, frame: Frame, session: Session) -> Done:
        """Let a half message that was put aside be checked again, from the first time on.

        What comes of it reaches consumers, so it takes the rights of an end. Java's tools name
        the topic that it is for, or the one in which they found it. Raises ``Refused``.
        """
        try:
            _, position = decode_offset_id(header.msg_id or "")
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{RESUME_FAILED} {error}") from error
        discarded = self._table.message_at(position)
        if discarded is None or discarded.topic not in HALVES:
            remark = f"{RESUME_FAILED} No half message lies at {position}."
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        owner, group = owner_of(discarded), property_of(discarded, Property.PGROUP)
        members = () if group is None else (produces_as(group),)
        self._rights(frame, session).require(sends_to(owner), *members)
        if discarded.topic != ASIDE:
            remark = f"{RESUME_FAILED} The half message at {position} was not put aside."
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        if header.topic and header.topic not in (owner, ASIDE):
            remark = f"{RESUME_FAILED} The message at {position} is not one for {header.topic}."
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        target = target_of(discarded)
        if target is None:
            remark = f"{RESUME_FAILED} Of the message at {position}, {no_target(discarded)}."
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        self._topics.ensure(HALF, queues=1)
        self._writer.append_half_again(resumed_message(discarded), target[0])
        return DONE


def register(
    handlers: Handlers, broker: BrokerContext, *, deliveries: Deliveries, table: HalfTable
) -> None:
    """Register the requests by which transactions end, or are checked again."""
    ends = Ends(
        commit_all=broker.commit_all,
        statistics=broker.statistics,
        flushes=Flushes(broker.store),
        topics=broker.topics,
        writer=broker.writer,
        deliveries=deliveries,
        recent=broker.recent_halves,
        rights=broker.rights,
        table=table,
        timed=TimedSends.of(broker),
    )
    handlers.add(RequestCode.END_TRANSACTION, typed(EndTransaction, ends.end))
    handlers.add(RequestCode.RESUME_CHECK_HALF_MESSAGE, typed(ResumeCheckHalfMessage, ends.resume))
