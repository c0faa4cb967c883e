"""Pulls from a logical queue: one segment at a time, with waits that go on in the next one.

A pull is passed on to the broker of the segment that holds the offset. What comes back is
turned into the queue's own numbers. What this process's broker has of its last segment is read
here at once. At the end of a sealed segment the broker holds the pull
until the queue goes on, and then sends the listener there.
"""

from collections.abc import Awaitable
from typing import Final, final

from attrs import define
from msgspec.structs import replace

from lanemq.wire import PullSysFlag, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import PullMessage
from lanemq.wire.logical import (
    READER_FIELD,
    SEGMENT_FIELD,
    Chain,
    CommitTo,
    Confirmed,
    GoesOn,
    Located,
    LookForReader,
    NothingYet,
    PullAsk,
    PullFrom,
    PullOutcome,
    PullReply,
    PullStep,
    ReaderAt,
    Redirected,
    Segment,
    Taken,
    translate,
)
from lanemq.wire.logical.translate import Numbers

from ....net._answers import Answer, Later, passed_on
from ....net._dispatch import Handlers
from ....net._session import Session
from ....net._turns import Steps, all_steps, step_by_step
from ....sessions.state._clients import ClientRegistry
from ....sessions.state._hold import HOLD_MAX_S
from ....sessions.values._pull_request import PullRequest, read_pull_request
from ....sessions.values._results import (
    Found,
    NotFound,
    is_redirect,
    redirect_in,
)
from ..brokers._brokers import Brokers
from ..brokers._routes import LogicalRoutes
from ..offsets._progress import ListenerProgress
from ..offsets._readers import Readers, is_in_doubt, places_of
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ..port._records import SeenRecords
from ._pull_answers import nothing_yet, numbers_of, placed, single

ANSWER_S: Final = 10.0
"""Seconds that a broker may take beyond the time for which it holds a pull."""

Code = ResponseCode
_PULL_CODES: Final = frozenset(
    {Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED}
)
NO_GROUP: Final = "the consumer's group info not exist"

Seen = Found | NotFound | Frame
"""The answer as clients of the listener see it; a frame is the refusal of another broker."""


