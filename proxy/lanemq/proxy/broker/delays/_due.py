"""The delivery of messages that waited in the log: delayed ones, and those with a timer."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Self, final

from attrs import define

from lanemq.storage import FlushMode, NewMessage, Store, StoreError, disk_problem
from lanemq.wire import ProtocolError, Refused, ResponseCode
from lanemq.wire.message import StoredMessage, decode_message

from ...logical.rules._gate import SegmentClosed
from ..context._context import BrokerContext
from ..logical.traffic._delivery import Deliveries
from ..state._stats import BrokerStatistics
from ..state._stored_again import stored_again
from ..writing._undelivered import Undelivered
from ..writing._writer import Writer

BATCH: Final = 64
BATCH_BYTES: Final = 1 << 20
"""Limits of one write of delivered messages, in messages and about in bytes: senders wait no longer
than for it."""


class Impossible(NamedTuple):
    """A message that can never be delivered, and why."""

    why: str


Again = Callable[[StoredMessage], NewMessage | Impossible | None]
"""Makes the message to be delivered; None for one that is no longer wanted."""


@final
@define(eq=False, kw_only=True, repr=False)
class DueMessages:
    """The delivery of one broker's due messages."""

    _commit_all: Callable[[], Awaitable[None]]
    _deliveries: Deliveries
    _kind: str
    """The name of the messages in logs, such as ``delayed message``."""
    _statistics: BrokerStatistics
    _store: Store
    _undelivered: Undelivered
    _writer: Writer

    @classmethod
    def of(
        cls, broker: BrokerContext, kind: str, *, deliveries: Deliveries, undelivered: Undelivered
    ) -> Self:
        """Return the delivery of messages of a kind at ``broker``."""
        return cls(
            commit_all=broker.commit_all,
            deliveries=deliveries,
            kind=kind,
            statistics=broker.statistics,
            store=broker.store,
            undelivered=undelivered,
            writer=broker.writer,
        )

    async def deliver(self, messages: Sequence[tuple[int, int, Again]]) -> int:
        """Append messages to their queues, from the first on; returns how many were appended.

        Each is given by its log position and the bytes of its record. When it returns they are as
        safe as any send, and only then its caller moves on: after a crash some may come twice, none
        is missing. One that can never be delivered is put where it is seen. Raises ``Refused``
        where not even the first could be appended.
        """
        position = delivered = 0
        elsewhere: list[NewMessage] = []
        for log_position, size_bytes, again in messages:
            try:
                end = self._deliver_one(log_position, size_bytes, again, elsewhere)
                position = max(position, end)
            except (Refused, OSError) as error:  # the store takes nothing now
                if delivered:
                    break
                if isinstance(error, OSError):
                    raise Refused(
                        ResponseCode.SERVICE_NOT_AVAILABLE, disk_problem(error)
                    ) from error
                raise
            delivered += 1
        await self._commit_all()
        if elsewhere:
            await self._deliveries.deliver(elsewhere)
            position = self._store.max_position
        if position and self._store.config.flush is FlushMode.SYNC:
            await self._store.flushed(position)
        return delivered

    def read(self, log_position: int, size_bytes: int) -> StoredMessage | None:
        """Return a message that waits; None, with the reason counted and logged, for one that
        cannot be read. ``size_bytes`` are those of its record: see ``Unit``."""
        where = f"the {self._kind} at {log_position}"
        try:
            record = self._store.record_at(log_position)
            if record is not None and len(record) == size_bytes:
                return decode_message(record)
        except (ProtocolError, StoreError) as error:
            self._undelivered.lost(where, error)
            return None
        self._undelivered.lost(where, "it is no longer in the log")
        return None

    def keep(self, message: StoredMessage, why: str) -> int:
        """Put a message where it is seen; returns the position behind it. Raises ``Refused``."""
        aside = stored_again(message, message.topic, message.queue_id)
        return self._undelivered.keep(aside, why)

    def _deliver_one(
        self, log_position: int, size_bytes: int, make: Again, elsewhere: list[NewMessage]
    ) -> int:
        """Append one message, or add it to ``elsewhere``; returns the position behind it, or 0.

        Raises ``Refused`` (not MESSAGE_ILLEGAL) and ``OSError`` while the store takes nothing.
        """
        message = self.read(log_position, size_bytes)
        if message is None:
            return 0
        again = make(message)
        if again is None:
            return 0
        if isinstance(again, Impossible):
            return self.keep(message, again.why)
        try:
            put = self._writer.append(again)
        except SegmentClosed:
            elsewhere.append(again)
            return 0
        except Refused as error:
            if error.code != ResponseCode.MESSAGE_ILLEGAL:
                raise
            return self._undelivered.keep(again, error.remark)
        self._statistics.put(again.topic, 1, put.size_bytes)
        return put.end
