"""Pulls from a logical queue: one segment at a time, with waits that go on in the next one.

A pull is passed on to the broker of the segment that holds the offset. What comes back is
turned into the queue's own numbers. What this process's broker has of its last segment is read
here at once. At the end of a sealed segment the broker holds the pull
until the queue goes on, and then sends the listener there.
"""

from collections.abc import Awaitable
from typing import Final, final

import trio
from attrs import define
from msgspec.structs import replace

from lanemq.wire import PullSysFlag, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    NOTHING_READABLE_S,
    READER_FIELD,
    ROUNDS_MAX,
    SEGMENT_FIELD,
    Chain,
    GoOn,
    Located,
    PullWait,
    Segment,
    next_pull_step,
    translate,
)
from lanemq.wire.logical.translate import Numbers

from ....broker.handlers.pulls._parked import HOLD_MAX_S
from ....broker.handlers.pulls._reads import Reads
from ....broker.state._clients import ClientRegistry
from ....broker.values._pull_request import PullRequest, read_pull_request
from ....broker.values._results import (
    PULL_FIELDS,
    Found,
    NotFound,
    Pulled,
    is_redirect,
    redirect_in,
)
from ....net._answers import Answer, Later, passed_on
from ....net._dispatch import Handlers
from ....net._session import Session
from ....net._stored_reply import LARGE_BYTES
from ..brokers._brokers import Brokers
from ..brokers._routes import LogicalRoutes
from ..offsets._commits import reader_commit
from ..offsets._progress import Progress
from ..offsets._readers import Readers, is_in_doubt, places_of
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ..port._records import SeenRecords

ANSWER_S: Final = 10.0
"""Seconds that a broker may take beyond the time for which it holds a pull."""

Code = ResponseCode
_PULL_CODES: Final = frozenset(
    {Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED}
)
_NEXT, _MIN, _MAX = PULL_FIELDS[1:]
NO_GROUP: Final = "the consumer's group info not exist"

Seen = Found | NotFound | Frame
"""The answer as clients of the listener see it; a frame is the refusal of another broker."""