@final
@define(eq=False, kw_only=True, repr=False)
class Pulls:
    """The pull handler of one port."""

    _brokers: Brokers
    _clients: ClientRegistry[Session]
    _progress: ListenerProgress
    _queues: SeenQueues
    _readers: Readers
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
            commit = CommitTo.of_reader(reader, committed, places)
            self._progress.commit_soon(asked.group, topic, index, commit)
        located = chain.locate(offset) if chain is not None else None
        own = self._brokers.quick(located.segment.broker_name) if located is not None else None
        if (
            chain is None
            or located is None
            or own is None
            or not located.is_legal
            or places.go_on_at(reader, offset, located.segment, chain) is not None
            or is_in_doubt(reader, offset, chain, session)
        ):
            return self._pull(index, asked, frame, session)
        segment, place = located.segment, located.queue_offset
        got = own.pulls.reads.of_open_segment(asked, session, segment, place)
        if got is not None:  # nearly always, unless the consumer has caught up
            places.note(reader, segment, segment.to_logical(got.next_offset))
            numbers = Numbers(
                segment.to_logical(got.next_offset),
                chain.min_offset,
                segment.to_logical(got.max_offset),
            )
            records = self._records.records_of(b"".join(got.records), segment)
            return Found(records, numbers, single(got.records))
        answer = own.pulls.direct(placed(asked, located), session)
        if isinstance(answer, Awaitable):
            return Later(answer, self._pull(index, asked, frame, session, (chain, answer)))
        if is_redirect(answer):
            return self._pull(index, asked, frame, session, (chain, answer))
        return all_steps(self._seen(asked, answer, segment, chain, frame, session))

    async def _find(self, topic: str, frame: Frame, session: Session) -> Seen:
        """Pull from a topic that is not known yet. Raises ``Refused`` where it is unknown."""
        await self._queues.view(topic)
        answer = self.pull(frame, session)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _pull(
        self,
        index: int,
        asked: PullRequest,
        frame: Frame,
        session: Session,
        begun: tuple[Chain, Answer | Awaitable[Answer]] | None = None,
    ) -> Seen:
        """Pull from where the offset is; ``begun`` is the chain by which this process's broker was
        asked already, and its answer."""
        topic, offset = asked.topic, asked.offset
        hold_s = min(asked.suspend_ms / 1000, HOLD_MAX_S) if asked.may_wait else 0.0
        reader = asked.group, topic, index
        if begun is None:
            _, chain = await self._queues.chain(topic, index)
            first: Answer | Awaitable[Answer] | None = None
        else:
            chain, first = begun
        conversation = PullFrom(reader, offset, places_of(session), looks_for_reader=True).steps(
            chain
        )
        try:
            step = next(conversation)
            while True:
                reply: PullReply
                match step:
                    case PullAsk(located):
                        answer = await self._answer(located, frame, asked, session, hold_s, first)
                        first, reply = None, Taken()
                        if is_redirect(answer):
                            await self._routes.redirected(topic, redirect_in(answer))
                            reply = Redirected((await self._queues.chain(topic, index))[1])
                    case PullStep.CONFIRM:
                        is_told = await self._routes.confirm(topic, index)
                        reply = Confirmed((await self._queues.chain(topic, index))[1], is_told)
                    case LookForReader(chain):
                        reply = ReaderAt(
                            await self._readers.goes_on_at(reader, offset, chain, session)
                        )
                step = conversation.send(reply)
        except StopIteration as end:
            outcome: PullOutcome = end.value
        match outcome:
            case PullAsk(located, chain):
                seen = self._seen(asked, answer, located.segment, chain, frame, session)
                return await step_by_step(seen)
            case GoesOn(begin, chain):
                return NotFound(*translate.passed_over(begin, offset, chain))
            case NothingYet(chain):
                return await nothing_yet(offset, chain, hold_s)

    async def _answer(
        self,
        located: Located,
        frame: Frame,
        asked: PullRequest,
        session: Session,
        hold_s: float,
        first: Answer | Awaitable[Answer] | None,
    ) -> Answer:
        """Return a broker's answer; ``first`` is that of this process's broker if it was asked."""
        if first is not None:
            return await first if isinstance(first, Awaitable) else first
        name, view = located.segment.broker_name, self._routes.get(asked.topic)
        return await self._brokers.ask(
            name,
            view.address(name) if view is not None else None,
            self._addressed(frame, located, asked),
            session,
            hold_s + ANSWER_S,
        )

    def _addressed(self, frame: Frame, located: Located, asked: PullRequest) -> Frame:
        """Make the request for a segment's queue; other brokers do not know the group's
        subscription."""
        segment = located.segment
        sys_flag = asked.sys_flag & ~PullSysFlag.COMMIT_OFFSET
        changed: dict[str, int | str] = {
            "queue_id": segment.queue_id,
            "queue_offset": located.queue_offset,
            "commit_offset": 0,
        }
        is_remote = self._brokers.quick(segment.broker_name) is None
        if is_remote and not sys_flag & PullSysFlag.SUBSCRIPTION:
            members = self._clients.consumer_group(asked.group)
            wanted = members.subscriptions.get(segment.topic) if members is not None else None
            if wanted is None:
                raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, NO_GROUP)
            sys_flag |= PullSysFlag.SUBSCRIPTION
            changed |= {
                "subscription": wanted.sub_string,
                "sub_version": wanted.sub_version,
                "expression_type": wanted.expression_type,
            }
        fields = PullMessage.rewritten(frame.fields, sys_flag=sys_flag, **changed)
        named = {READER_FIELD: "true", SEGMENT_FIELD: segment.meant}
        return replace(frame, fields=fields | named)

    def _seen(
        self,
        asked: PullRequest,
        answer: Answer,
        segment: Segment,
        chain: Chain,
        frame: Frame,
        session: Session,
    ) -> Steps[Seen]:
        """Translate a broker's answer for the client of the listener."""
        body, remark = b"", answer.remark if isinstance(answer, NotFound | Frame) else None
        kept = answer.kept if isinstance(answer, Found) else None
        match answer:
            case Found(body, told):
                code = int(Code.SUCCESS)
            case NotFound(code, told):
                pass
            case Frame(code=code) if code in _PULL_CODES:
                told, body = numbers_of(answer), answer.body
            case Frame():
                return passed_on(frame, answer)
            case _:
                raise AssertionError(f"{type(answer).__name__} is not an answer to a pull")
        if body and not segment.keeps(told.next_offset - 1):  # its broker has not heard of that yet
            body, kept = (yield from self._records.before_end(body, segment)), None
            code = code if body else int(Code.PULL_RETRY_IMMEDIATELY)
        code, numbers = translate.pulled(code, told, segment, asked.offset)
        reader = asked.group, segment.topic, segment.logical_index
        places_of(session).note(reader, segment, numbers.next_offset)
        numbers = translate.in_chain(numbers, chain)
        if code == Code.SUCCESS:
            return Found((yield from self._records.many_of(body, segment)), numbers, kept)
        return NotFound(Code(code), numbers, remark)


def register(handlers: Handlers, listener: ListenerContext, progress: ListenerProgress) -> None:
    """Register both pull codes."""
    clients = listener.host.clients
    pulls = Pulls(
        brokers=listener.brokers,
        clients=clients,
        progress=progress,
        queues=listener.queues,
        readers=Readers(clients=clients, progress=progress),
        records=listener.records,
        routes=listener.queues.routes,
    )
    handlers.add(RequestCode.PULL_MESSAGE, pulls.pull)
    handlers.add(RequestCode.LITE_PULL_MESSAGE, pulls.pull)
