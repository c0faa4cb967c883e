"""APPEND_SUPERSEDED_MESSAGES: appends messages of a superseded segment to the open end of its
queue.

In its order, and once: the message queue is read from where it was left, each message names where
it was first, and after an interruption the end of the logical queue is searched for those names.
"""

from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.storage import ConfigInvalid, NewMessage, Store, disk_problem
from lanemq.wire import PullSysFlag, RemoteProtocolError, RequestCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import GetMaxOffset, PullMessage
from lanemq.wire.kv import kv_namespace
from lanemq.wire.logical import (
    AppendSuperseded,
    AppendSupersededResult,
    Segment,
    SegmentState,
)
from lanemq.wire.message import (
    StoredMessage,
    decode_message,
    decode_messages,
    decode_properties,
    set_property,
)

from ....logical.rules._refusals import refusal
from ....logical.rules._superseded import (
    ORIGIN_PROPERTY,
    SUPERSEDED_FILE,
    SUPERSEDED_MEMBER,
    Superseded,
    superseded_entries,
)
from ....net._dispatch import Handlers
from ....net._session import Session
from ....sessions.values._framed import QueueOffset
from ...cluster._peers import Peers
from ...state._stored_again import stored_again
from ..state._state import LogicalState
from ..state._view import ASK_S
from ..traffic._delivery import Deliveries
from ._requests import decoded

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

BATCH: Final = 32
"""Number of messages between two notes of the progress, and in one pull."""
GROUP: Final = "CID_RMQ_SYS_LANEMQ"
"""The group named in pulls; every broker lets it read."""


