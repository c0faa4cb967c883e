"""Pulls of clients that know logical queues, from message queues that are part of one.

All others read message queues as they are, whatever segments are on them.

Source: RocketMQ 5.0.0-PREVIEW, PullMessageProcessor.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, final

from lanemq.local import get_logger
from lanemq.storage import GetStatus, Got
from lanemq.wire import ResponseCode
from lanemq.wire.logical import Redirect, Segment, SegmentState, translate
from lanemq.wire.logical.translate import Numbers

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._reading import (
    REMOVED,
    ContinueAt,
    LookAnew,
    Read,
    Wait,
    may_know,
    plan_read,
    redirect_from,
    to_the_end,
)
from ....net._session import Session
from ....sessions.values._pull_request import PullRequest
from ....sessions.values._results import Moved, NotFound
from ..state._state import LogicalState
from ._told import ToldReaders

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

SCANS_MAX: Final = 16
"""Most reads of the store for one pull that finds no wanted message in a sealed segment."""
GROUPS_MAX: Final = 10_000

BEYOND: Final = frozenset(
    {
        GetStatus.OFFSET_OVERFLOW_ONE,
        GetStatus.OFFSET_OVERFLOW_BADLY,
        GetStatus.NO_MESSAGE_IN_QUEUE,
        GetStatus.NO_MATCHED_LOGIC_QUEUE,
    }
)
PASSED: Final = frozenset(
    {
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.MESSAGE_WAS_REMOVING,
        GetStatus.OFFSET_FOUND_NULL,
    }
)
_QUEUE_OFFSET: Final = slice(20, 28)  # of a stored record

Get = Callable[[int, int], Got]
"""Reads up to a number of messages from the store, from an offset on."""


class InSegment(NamedTuple):
    """A segment's answer to a pull; nothing in it lies outside of the segment."""

    got: Got
    redirect: Redirect | None = None
    """The redirect to follow, if there was nothing."""


@final
class LogicalReads:
    """Reads of segments for pulls."""

    def __init__(self, logical: LogicalState) -> None:
        self._logical = logical
        self._kinds: dict[tuple[str, str], set[bool]] = {}

    def mapping(self, topic: str, group: str, *, aware: bool) -> TopicMapping | None:
        """Return the mapping by which to answer; None for a client that reads queues as they
        are."""
        self.note(topic, group, aware=aware)
        return self._logical.mappings[topic] if aware else None

    def note(self, topic: str, group: str, *, aware: bool) -> None:
        """Warn once of a group with both kinds of members, since each kind keeps its own
        offsets."""
        if len(self._kinds) >= GROUPS_MAX:
            self._kinds.clear()
        kinds = self._kinds.setdefault((topic, group), set())
        if aware not in kinds:
            kinds.add(aware)
            if len(kinds) > 1:
                LOGGER.warning(
                    "group %s reads %s by logical queues and by brokers' own queues as well: "
                    "each kind of its members will see all messages",
                    group,
                    topic,
                )

    def read(
        self,
        mapping: TopicMapping,
        asked: PullRequest,
        session: Session,
        max_count: int,
        get: Get,
    ) -> InSegment | Wait | ContinueAt | LookAnew:
        """Answer a pull; ``get`` reads the message queue."""
        found = self._read(mapping, asked, max_count, get)
        if isinstance(found, ContinueAt) and found.redirect is not None:
            self._logical.counters.redirects += 1
            if asked.meant is None:
                there = mapping.at(asked.queue_id, asked.offset)
                if there is not None:
                    before, *told = may_know(mapping, there, self._logical.is_new)
                    if told:
                        ToldReaders.of(session).note(asked, before, told)
        return found

    def _read(
        self, mapping: TopicMapping, asked: PullRequest, max_count: int, get: Get
    ) -> InSegment | Wait | ContinueAt | LookAnew:
        queue_offset, logical = asked.offset, self._logical
        plan = plan_read(
            mapping,
            asked.queue_id,
            queue_offset,
            max_count,
            is_removed=logical.is_removed,
            meant=asked.meant,
            is_new=logical.is_new,
        )
        if plan is None:
            return InSegment(get(queue_offset, max_count))
        if not isinstance(plan, Read):
            return plan
        segment, got = plan.segment, get(queue_offset, plan.max_count)
        if got.records and not segment.is_sealed:  # nearly always, and nobody has to be sent on
            return InSegment(clamped(got, segment, queue_offset))
        redirect = redirect_from(mapping, segment)
        if not segment.is_sealed or redirect is None:
            return InSegment(clamped(got, segment, queue_offset), redirect)
        if got.status in BEYOND and segment.state is not SegmentState.NORMAL:
            # A crash took the end of the segment.
            return to_the_end(segment, REMOVED)
        return self._scan(clamped(got, segment, queue_offset), segment, max_count, get)

    @staticmethod
    def _scan(found: Got, segment: Segment, max_count: int, get: Get) -> InSegment:
        """Scan for the first wanted message: in a segment that others follow, a client takes an
        answer without any for an offset that does not exist.
        """
        scans = 1
        while not found.records and found.status in PASSED:
            offset = found.next_offset
            if offset >= segment.offset_max or scans == SCANS_MAX:
                # To a client, there is nothing new, and it asks again from here; see to_the_end.
                return InSegment(
                    Got(GetStatus.OFFSET_FOUND_NULL, offset, found.min_offset, found.max_offset, [])
                )
            count = segment.clamp_count(offset, max_count)
            found, scans = clamped(get(offset, count), segment, offset), scans + 1
        return InSegment(found)


def clamped(got: Got, segment: Segment, queue_offset: int) -> Got:
    """Clamp the store's answer to a pull at ``queue_offset`` to ``segment``."""
    numbers = Numbers(got.next_offset, got.min_offset, got.max_offset)
    within = translate.within(numbers, segment)
    next_offset, max_offset = within.next_offset, within.max_offset
    status, records = got.status, got.records
    if status in BEYOND:
        next_offset = max_offset
        is_end = queue_offset == max_offset
        status = GetStatus.OFFSET_OVERFLOW_ONE if is_end else GetStatus.OFFSET_OVERFLOW_BADLY
    if records and segment.is_sealed and got.next_offset > segment.offset_max:
        end = segment.offset_max  # a filter lets a read go far
        records = [
            record for record in records if int.from_bytes(record[_QUEUE_OFFSET], "big") < end
        ]
        status = status if records else GetStatus.NO_MATCHED_MESSAGE
    return Got(status, next_offset, within.min_offset, max_offset, records)


def answer_without_read(plan: Wait | ContinueAt | LookAnew, queue_offset: int) -> NotFound | Moved:
    """Return an answer without messages, which sends the client on or lets it wait.

    It has all four numbers: clients read them unasked.
    """
    redirect = None
    if isinstance(plan, LookAnew):
        numbers = Numbers(queue_offset, queue_offset, queue_offset)
        return Moved(None, ResponseCode.PULL_RETRY_IMMEDIATELY, numbers, plan.remark)
    if isinstance(plan, ContinueAt):
        code, next_offset, redirect = plan.code, plan.next_offset, plan.redirect
    else:
        code, segment = ResponseCode.PULL_NOT_FOUND, plan.segment
        next_offset = segment.offset_max if segment.is_sealed else queue_offset
    numbers = Numbers(next_offset, queue_offset, next_offset)
    if redirect is None:
        return NotFound(code, numbers, plan.remark)
    return Moved(redirect, code, numbers, plan.remark)
