"""Pulls from a logical queue: one segment at a time, waiting across their boundaries.

A pull is passed on to the broker of the segment that holds the offset. What comes back is
turned into the queue's own numbers. What this process's broker has of its last segment is read
here at once. At the end of a sealed segment the broker holds the pull
until the queue goes on, and then sends the listener there.
"""

from collections.abc import Awaitable
from typing import Final, final

from msgspec.structs import replace

from lanemq.wire import (
    MASTER_ID,
    Frame,
    PullSysFlag,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
)
from lanemq.wire.logical import READER_FIELD, Chain, Located, Segment

from .._dispatch import Handlers
from .._reply_template import PULL_FIELDS, ReplyTemplate
from .._session import Session
from ._context import ROUNDS_MAX, ListenerContext, is_redirect
from ._progress import Progress

HOLD_MAX_S: Final = 300.0
ANSWER_S: Final = 10.0
"""What a broker may take beyond the time that it holds a pull."""

Code = ResponseCode
_PULL_CODES: Final = frozenset(
    {Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED}
)
Answer = Frame | bytes
NO_GROUP: Final = "the consumer's group info not exist"


@final
class Pulls:
    """The pull handler of one listener."""

    def __init__(self, listener: ListenerContext, progress: Progress) -> None:
        self._listener = listener
        self._progress = progress
        self._found = ReplyTemplate(PULL_FIELDS).encode

    def pull(self, frame: Frame, session: Session) -> Answer | Awaitable[Answer]:
        """Pass on. What the broker of this process has at once is answered at once."""
        listener, fields = self._listener, frame.fields
        try:
            topic, group = fields["topic"], fields["consumerGroup"]
            index, offset = int(fields["queueId"]), int(fields["queueOffset"])
            max_count, sys_flag = int(fields["maxMsgNums"]), int(fields["sysFlag"])
            if sys_flag & PullSysFlag.COMMIT_OFFSET:
                # A logical offset, which means nothing to the broker.
                self._progress.commit_soon(
                    group, topic, index, int(fields["commitOffset"]), session
                )
        except (KeyError, ValueError) as error:
            raise RemoteProtocolError(f"a pull lacks a field or a number: {error}") from None
        chain = listener.routes.chain(topic, index)
        located = chain.locate(offset) if chain is not None else None
        if (
            chain is None
            or located is None
            or not located.is_legal
            or not listener.brokers.is_own(located.segment.broker_name)
        ):
            return self._search(topic, index, offset, frame, session)
        segment = located.segment
        place = located.queue_offset
        got = listener.reads.of_open_segment(frame, session, segment, place, max_count)
        if got is not None:  # nearly always, unless the consumer has caught up
            values = (
                MASTER_ID,
                segment.to_logical(got.next_offset),
                chain.min_offset,
                segment.to_logical(got.max_offset),
            )
            return self._found(frame, values, listener.records_of(b"".join(got.records), segment))
        asked = self._addressed(frame, located, group, sys_flag)
        answer = listener.brokers.ask_own(asked, session)
        if not isinstance(answer, Frame):
            return self._finish(answer, located, chain, topic, index, offset, frame, session)
        if is_redirect(answer):
            return self._redirected(answer, topic, index, offset, frame, session)
        return self._translated(frame, answer, located.segment, chain, offset)

    async def _finish(
        self,
        under_way: Awaitable[Frame],
        located: Located,
        chain: Chain,
        topic: str,
        index: int,
        offset: int,
        frame: Frame,
        session: Session,
    ) -> Answer:
        answer = await under_way
        if is_redirect(answer):
            return await self._redirected(answer, topic, index, offset, frame, session)
        return self._translated(frame, answer, located.segment, chain, offset)

    async def _redirected(
        self, answer: Frame, topic: str, index: int, offset: int, frame: Frame, session: Session
    ) -> Answer:
        await self._listener.routes.redirected(topic, answer)
        return await self._search(topic, index, offset, frame, session)

    async def _search(
        self, topic: str, index: int, offset: int, frame: Frame, session: Session
    ) -> Answer:
        listener, fields = self._listener, frame.fields
        sys_flag = int(fields["sysFlag"])
        hold_s = 0.0
        if sys_flag & PullSysFlag.SUSPEND:
            wanted = fields.get("suspendTimeoutMillis", "0")
            hold_s = min(int(wanted) / 1000 if wanted.isdecimal() else 0.0, HOLD_MAX_S)
        for _ in range(ROUNDS_MAX):
            view, chain = await listener.chain(topic, index)
            located = chain.locate(offset)
            if located is None:  # all of it is gone, or nothing was ever there
                return _answer(frame, Code.PULL_NOT_FOUND, offset, chain)
            if not located.is_legal:
                return _elsewhere(frame, located, offset, chain)
            asked = self._addressed(frame, located, fields["consumerGroup"], sys_flag)
            answer = await listener.ask(
                view, located.segment.broker_name, asked, session, hold_s + ANSWER_S
            )
            if not is_redirect(answer):
                return self._translated(frame, answer, located.segment, chain, offset)
            await listener.routes.redirected(topic, answer)
        return _answer(frame, Code.PULL_NOT_FOUND, offset, chain)

    def _addressed(self, frame: Frame, located: Located, group: str, sys_flag: int) -> Frame:
        """The request for a segment's queue; other brokers do not know what the group wants."""
        segment = located.segment
        sys_flag &= ~PullSysFlag.COMMIT_OFFSET
        fields = {
            **frame.fields,
            "queueId": str(segment.queue_id),
            "queueOffset": str(located.queue_offset),
            "commitOffset": "0",
            READER_FIELD: "true",
        }
        if not sys_flag & PullSysFlag.SUBSCRIPTION and not self._listener.brokers.is_own(
            segment.broker_name
        ):
            members = self._listener.broker.clients.consumer_group(group)
            wanted = members.subscriptions.get(segment.topic) if members is not None else None
            if wanted is None:
                raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, NO_GROUP)
            sys_flag |= PullSysFlag.SUBSCRIPTION
            fields["subscription"] = wanted.sub_string
            fields["subVersion"] = str(wanted.sub_version)
            fields["expressionType"] = wanted.expression_type
        fields["sysFlag"] = str(sys_flag)
        return replace(frame, fields=fields)

    def _translated(
        self, asked: Frame, answer: Frame, segment: Segment, chain: Chain, offset: int
    ) -> Answer:
        if answer.code not in _PULL_CODES:
            return asked.reply(answer.code, dict(answer.fields), answer.body, answer.remark)
        code, next_offset = answer.code, _logical(answer, "nextBeginOffset", segment, offset)
        if code != Code.PULL_OFFSET_MOVED:
            next_offset = max(next_offset, offset)
        if code != Code.SUCCESS and next_offset == offset:
            code = Code.PULL_NOT_FOUND  # "at once again" would be for ever
        high = chain.end_offset
        if high is None:
            high = max(_logical(answer, "maxOffset", segment, offset), chain.known_end)
        values = MASTER_ID, next_offset, chain.min_offset, high
        if code == Code.SUCCESS:
            body = self._listener.records_of(answer.body, segment)
            return self._found(asked, values, body)
        fields = dict(zip(PULL_FIELDS, map(str, values), strict=True))
        return asked.reply(code, fields, b"", answer.remark)


