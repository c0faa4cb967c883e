"""Pulls: PULL_MESSAGE (11) and its twin LITE_PULL_MESSAGE (361).

A pull is answered at once, or parked at the end of its queue: see ``ParkedPulls``.

Source: RocketMQ 4.9.8, PullMessageProcessor.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, final

import trio
from attrs import define

from lanemq.storage import GetStatus, Store
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import SubscriptionGroupConfig
from lanemq.wire.frame import Frame
from lanemq.wire.logical.translate import Numbers

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._reading import Wait
from ....net._answers import Later
from ....net._dispatch import Handlers
from ....net._session import Session
from ....net._stored_reply import LARGE_BYTES
from ....sessions.state._clients import ClientRegistry
from ....sessions.state._hold import HOLD_MAX_S, Hold
from ....sessions.state._pull_filters import Wanted
from ....sessions.state._stages import ANY, GroupStages, Part, Room, waiting_topic
from ....sessions.values._pull_request import PullRequest, read_pull_request
from ....sessions.values._results import Found, Moved, NotFound, Pulled
from ....sessions.values._shared import CommitOffset
from ...context._context import BrokerContext
from ...logical.state._state import waiting_queue
from ...logical.traffic._pull import InSegment, LogicalReads, answer_without_read
from ...logical.traffic._stages import AskFirst, LogicalStages
from ...logical.traffic._told import ToldReaders
from ...state._stats import BrokerStatistics
from ._again import Again, Answering
from ._awaited_pulls import AwaitedPull
from ._old_readers import for_reader_all
from ._parked import Deliver, Parked, ParkedPulls
from ._reads import BROADCASTING, Reads

COMMITS_ASKED_S: Final = 0.5
"""Seconds between questions for a group's progress kept by another broker, while its stage
waits."""

FOUND: Final = GetStatus.FOUND
EMPTY: Final = frozenset({GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE})
CODES: Final = {
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


@final
@define(eq=False, kw_only=True, repr=False)
class Pulls:
    """The pulls from one broker."""

    _clients: ClientRegistry[Session]
    _commit_offset: CommitOffset
    _logical_stages: LogicalStages
    _mappings: Mapping[str, TopicMapping]
    _now_s: Callable[[], float]
    parked: ParkedPulls
    reads: Reads
    _stages: GroupStages
    _statistics: BrokerStatistics
    _store: Store

    # At the broker's port

    def pull(self, frame: Frame, session: Session) -> Pulled | Awaitable[Pulled | None] | None:
        """Answer a pull, or park it without an answer."""
        asked = read_pull_request(frame)
        if asked.is_aware and asked.meant is None:
            asked = ToldReaders.of(session).named(asked)
        try:
            result = self.read_now(asked, session, may_park=True, may_ask=True)
        except AskFirst as unknown:
            asking = self._asking(unknown, asked, session)
            return Later(asking, self._pull_later(asking, asked, frame, session))
        return self._answered(result, asked, frame, session)

    async def _pull_later(
        self,
        under_way: Awaitable[Pulled | Parked],
        asked: PullRequest,
        frame: Frame,
        session: Session,
    ) -> Pulled | None:
        return self._answered(await under_way, asked, frame, session)

    def _answered(
        self, result: Pulled | Parked, asked: PullRequest, frame: Frame, session: Session
    ) -> Pulled | None:
        if not isinstance(result, Parked):
            return result
        answering = Answering(session, frame)
        self.park(result, asked, session, answering, kept_bytes=frame.kept_bytes)
        return None

    # For anyone in the process

    def read(
        self, asked: PullRequest, session: Session
    ) -> Pulled | Parked | Awaitable[Pulled | Parked]:
        """Answer a pull, or say where to ``park`` it. Raises ``Refused``."""
        try:
            return self.read_now(asked, session, may_park=True, may_ask=True)
        except AskFirst as unknown:
            return self._asking(unknown, asked, session)

    def park(
        self,
        parked: Parked,
        asked: PullRequest,
        session: Session,
        deliver: Deliver,
        *,
        kept_bytes: int = 0,
    ) -> Hold[Session]:
        """Keep a pull that ``read`` has not answered; as ``ParkedPulls.park``."""
        again = Again(self, asked, session)
        return self.parked.park(parked, asked, session, again, deliver, kept_bytes=kept_bytes)

    def direct(self, asked: PullRequest, session: Session) -> Pulled | Awaitable[Pulled]:
        """Pull for a caller in the process; the result is there at once unless it has to wait.

        A parked pull ends with the client's session. Raises ``Refused``.
        """
        result = self.read(asked, session)
        if isinstance(result, Awaitable):
            return Later(result, self._direct_later(result, asked, session))
        return self._awaited(result, asked, session) if isinstance(result, Parked) else result

    async def _direct_later(
        self, under_way: Awaitable[Pulled | Parked], asked: PullRequest, session: Session
    ) -> Pulled:
        result = await under_way
        return await self._awaited(result, asked, session) if isinstance(result, Parked) else result

    def _awaited(self, parked: Parked, asked: PullRequest, session: Session) -> AwaitedPull:
        return AwaitedPull(self.parked, partial(self.park, parked, asked, session))

    async def _asking(
        self, unknown: AskFirst, asked: PullRequest, session: Session
    ) -> Pulled | Parked:
        """Answer once other brokers have told the progress of a group with stages."""
        patience_s = min(asked.suspend_ms / 1000, HOLD_MAX_S) if asked.may_wait else 0
        until_s = self._now_s() + patience_s
        is_elsewhere = unknown.segment.is_sealed
        while True:
            await self._logical_stages.learn(unknown)
            if not is_elsewhere:
                return self.read_now(asked, session, may_park=True)
            if not self._is_closed(asked, session):
                return self.read_now(asked, session, may_park=True)
            if self._now_s() >= until_s:
                return self.read_now(asked, session, may_park=False)
            await trio.sleep(COMMITS_ASKED_S)

    def _is_closed(self, asked: PullRequest, session: Session) -> bool:
        """Return whether stages let the pull have nothing just now."""
        group = self.reads.allowed(asked.group, asked.topic, asked.queue_id, session)
        wanted = self.reads.wanted(asked, group, session)
        mapping = self._mappings.get(asked.topic)
        return self._room(group, asked, wanted, mapping)[0].messages == 0

    # Reading

    def read_now(
        self, asked: PullRequest, session: Session, *, may_park: bool, may_ask: bool = False
    ) -> Pulled | Parked:
        """Answer a pull, or say where to park it. Raises ``Refused`` and ``AskFirst``."""
        topic, queue_id = asked.topic, asked.queue_id
        offset, max_count = asked.offset, asked.max_count
        group = self.reads.allowed(asked.group, topic, queue_id, session)
        wanted = self.reads.wanted(asked, group, session)
        mapping = None
        if topic in self._mappings:
            mapping = self.reads.logical.mapping(topic, asked.group, aware=asked.is_aware)
        # Readers of logical queues send a logical offset here, which this queue cannot keep.
        if may_park and asked.commit_offset is not None and mapping is None:
            self._commit_offset(asked.group, topic, queue_id, asked.commit_offset)
        if group.extra:  # hardly any group has extra fields
            room, part = self._room(group, asked, wanted, mapping, may_ask=may_ask)
            if room.messages == 0:
                return self._closed(asked, room, part, may_park=may_park)
            if room.messages is not None:
                max_count = min(max_count, room.messages)
        redirect = None
        if mapping is None:
            if may_park:  # else it was noted when it came
                self._statistics.asked_from(topic, asked.group, queue_id, offset)
            got = self.reads.get(topic, queue_id, offset, max_count, wanted)
        else:
            found = self.reads.logical.read(
                mapping,
                asked,
                session,
                max_count,
                lambda offset, count: self.reads.get(topic, queue_id, offset, count, wanted),
            )
            if not isinstance(found, InSegment):
                if may_park and asked.may_wait and isinstance(found, Wait):
                    return Parked(waiting_queue(topic), queue_id, offset, Wanted())
                self._statistics.missed()
                return answer_without_read(found, offset)
            got, redirect = found
        numbers = Numbers(got.next_offset, got.min_offset, got.max_offset)
        if got.status is FOUND:
            return self._found(asked, got.records, numbers)
        if got.status in EMPTY:
            code = ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
        else:
            code = CODES[got.status]
        not_found = code is ResponseCode.PULL_NOT_FOUND
        is_at_end = got.next_offset <= offset  # else it is told where to continue, behind a gap
        if may_park and not_found and is_at_end and asked.may_wait:
            return Parked(topic, queue_id, offset, wanted)
        self._statistics.missed()
        if not_found and redirect is not None:
            return Moved(redirect, code, numbers)
        return NotFound(code, numbers)

    def _found(self, asked: PullRequest, stored: list[bytes], numbers: Numbers) -> Found:
        records = for_reader_all(stored, asked.version)
        body = b"".join(records)
        self._statistics.pulled(asked.topic, asked.group, len(records), len(body))
        is_large = len(records) == 1 and len(body) >= LARGE_BYTES
        return Found(body, numbers, stored[0] if is_large else None)

    def _room(
        self,
        group: SubscriptionGroupConfig,
        asked: PullRequest,
        wanted: Wanted,
        mapping: TopicMapping | None,
        *,
        may_ask: bool = False,
    ) -> tuple[Room, Part]:
        """Return what the group's stages let the pull have, and of which part. A broadcasting group
        commits nothing here. With ``mapping`` a logical queue is read; then as
        ``LogicalStages.part``.
        """
        name = group.group_name
        members = self._clients.consumer_group(name)
        if members is not None and members.message_model == BROADCASTING:
            return ANY, Part.whole(name, asked.topic, asked.queue_id)
        if mapping is None:
            part = Part.whole(name, asked.topic, asked.queue_id)
        else:
            part = self._logical_stages.part(
                group, mapping, asked.queue_id, asked.offset, may_ask=may_ask
            )
        return self._stages.room(group, part, asked.offset, wanted), part

    def _closed(
        self, asked: PullRequest, room: Room, part: Part, *, may_park: bool
    ) -> NotFound | Parked:
        """Park a pull until the next stage opens; have it repeated while that is counted."""
        if may_park and asked.may_wait and not room.is_counting:
            waiting = waiting_topic(*part.key[:2])
            return Parked(waiting, part.key[2], room.opens_at - 1, Wanted())
        self._statistics.missed()
        numbers = Numbers(asked.offset, *self._store.bounds(asked.topic, asked.queue_id))
        again, nothing = ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_NOT_FOUND
        return NotFound(again if room.is_counting else nothing, numbers)


def register(handlers: Handlers, broker: BrokerContext) -> Pulls:
    """Register both pull codes, and look at parked pulls when messages arrive."""
    parked = ParkedPulls(
        config=broker.config, holds=broker.holds, now_s=broker.now_s, store=broker.store
    )
    reads = Reads(
        address=broker.address,
        clients=broker.clients,
        config=broker.config,
        groups=broker.groups,
        logical=LogicalReads(broker.logical),
        mappings=broker.logical.mappings,
        statistics=broker.statistics,
        store=broker.store,
        topics=broker.topics,
    )
    pulls = Pulls(
        clients=broker.clients,
        commit_offset=broker.commit_beside,
        logical_stages=LogicalStages.of(broker),
        mappings=broker.logical.mappings,
        now_s=broker.now_s,
        parked=parked,
        reads=reads,
        stages=broker.stages,
        statistics=broker.statistics,
        store=broker.store,
    )
    handlers.add(RequestCode.PULL_MESSAGE, pulls.pull)
    handlers.add(RequestCode.LITE_PULL_MESSAGE, pulls.pull)
    broker.store.on_arrival.append(parked.arrived)
    return pulls