@final
@define(eq=False, kw_only=True, repr=False)
class Pulls:
    """The pull handler of one port."""

    _brokers: Brokers
    _clients: ClientRegistry[Session]
    _progress: Progress
    _queues: SeenQueues
    _readers: Readers
    _reads: Reads
    _records: SeenRecords
    _routes: LogicalRoutes

    def pull(self, frame: Frame, session: Session) -> Seen | Awaitable[Seen]:
        """Forward a pull; an answer that this process's broker has at once is sent at once."""
        asked = read_pull_request(frame)
        topic, offset = asked.topic, asked.offset
        index = self._queues.known_index(topic, asked.queue_id)
        if index is None:
            return self._find(topic, frame, session)
        chain = self._routes.chain(topic, index)
        reader, places = (asked.group, topic, index), places_of(session)
        if (committed := asked.commit_offset) is not None:  # logical: it means nothing to brokers
            commit = reader_commit(reader, committed, places)
            self._progress.commit_soon(asked.group, topic, index, commit)
        located = chain.locate(offset) if chain is not None else None
        if (
            chain is None
            or located is None
            or not located.is_legal
            or not self._brokers.is_own(located.segment.broker_name)
            or places.go_on_at(reader, offset, located.segment, chain) is not None
            or is_in_doubt(reader, offset, chain, session)
        ):
            return self._search(index, asked, frame, session)
        segment, place = located.segment, located.queue_offset
        got = self._reads.of_open_segment(asked, session, segment, place)
        if got is not None:  # nearly always, unless the consumer has caught up
            places.note(reader, segment, segment.to_logical(got.next_offset))
            numbers = Numbers(
                segment.to_logical(got.next_offset),
                chain.min_offset,
                segment.to_logical(got.max_offset),
            )
            return self._found(b"".join(got.records), numbers, segment, _single(got.records))
        answer = self._brokers.pull_own(_placed(asked, located), session)
        if isinstance(answer, Awaitable):
            rest = self._finish(answer, segment, chain, index, asked, frame, session)
            return Later(answer, rest)
        if is_redirect(answer):
            return self._redirected(answer, index, asked, frame, session)
        return self._seen(asked, answer, segment, chain, frame, session)

    async def _find(self, topic: str, frame: Frame, session: Session) -> Seen:
        """Pull from a topic that is not known yet. Raises ``Refused`` where it is unknown."""
        await self._queues.view(topic)
        answer = self.pull(frame, session)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _finish(
        self,
        under_way: Awaitable[Pulled],
        segment: Segment,
        chain: Chain,
        index: int,
        asked: PullRequest,
        frame: Frame,
        session: Session,
    ) -> Seen:
        answer = await under_way
        if is_redirect(answer):
            return await self._redirected(answer, index, asked, frame, session)
        return self._seen(asked, answer, segment, chain, frame, session)

    async def _redirected(
        self,
        answer: Answer,
        index: int,
        asked: PullRequest,
        frame: Frame,
        session: Session,
    ) -> Seen:
        await self._routes.redirected(asked.topic, redirect_in(answer))
        return await self._search(index, asked, frame, session)

    async def _search(self, index: int, asked: PullRequest, frame: Frame, session: Session) -> Seen:
        topic, offset = asked.topic, asked.offset
        hold_s = min(asked.suspend_ms / 1000, HOLD_MAX_S) if asked.may_wait else 0.0
        reader, places, is_told = (asked.group, topic, index), places_of(session), False
        for _ in range(ROUNDS_MAX):
            view, chain = await self._queues.chain(topic, index)
            step = next_pull_step(chain, reader, offset, places, is_confirmed=is_told)
            if step is not PullWait.NOTHING_READABLE:
                begin = await self._readers.goes_on_at(reader, offset, chain, session)
                step = step if begin is None else GoOn(begin)
            if step is PullWait.UNCONFIRMED:
                is_told = await self._routes.confirm(topic, index)
                if is_told:
                    continue
            match step:
                case PullWait():
                    return await _nothing_yet(offset, chain, hold_s)
                case GoOn(begin):
                    return NotFound(*translate.passed_over(begin, offset, chain))
            answer = await self._brokers.ask(
                name := step.segment.broker_name,
                view.address(name),
                self._addressed(frame, step, asked),
                session,
                hold_s + ANSWER_S,
            )
            if not is_redirect(answer):
                return self._seen(asked, answer, step.segment, chain, frame, session)
            await self._routes.redirected(topic, redirect_in(answer))
        return await _nothing_yet(offset, chain, hold_s)

    def _addressed(self, frame: Frame, located: Located, asked: PullRequest) -> Frame:
        """Make the request for a segment's queue; other brokers do not know the group's
        subscription."""
        segment = located.segment
        sys_flag = asked.sys_flag & ~PullSysFlag.COMMIT_OFFSET
        fields = {
            **frame.fields,
            "queueId": str(segment.queue_id),
            "queueOffset": str(located.queue_offset),
            "commitOffset": "0",
            READER_FIELD: "true",
            SEGMENT_FIELD: segment.meant,
        }
        if not sys_flag & PullSysFlag.SUBSCRIPTION and not self._brokers.is_own(
            segment.broker_name
        ):
            members = self._clients.consumer_group(asked.group)
            wanted = members.subscriptions.get(segment.topic) if members is not None else None
            if wanted is None:
                raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, NO_GROUP)
            sys_flag |= PullSysFlag.SUBSCRIPTION
            fields["subscription"] = wanted.sub_string
            fields["subVersion"] = str(wanted.sub_version)
            fields["expressionType"] = wanted.expression_type
        fields["sysFlag"] = str(sys_flag)
        return replace(frame, fields=fields)

    def _seen(
        self,
        asked: PullRequest,
        answer: Answer,
        segment: Segment,
        chain: Chain,
        frame: Frame,
        session: Session,
    ) -> Seen:
        """Translate a broker's answer for the client of the listener."""
        body, remark = b"", answer.remark if isinstance(answer, NotFound | Frame) else None
        kept = answer.kept if isinstance(answer, Found) else None
        match answer:
            case Found(body, told):
                code = int(Code.SUCCESS)
            case NotFound(code, told):
                pass
            case Frame(code=code) if code in _PULL_CODES:
                told, body = _told(answer), answer.body
            case Frame():
                return passed_on(frame, answer)
            case _:
                raise AssertionError(f"{type(answer).__name__} is not an answer to a pull")
        if body and not segment.keeps(told.next_offset - 1):  # its broker has not heard of that yet
            body, kept = self._records.before_end(body, segment), None
            code = code if body else int(Code.PULL_RETRY_IMMEDIATELY)
        code, numbers = translate.pulled(code, told, segment, asked.offset)
        reader = asked.group, segment.topic, segment.logical_index
        places_of(session).note(reader, segment, numbers.next_offset)
        numbers = translate.in_chain(numbers, chain)
        if code == Code.SUCCESS:
            return self._found(body, numbers, segment, kept)
        return NotFound(Code(code), numbers, remark)

    def _found(
        self, records: bytes, numbers: Numbers, segment: Segment, kept: bytes | None
    ) -> Found:
        return Found(self._records.records_of(records, segment), numbers, kept)


async def _nothing_yet(offset: int, chain: Chain, hold_s: float) -> NotFound:
    """Answer a pull that no broker can hold, after a part of the time for which it may wait.

    Clients ask again at once.
    """
    await trio.sleep(min(hold_s, NOTHING_READABLE_S))
    return NotFound(Code.PULL_NOT_FOUND, translate.nothing_at(offset, chain))


def _placed(asked: PullRequest, located: Located) -> PullRequest:
    """Make the pull of a segment's queue at this process's broker."""
    return replace(
        asked,
        queue_id=located.segment.queue_id,
        offset=located.queue_offset,
        sys_flag=asked.sys_flag & ~PullSysFlag.COMMIT_OFFSET,
        commit_offset=None,
        is_aware=True,
        meant=located.segment.meant,
    )


def _single(records: list[bytes]) -> bytes | None:
    """Return the only record, where it is a large one."""
    return records[0] if len(records) == 1 and len(records[0]) >= LARGE_BYTES else None


def _told(answer: Frame) -> Numbers:
    """Read another broker's answer; a number that it does not tell is -1."""
    texts = (answer.fields.get(field, "") for field in (_NEXT, _MIN, _MAX))
    return Numbers(*(int(text) if text.isdecimal() else -1 for text in texts))


def register(handlers: Handlers, listener: ListenerContext, progress: Progress) -> None:
    """Register both pull codes."""
    clients = listener.broker.clients
    pulls = Pulls(
        brokers=listener.brokers,
        clients=clients,
        progress=progress,
        queues=listener.queues,
        readers=Readers(clients=clients, progress=progress),
        reads=listener.reads,
        records=listener.records,
        routes=listener.queues.routes,
    )
    handlers.add(RequestCode.PULL_MESSAGE, pulls.pull)
    handlers.add(RequestCode.LITE_PULL_MESSAGE, pulls.pull)
