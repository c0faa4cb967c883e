"""Pulls: PULL_MESSAGE (11) and the same by another number, LITE_PULL_MESSAGE (361).

A pull is answered at once, or parked at the end of its queue (long polling) until a message
comes or its time is up. A parked one is run a second time, which then answers for certain.

Source: RocketMQ 4.9.8, PullMessageProcessor, PullRequestHoldService.
"""

import math
from typing import Final, final

import trio

from lanemq.storage import GetStatus
from lanemq.wire import (
    Frame,
    PullSysFlag,
    Refused,
    RequestCode,
    ResponseCode,
    SubscriptionGroupConfig,
    encode_frame,
    record_properties,
)
from lanemq.wire.headers import PullMessage

from .._dispatch import Handlers, failure
from .._reply_template import PULL_FIELDS, ReplyTemplate
from .._session import Session
from ..logical import Wait
from ._context import BrokerContext
from ._filter import Wanted
from ._hold import Hold
from ._logical_pull import Found, answered, elsewhere
from ._logical_state import waiting_queue
from ._old_readers import for_reader_all
from ._reads import BROADCASTING, Reads
from ._stages import ANY, Room, waiting_topic

HOLD_MAX_S: Final = 300.0
"""No pull is parked longer, whatever it asks for; clients ask for 15 to 20 s."""

MASTER_ID: Final = 0

EMPTY: Final = frozenset({GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE})
CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