@final
class SupersededMessages:
    """The superseded messages of one broker, as kept on its disk."""

    def __init__(
        self,
        *,
        deliveries: Deliveries,
        logical: LogicalState,
        peers: Peers,
        store: Store,
        store_host: bytes,
    ) -> None:
        self._logical = logical
        self._peers = peers
        self._store = store
        self._store_host = store_host
        self._deliveries = deliveries
        self._document = store.document(SUPERSEDED_FILE)
        self._appending = trio.Lock()
        try:
            self._entries = superseded_entries(self._document.load(after_crash=True))
        except RemoteProtocolError as error:
            raise ConfigInvalid(f"{SUPERSEDED_FILE}: {error}") from error
        for entry in self._entries.values():
            self._tell(entry)

    async def note(self, sealed: Segment, end: int) -> None:
        """Note that messages from the end of ``sealed`` to ``end`` are cut off. Raises
        ``Refused``."""
        known = self._entries.get(sealed.key)
        if known is None:
            known = Superseded(sealed, end=end, done=sealed.offset_max)
        await self._keep(known)

    async def _keep(self, entry: Superseded) -> None:
        entries = self._entries | {entry.segment.key: entry}
        try:
            with trio.CancelScope(shield=True):
                self._document.write({SUPERSEDED_MEMBER: [e.to_json() for e in entries.values()]})
                await self._document.sync()
        except OSError as error:
            raise refusal(f"{SUPERSEDED_FILE} cannot be written: {disk_problem(error)}") from error
        self._entries = entries
        self._tell(entry)

    def _tell(self, entry: Superseded) -> None:
        """Keep an alarm as long as messages wait."""
        counters, segment = self._logical.counters, entry.segment
        counters.superseded[segment.key] = entry.count
        if not entry.count:
            counters.alarms.pop(segment.key, None)
            return
        if kv_namespace(segment.topic) is not None:
            self._logical.alarm(
                segment,
                f"{entry.count} operations on keys from {entry.done} on are in no log: "
                f"{segment.topic} went on without them. They are not done again, for others have "
                "been done since: put again what is missed; appendSupersededMessages for "
                f"{segment.topic} at {segment.broker_name} then appends none and ends this alarm",
            )
            return
        self._logical.alarm(
            segment,
            f"{entry.count} messages from {entry.done} on are in no logical queue: their offsets "
            f"were given out again. appendSupersededMessages at {segment.broker_name} appends "
            f"them to logical queue {segment.logical_index} of {segment.topic}",
        )

    async def append(self, topic: str | None) -> int:
        """Append the waiting messages of one topic or of all; returns how many that were.

        Operations on keys are left out: done last, they would undo what was done since. Where
        their topic is named, an operator has seen to them, and they are counted no more.

        Raises ``Refused`` where one cannot be appended; the same again goes on from there.
        """
        total = 0
        async with self._appending:
            for entry in list(self._entries.values()):
                if not entry.count or topic not in (None, entry.segment.topic):
                    continue
                if kv_namespace(entry.segment.topic) is None:
                    total += await self._append(entry)
                elif topic is not None:
                    await self._keep(entry.until(entry.end))
        return total

    async def _append(self, entry: Superseded) -> int:
        began = entry.count
        if entry.scan_from >= 0:
            entry = entry.until(await self._found(entry))
        else:
            entry = Superseded(entry.segment, entry.end, entry.done, await self._end(entry))
        await self._keep(entry)
        while entry.count:
            until = min(entry.done + BATCH, entry.end)
            for offset in range(entry.done, until):
                message = self._read(entry, offset)
                if message is not None and not await self._deliveries.at_end(
                    message, entry.segment.logical_index
                ):
                    raise refusal(
                        f"message {offset} of {entry.segment} was not taken at the queue's end: "
                        "call it again"
                    )
            entry = entry.until(until)
            await self._keep(entry)
        LOGGER.warning("%d messages behind %s were appended", began, entry.segment)
        return began

    def _read(self, entry: Superseded, queue_offset: int) -> NewMessage | None:
        """Read a message in the form to append; None where retention has taken it."""
        store, segment = self._store, entry.segment
        units = store.units(segment.topic, segment.queue_id, queue_offset, 1)
        record = store.record_at(units[0].log_position) if units else None
        if record is None or not units[0].has(record):
            LOGGER.error("message %d of %s is gone", queue_offset, segment)
            return None
        found = decode_message(record)
        origin = entry.origin(queue_offset).encode()
        return stored_again(
            found,
            segment.topic,
            segment.queue_id,
            properties=set_property(found.properties_data, ORIGIN_PROPERTY.encode(), origin),
            store_host=self._store_host,
        )

    # Left by an interrupted attempt

    def _open_end(self, entry: Superseded) -> Segment:
        segment = entry.segment
        mapping = self._logical.get(segment.topic)
        end = mapping.open_end(segment.logical_index) if mapping is not None else None
        if end is None or end.state is not SegmentState.NORMAL:
            raise refusal(f"logical queue {segment.logical_index} of {segment.topic} is not open")
        return end

    async def _end(self, entry: Superseded) -> int:
        """Return the logical offset behind the last message of the queue."""
        end = self._open_end(entry)
        header = GetMaxOffset(topic=end.topic, queue_id=end.queue_id)
        answer = await self._ask(end, request(RequestCode.GET_MAX_OFFSET, header.to_fields()))
        return end.to_logical(QueueOffset.read(answer).offset)

    async def _found(self, entry: Superseded) -> int:
        """Find the offset behind the last appended message, by the content of the queue."""
        mapping = self._logical.mappings[entry.segment.topic]
        self._open_end(entry)
        done = entry.done
        for segment in mapping.chain(entry.segment.logical_index).readable:
            end = segment.end_offset
            if end is not None and end <= entry.scan_from:
                continue
            offset = segment.to_physical(max(segment.delta, entry.scan_from))
            while messages := await self._pull(segment, offset):
                for message in messages:
                    text = decode_properties(message.properties_data).get(ORIGIN_PROPERTY, "")
                    at = entry.offset_of(text)
                    if at is not None and segment.keeps(message.queue_offset):
                        done = max(done, at + 1)
                offset = messages[-1].queue_offset + 1
        return done

    async def _pull(self, segment: Segment, queue_offset: int) -> list[StoredMessage]:
        if not segment.keeps(queue_offset):
            return []
        header = PullMessage(
            consumer_group=GROUP,
            topic=segment.topic,
            queue_id=segment.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=BATCH,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        answer = await self._ask(segment, request(RequestCode.PULL_MESSAGE, header.to_fields()))
        return decode_messages(answer.body, asked=BATCH) if answer.code == 0 else []

    async def _ask(self, segment: Segment, frame: Frame) -> Frame:
        peers = self._peers
        return await peers.call(segment.broker_name, segment.broker_address, frame, ASK_S)


def register(handlers: Handlers, messages: SupersededMessages) -> None:
    """Register APPEND_SUPERSEDED_MESSAGES, lanemq's own; its answer is the number of appended
    messages."""

    async def append(frame: Frame, session: Session) -> Frame:
        asked = decoded(AppendSuperseded, frame)
        appended = await messages.append(asked.topic)
        return frame.reply(body=AppendSupersededResult(appended).encode())

    handlers.add(RequestCode.APPEND_SUPERSEDED_MESSAGES, append)
