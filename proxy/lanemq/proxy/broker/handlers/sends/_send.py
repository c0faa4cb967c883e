"""Sends: SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

This is the busiest path of a broker. An ordinary message goes from the fields of its request
straight into the store: no header object, no table of its properties, and an answer from a
template. Whatever is out of the ordinary (an unknown topic, a delay, a timer, a retry, a half
message) takes the slow way (``_send_special``).

Source: RocketMQ 4.9.8, SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Self, final

from attrs import define, field

from lanemq.storage import LIGHT_QUEUES_MAX, light_queues
from lanemq.wire import Refused, RequestCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.logical import SEGMENT_FIELD
from lanemq.wire.message import Property, decode_properties

from ....acl import produces_as, sends_to
from ....logical.rules._forwarding import SEND_HEADERS, SEND_NAMES, born_host_of
from ....logical.rules._gate import SegmentClosed
from ....net._dispatch import Handlers
from ....net._session import Session
from ....sessions.values._results import Moved, Stored
from ....sessions.values._rights import RightsOf
from ...context._context import BrokerContext
from ...logical.traffic._send import MovedSends
from ...timers._sends import TimedSends
from ...values._own_properties import OwnProperties
from ...values._room import check_length
from ...writing._flushes import Flushes
from ._quick_sends import (
    OrdinarySend,
    QuickSend,
    half_sends,
    ordinary_sends,
    quick_sends,
)
from ._send_special import SpecialSends, brings_half

Sent = Stored | Moved | Frame
"""The result of a send; a frame is the answer of another broker that took the message."""

Send = Callable[[Frame, Session], Sent | Awaitable[Sent]]
"""Sends the message of a request. Raises ``Refused``."""
SenderCheck = Callable[[Frame, Session], None]
"""Checks that the sender of a message may touch all that the message touches. Raises
``Refused``."""


@final
@define(eq=False, kw_only=True, repr=False)
class Sends:
    """The sends to one broker."""

    _count_failed: Callable[[], None]
    flushed: Callable[[Stored], Awaitable[Stored]]
    """Waits for the disk on behalf of a sender whose result says so."""
    _moved: MovedSends
    check: SenderCheck | None
    """None where everyone may send everything."""
    ordinary: OrdinarySend
    _special: SpecialSends
    quick: dict[int, QuickSend] = field(init=False, factory=dict)
    """Request code -> the quick way of its sends, for senders that were checked."""
    checked: dict[int, Send] = field(init=False, factory=dict)
    """Request code -> the handler of its sends, for senders that were checked: a request that was
    written again, for another queue, no longer has its sender's signature."""
    any: dict[int, Send] = field(init=False, factory=dict)
    """Request code -> the handler of its sends."""

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return the sends to ``broker``."""
        config, topics, writer = broker.config, broker.topics, broker.writer
        statistics, mappings = broker.statistics, broker.logical.mappings
        own, flushes = OwnProperties(config), Flushes(broker.store)
        ordinary = ordinary_sends(
            append=writer.append,
            append_half=half_sends(
                config=config, recent=broker.recent_halves, topics=topics, writer=writer
            ),
            config=config,
            count_put=statistics.put,
            find_target=topics.target,
            mappings=mappings,
            store_host=broker.store_host,
            to_store=own.to_store,
            waits=flushes.are_awaited,
        )
        special = SpecialSends(
            config=config,
            groups=broker.groups,
            now_ms=broker.now_ms,
            store_host=broker.store_host,
            topics=topics,
            writer=writer,
            count_put=statistics.put,
            mappings=mappings,
            message_bytes_max=broker.store.config.max_message_bytes,
            own=own,
            timed=TimedSends.of(broker),
            waits=flushes.are_awaited,
        )
        moved = MovedSends(
            address=broker.address,
            commit=broker.commit,
            commit_all=broker.commit_all,
            config=config,
            logical=broker.logical,
            peers=broker.peers,
        )
        return cls(
            count_failed=statistics.put_failed,
            check=None
            if broker.access_control is None
            else sender_checks(broker.rights, broker.light_queues.check_number),
            flushed=flushes.flushed,
            moved=moved,
            ordinary=ordinary,
            special=special,
        )

    def _after_check(self, send: Send) -> Send:
        """Return ``send`` with the check before it, if there is one."""
        check, count_failed = self.check, self._count_failed
        if check is None:
            return send

        def checked(frame: Frame, session: Session) -> Sent | Awaitable[Sent]:
            try:
                check(frame, session)
            except Refused:
                count_failed()
                raise
            return send(frame, session)

        return checked

    def add(self, code: int) -> Send:
        """Make the handler of a request code."""
        names, read = SEND_NAMES[code], SEND_HEADERS[code].from_fields
        append, flushed = quick_sends(self.ordinary, names), self.flushed
        special, moved, count_failed = self._special, self._moved, self._count_failed
        topic_name, queue_id_name = names.topic, names.queue_id

        def send(frame: Frame, session: Session) -> Sent | Awaitable[Sent]:
            try:
                if SEGMENT_FIELD in frame.fields:
                    moved.check_meant(frame, topic_name, queue_id_name)
                stored = append(frame, session)
                if stored is None:
                    stored = special.store(
                        read(frame.fields),
                        body=frame.body,
                        born_host=born_host_of(frame, session.peer),
                        version=frame.version,
                    )
            except Refused:
                count_failed()
                raise
            except SegmentClosed as closed:
                return moved.answer(closed, frame, session, send)
            except (KeyError, ValueError):
                read(frame.fields)  # says which field it is
                raise
            if stored.waits and not frame.flag & FLAG_ONEWAY:
                return flushed(stored)
            return stored

        self.quick[code], self.checked[code] = append, send
        self.any[code] = self._after_check(send)
        return self.any[code]


def sender_checks(
    rights_of: RightsOf, check_number: Callable[[Collection[str]], None]
) -> SenderCheck:
    """Make the check of what a message touches by its properties: a half message its producer
    group, to whose members the broker shows it, and others the light queues into which the store
    puts them."""

    def check(frame: Frame, session: Session) -> None:
        text = frame.fields.get(SEND_NAMES[frame.code].properties, "")
        check_length(text)
        may_be_half = Property.TRAN_MSG in text
        may_have_lights = Property.INNER_MULTI_DISPATCH in text
        if not (may_be_half or may_have_lights):
            return
        header = SEND_HEADERS[frame.code].from_fields(frame.fields)
        properties = decode_properties(text)
        if (
            may_be_half
            and (group := properties.get(Property.PGROUP))
            and brings_half(header, properties)
        ):
            rights_of(frame, session).require(produces_as(group))
        if may_have_lights:
            lights = light_queues(header.topic, text.encode("utf-8", "replace"))
            check_number(lights)
            # Also without the settings: one that waits may be due when they are there.
            rights_of(frame, session).require(*map(sends_to, lights[:LIGHT_QUEUES_MAX]))

    return check


def register(handlers: Handlers, broker: BrokerContext) -> Sends:
    """Register sends of a message or a batch, in both forms of the header."""
    sends = Sends.of(broker)
    for code in (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ):
        handlers.add(code, sends.add(code))
    return sends
