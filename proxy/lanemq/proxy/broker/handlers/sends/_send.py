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

from lanemq.storage import LIGHT_QUEUES_MAX
from lanemq.wire import LMQ_PREFIX, Refused, RequestCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.logical import SEGMENT_FIELD
from lanemq.wire.message import Property, decode_properties

from ....acl import produces_as, sends_to
from ....logical.rules._forwarding import SEND_HEADERS, SEND_NAMES, SendNames, born_host_of
from ....logical.rules._gate import SegmentClosed
from ....net._dispatch import Handlers
from ....net._session import Session
from ....sessions.values._results import Moved, Stored
from ....sessions.values._rights import RightsOf
from ...context._context import BrokerContext
from ...logical.traffic._send import MovedSends
from ...timers._sends import TimedSends
from ...values._own_properties import OwnProperties
from ...writing._flushes import Flushes
from ._quick_sends import (
    OrdinarySend,
    QuickSend,
    half_sends,
    ordinary_sends,
    quick_sends,
)
from ._send_special import SpecialSends

Sent = Stored | Moved | Frame
"""The result of a send; a frame is the answer of another broker that took the message."""

Send = Callable[[Frame, Session], Sent | Awaitable[Sent]]
"""Sends the message of a request. Raises ``Refused``."""


@final
@define(eq=False, kw_only=True, repr=False)
class Sends:
    """The sends to one broker."""

    _count_failed: Callable[[], None]
    flushed: Callable[[Stored], Awaitable[Stored]]
    """Waits for the disk on behalf of a sender whose result says so."""
    _moved: MovedSends
    check: Callable[[str, Frame, Session], None] | None
    """Checks a message's sender, by its properties; None where everyone may send
    everything."""
    ordinary: OrdinarySend
    _special: SpecialSends
    quick: dict[int, QuickSend] = field(init=False, factory=dict)
    """Request code -> the quick way of its sends."""
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

    def _checked(self, append: QuickSend, names: SendNames) -> QuickSend:
        """Return ``append`` with the check before it, where there is one."""
        check = self.check
        if check is None:
            return append

        def checked(frame: Frame, session: Session, queue_id: int | None = None) -> Stored | None:
            fields = frame.fields
            check(fields.get(names.properties, ""), frame, session)
            return append(frame, session, queue_id)

        return checked

    def add(self, code: int) -> Send:
        """Make the handler of a request code."""
        names, read = SEND_NAMES[code], SEND_HEADERS[code].from_fields
        append, flushed = self._checked(quick_sends(self.ordinary, names), names), self.flushed
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

        self.quick[code], self.any[code] = append, send
        return send


def sender_checks(
    rights_of: RightsOf, check_number: Callable[[Collection[str]], None]
) -> Callable[[str, Frame, Session], None]:
    """Make the check of what a message touches by its properties: a half message its producer
    group, to whose members the broker shows it, and others the light queues that they name."""

    def check(properties: str, frame: Frame, session: Session) -> None:
        if Property.TRAN_MSG in properties and (
            group := decode_properties(properties).get(Property.PGROUP)
        ):
            rights_of(frame, session).require(produces_as(group))
        if Property.INNER_MULTI_DISPATCH in properties:
            names = decode_properties(properties).get(Property.INNER_MULTI_DISPATCH, "").split(",")
            light = [name for name in names if name.startswith(LMQ_PREFIX)]
            check_number(light)
            # Also without the settings: one that waits may be due when they are there.
            rights_of(frame, session).require(*map(sends_to, light[:LIGHT_QUEUES_MAX]))

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