@final
class Pulls:
    """The pull handlers of one broker."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._mappings = broker.logical.mappings
        self.reads = Reads(broker)
        # All four numbers belong into every one of these answers: clients read them unasked.
        self._replies = {
            code: ReplyTemplate(PULL_FIELDS, code=code).encode
            for code in (*CODES.values(), ResponseCode.PULL_OFFSET_MOVED)
        }
        self._wake = trio.Event()
        self._sleeps_until_s = math.inf
        self._stopping = False

    def stop(self) -> None:
        """Refuse every parked pull, and from now on each that would be parked.

        A client that is refused asks again three seconds later. One whose connection only
        breaks may wait for its own time-out: thirty seconds in Java's of 4.9.
        """
        self._stopping = True
        for hold in self._broker.holds.expire(math.inf):
            hold.owner.send(failure(hold.request, hold.owner, _stopping()))

    def pull(self, frame: Frame, session: Session) -> bytes | None:
        """Answer, or park and answer nothing yet."""
        return self._run(frame, session, may_park=True)

    def answer_held(self, hold: Hold[Session]) -> None:
        """Run a parked pull again, without parking and without its commit.

        It never raises: this runs while somebody else's messages are committed.
        """
        try:
            reply = self._run(hold.request, hold.owner, may_park=False)
            assert reply is not None
        except Exception as error:  # such as a group or topic that was taken away meanwhile
            hold.owner.send(failure(hold.request, hold.owner, error))
        else:
            hold.owner.send_bytes(reply)

    def arrived(self, topic: str, queue_id: int, max_offset: int, tags_code: int) -> None:
        """A message came into a queue; the store calls this while it commits."""
        broker = self._broker
        if broker.holds.waits_on(topic, queue_id):
            hurried = broker.holds.arrived(
                topic,
                queue_id,
                max_offset=max_offset,
                tags_code=tags_code,
                now_s=broker.now_s(),
                properties=lambda: self._properties(topic, queue_id, max_offset - 1),
            )
            if hurried:
                self._rearm()

    async def expire(self) -> None:
        """Answer the pulls whose time is up, for as long as the broker runs."""
        broker = self._broker
        while True:
            next_s = broker.holds.next_expiry_s()
            self._sleeps_until_s = next_s if next_s is not None else math.inf
            with trio.move_on_at(self._sleeps_until_s):
                await self._wake.wait()
            self._wake = trio.Event()
            for hold in broker.holds.expire(broker.now_s()):
                self.answer_held(hold)

    def _run(self, frame: Frame, session: Session, *, may_park: bool) -> bytes | None:
        broker, fields = self._broker, frame.fields
        try:
            group_name, topic = fields["consumerGroup"], fields["topic"]
            queue_id, offset = int(fields["queueId"]), int(fields["queueOffset"])
            max_count, sys_flag = int(fields["maxMsgNums"]), int(fields["sysFlag"])
        except (KeyError, ValueError):
            PullMessage.from_fields(fields)  # says which field it is
            raise
        group = self.reads.allowed(group_name, topic, queue_id, session)
        wanted = self.reads.wanted(fields, group, topic, sys_flag)
        mapping = None
        if topic in self._mappings:
            mapping = self.reads.logical.mapping(frame, topic, group_name)
        # Who reads logical queues gives a logical offset here, which this queue cannot keep.
        if may_park and sys_flag & PullSysFlag.COMMIT_OFFSET and mapping is None:
            broker.commit_offset(group_name, topic, queue_id, int(fields["commitOffset"]))
        if group.extra:  # as good as no group has any
            room = self._room(group, topic, queue_id, offset, wanted)
            if room.messages == 0:
                return self._closed(frame, session, room, may_park=may_park)
            if room.messages is not None:
                max_count = min(max_count, room.messages)
        redirect = None
        if mapping is None:
            got = self.reads.get(topic, queue_id, offset, max_count, wanted)
        else:
            found = self.reads.logical.read(
                mapping,
                queue_id,
                offset,
                max_count,
                lambda offset, count: self.reads.get(topic, queue_id, offset, count, wanted),
            )
            if not isinstance(found, Found):
                if may_park and sys_flag & PullSysFlag.SUSPEND and isinstance(found, Wait):
                    self._park(frame, session, waiting_queue(topic), queue_id, offset, Wanted())
                    return None
                broker.statistics.missed()
                return encode_frame(elsewhere(frame, found, offset))
            got, redirect = found
        if got.status in EMPTY:
            code = ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
        else:
            code = CODES[got.status]
        not_found = code is ResponseCode.PULL_NOT_FOUND
        if may_park and not_found and sys_flag & PullSysFlag.SUSPEND:
            self._park(frame, session, topic, queue_id, offset, wanted)
            return None
        records = for_reader_all(got.records, frame.version)
        if records:
            body = b"".join(records)
            broker.statistics.pulled(topic, group_name, len(records), len(body))
        else:
            body = b""
            broker.statistics.missed()
        values = (MASTER_ID, got.next_offset, got.min_offset, got.max_offset)
        if not_found and redirect is not None:
            return encode_frame(answered(frame, code, values, redirect))
        return self._replies[code](frame, values, body)

    def _room(
        self,
        group: SubscriptionGroupConfig,
        topic: str,
        queue_id: int,
        offset: int,
        wanted: Wanted,
    ) -> Room:
        """What the group's stages let the pull have; who broadcasts commits nothing here."""
        broker = self._broker
        members = broker.clients.consumer_group(group.group_name)
        if members is not None and members.message_model == BROADCASTING:
            return ANY
        return broker.stages.room(group, (group.group_name, topic, queue_id), offset, wanted)

    def _closed(
        self, frame: Frame, session: Session, room: Room, *, may_park: bool
    ) -> bytes | None:
        """Park a pull until the group commits what its next stage waits for."""
        broker, fields = self._broker, frame.fields
        topic, queue_id, offset = (
            fields["topic"],
            int(fields["queueId"]),
            int(fields["queueOffset"]),
        )
        if may_park and int(fields["sysFlag"]) & PullSysFlag.SUSPEND:
            waiting = waiting_topic(fields["consumerGroup"], topic)
            self._park(frame, session, waiting, queue_id, room.opens_at - 1, Wanted())
            return None
        broker.statistics.missed()
        offset = int(fields["queueOffset"])
        values = (MASTER_ID, offset, *broker.store.bounds(topic, queue_id))
        return self._replies[ResponseCode.PULL_NOT_FOUND](frame, values, b"")

    def _properties(self, topic: str, queue_id: int, queue_offset: int) -> bytes:
        """The property string of a message that is there."""
        store = self._broker.store
        (unit,) = store.units(topic, queue_id, queue_offset, 1)
        record = store.record_at(unit.log_position)
        assert record is not None
        return record_properties(record)

    def _park(
        self,
        frame: Frame,
        session: Session,
        topic: str,
        queue_id: int,
        offset: int,
        wanted: Wanted,
    ) -> None:
        broker, holds = self._broker, self._broker.holds
        if self._stopping:
            raise _stopping()
        if holds.is_full:
            remark = f"[OVERLOAD]{len(holds)} pulls are waiting already"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        if broker.config.long_polling_enable:
            timeout_ms = int(frame.fields.get("suspendTimeoutMillis", "0"))
        else:
            timeout_ms = broker.config.short_polling_time_mills
        hold = Hold(
            owner=session,
            request=frame,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            tag_codes=wanted.tag_codes,
            matches=wanted.matches,
            timeout_s=min(max(0.0, timeout_ms / 1000), HOLD_MAX_S),
        )
        now_s = broker.now_s()
        if holds.park(hold, now_s):
            session.on_close.append(holds.drop)
        self._rearm()

    def _rearm(self) -> None:
        """Wake ``expire`` where it would oversleep."""
        next_s = self._broker.holds.next_expiry_s()
        if next_s is not None and next_s < self._sleeps_until_s:
            self._wake.set()


def _stopping() -> Refused:
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping")


def register(handlers: Handlers, broker: BrokerContext) -> Pulls:
    """Both pull codes, and the waking of parked pulls when messages arrive."""
    pulls = Pulls(broker)
    handlers.add(RequestCode.PULL_MESSAGE, pulls.pull)
    handlers.add(RequestCode.LITE_PULL_MESSAGE, pulls.pull)
    broker.answer_held = pulls.answer_held
    broker.store.on_arrival.append(pulls.arrived)
    return pulls
