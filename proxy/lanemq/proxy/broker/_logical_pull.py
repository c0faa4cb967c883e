"""Pulls of clients that know logical queues, from message queues that are part of one.

All others read message queues as they are, whatever segments are on them.

Source: RocketMQ 5.0.0-PREVIEW, PullMessageProcessor.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, final

from lanemq.storage import GetStatus, Got
from lanemq.wire import Frame, ResponseCode, Version
from lanemq.wire.logical import (
    READER_FIELD,
    REDIRECT_FIELD,
    REDIRECT_VALUE,
    Redirect,
    Segment,
)

from .._reply_template import PULL_FIELDS
from ..logical import (
    EXCEEDS,
    REMOVED,
    GoOn,
    Read,
    TopicMapping,
    Wait,
    plan_read,
    redirect_from,
)
from ._logical_state import LogicalState

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

JAVA: Final = "JAVA"
BROKER_NAME_FIELD: Final = "bname"
"""Ext field of all clients since 4.9.5 but 5.0.0-PREVIEW's, whose version later ones have too."""

SCANS_MAX: Final = 16
"""Reads of the store for one pull that finds no message it wants in a sealed segment."""
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
"""What the store has from an offset on, up to a number of messages."""


class Found(NamedTuple):
    """What a segment has for a pull; nothing in it lies outside of the segment."""

    got: Got
    redirect: Redirect | None = None
    """Where to go on, if there was nothing."""


def is_aware(frame: Frame) -> bool:
    """Whether the client turns what it is given into offsets of a logical queue."""
    fields = frame.fields
    if fields.get(READER_FIELD) == "true":
        return True
    is_preview = frame.version == Version.V5_0_0 and frame.language == JAVA
    return is_preview and BROKER_NAME_FIELD not in fields


@final
class LogicalReads:
    """What pulls from segments get."""

    def __init__(self, logical: LogicalState) -> None:
        self._logical = logical
        self._kinds: dict[tuple[str, str], set[bool]] = {}

    def mapping(self, frame: Frame, topic: str, group: str) -> TopicMapping | None:
        """The mapping by which to answer; None for a client that reads queues as they are."""
        aware = is_aware(frame)
        self.note(topic, group, aware=aware)
        return self._logical.mappings[topic] if aware else None

    def note(self, topic: str, group: str, *, aware: bool) -> None:
        """Warn once of a group that has both kinds of members: each keeps offsets of its own."""
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
        self, mapping: TopicMapping, queue_id: int, queue_offset: int, max_count: int, get: Get
    ) -> Found | Wait | GoOn:
        """What a pull gets; ``get`` reads the message queue."""
        found = self._read(mapping, queue_id, queue_offset, max_count, get)
        if isinstance(found, GoOn) and found.redirect is not None:
            self._logical.counters.redirects += 1
        return found

    def _read(
        self, mapping: TopicMapping, queue_id: int, queue_offset: int, max_count: int, get: Get
    ) -> Found | Wait | GoOn:
        plan = plan_read(
            mapping, queue_id, queue_offset, max_count, is_removed=self._logical.is_removed
        )
        if plan is None:
            return Found(get(queue_offset, max_count))
        if not isinstance(plan, Read):
            return plan
        segment, got = plan.segment, get(queue_offset, plan.max_count)
        if got.records and not segment.is_sealed:  # nearly always, and nobody has to be sent on
            return Found(clamped(got, segment, queue_offset))
        redirect = redirect_from(mapping, segment)
        if not segment.is_sealed or redirect is None:
            return Found(clamped(got, segment, queue_offset), redirect)
        if got.status in BEYOND:  # a crash took the end of the segment
            return self._behind(segment, redirect, REMOVED)
        return self._scan(clamped(got, segment, queue_offset), segment, redirect, max_count, get)

    def _scan(
        self, found: Got, segment: Segment, redirect: Redirect, max_count: int, get: Get
    ) -> Found | GoOn:
        """Go on to the first message that is wanted: in a segment that others follow, a client
        takes an answer without any for an offset that does not exist.
        """
        scans = 1
        while not found.records and found.status in PASSED:
            offset = found.next_offset
            if offset >= segment.offset_max:
                return self._behind(segment, redirect, EXCEEDS)
            if scans == SCANS_MAX:
                # To a client, there is nothing new, and it asks again from here.
                return Found(
                    Got(GetStatus.OFFSET_FOUND_NULL, offset, found.min_offset, found.max_offset, [])
                )
            count = segment.clamp_count(offset, max_count)
            found, scans = clamped(get(offset, count), segment, offset), scans + 1
        return Found(found)

    @staticmethod
    def _behind(segment: Segment, redirect: Redirect, remark: str) -> GoOn:
        code = ResponseCode.PULL_RETRY_IMMEDIATELY
        return GoOn(code, remark, segment.offset_max, redirect)


def clamped(got: Got, segment: Segment, queue_offset: int) -> Got:
    """An answer of the store to a pull at ``queue_offset``, as far as it concerns ``segment``."""
    min_offset = segment.clamp_min(got.min_offset)
    max_offset = max(segment.clamp_max(got.max_offset), segment.offset_delta)
    next_offset, status, records = got.next_offset, got.status, got.records
    if status in BEYOND:
        next_offset = max_offset
        is_end = queue_offset == max_offset
        status = GetStatus.OFFSET_OVERFLOW_ONE if is_end else GetStatus.OFFSET_OVERFLOW_BADLY
    next_offset = max(next_offset, segment.offset_delta)
    if segment.is_sealed:
        end = segment.offset_max
        if records and got.next_offset > end:  # a filter lets a read go far
            records = [
                record for record in records if int.from_bytes(record[_QUEUE_OFFSET], "big") < end
            ]
            status = status if records else GetStatus.NO_MATCHED_MESSAGE
        min_offset, next_offset = min(min_offset, end), min(next_offset, end)
    return Got(status, next_offset, min_offset, max_offset, records)


def elsewhere(frame: Frame, plan: Wait | GoOn, queue_offset: int) -> Frame:
    """The answer to a pull without messages, that sends the client on or lets it wait.

    It has all four numbers: clients read them unasked.
    """
    redirect = None
    if isinstance(plan, GoOn):
        code, next_offset, redirect = plan.code, plan.next_offset, plan.redirect
    else:
        code, segment = ResponseCode.PULL_NOT_FOUND, plan.segment
        next_offset = segment.offset_max if segment.is_sealed else queue_offset
    answer = answered(frame, code, (0, next_offset, queue_offset, next_offset), redirect)
    return frame.reply(answer.code, answer.fields, answer.body, plan.remark)


def answered(
    frame: Frame,
    code: ResponseCode,
    numbers: tuple[int, int, int, int],
    redirect: Redirect | None,
) -> Frame:
    """An answer without messages. ``numbers``: as ``PULL_FIELDS``."""
    fields = dict(zip(PULL_FIELDS, map(str, numbers), strict=True))
    if redirect is None:
        return frame.reply(code, fields)
    return frame.reply(code, fields | {REDIRECT_FIELD: REDIRECT_VALUE}, redirect.encode())
