"""Answers to sends whose messages are stored."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, final

import trio

from lanemq.storage import FlushMode
from lanemq.wire import FLAG_ONEWAY, Frame, ResponseCode

from .._reply_template import ReplyTemplate
from ._own_properties import answered_properties

if TYPE_CHECKING:
    from ._context import BrokerContext

FIELDS: Final = ("msgId", "queueId", "queueOffset")

Answer = bytes | None | Awaitable[bytes | None]


@final
class SendAnswers:
    """The answers of one broker. ``values`` are message id, queue id and queue offset."""

    def __init__(self, broker: "BrokerContext") -> None:
        constants = answered_properties(broker.config)
        self._store = broker.store
        self.waits_for_flush: Final = broker.store.config.flush is FlushMode.SYNC
        """Whether a message is stored only when it is on the disk, if its sender does not care."""
        self.stored: Final = ReplyTemplate(FIELDS, constants=constants).encode
        """To a send that is stored."""
        self._flushed_late = ReplyTemplate(
            FIELDS, constants=constants, code=ResponseCode.FLUSH_DISK_TIMEOUT
        ).encode

    def give(self, frame: Frame, values: tuple[object, ...], end: int, *, waits: bool) -> Answer:
        """Answer, at once or once the log is on the disk up to ``end``; nothing if nobody waits."""
        if frame.flag & FLAG_ONEWAY:
            return None
        return self.flushed(end, frame, values) if waits else self.stored(frame, values)

    async def flushed(self, end: int, frame: Frame, values: tuple[object, ...]) -> bytes:
        """Answer once the log is on the disk up to ``end``; late, but stored, is code 10."""
        store = self._store
        with trio.move_on_after(store.config.sync_flush_timeout_s):
            await store.flushed(end)
            return self.stored(frame, values)
        return self._flushed_late(frame, values)