def _logical(answer: Frame, field: str, segment: Segment, unknown: int) -> int:
    text = answer.fields.get(field, "")
    if not text.isdecimal():  # 5.0.0-PREVIEW says -1 where it has nothing better
        return unknown
    return segment.to_logical(max(segment.clamp_max(int(text)), segment.offset_delta))


def _elsewhere(asked: Frame, located: Located, offset: int, chain: Chain) -> Frame:
    """What is asked for is not there (any more).

    Over a gap between segments the client simply goes on: told that its offset is illegal, a
    push consumer would leave the queue alone for ten seconds.
    """
    is_gap = chain.min_offset <= offset < located.logical_offset
    code = Code.PULL_RETRY_IMMEDIATELY if is_gap else Code.PULL_OFFSET_MOVED
    return _answer(asked, code, located.logical_offset, chain)


def _answer(asked: Frame, code: ResponseCode, next_offset: int, chain: Chain) -> Frame:
    values = MASTER_ID, next_offset, chain.min_offset, max(chain.known_end, next_offset)
    return asked.reply(code, dict(zip(PULL_FIELDS, map(str, values), strict=True)))


def register(handlers: Handlers, listener: ListenerContext, progress: Progress) -> None:
    """Both pull codes."""
    pulls = Pulls(listener, progress)
    handlers.add(RequestCode.PULL_MESSAGE, pulls.pull)
    handlers.add(RequestCode.LITE_PULL_MESSAGE, pulls.pull)
