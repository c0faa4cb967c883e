"""The half messages of one broker: a table read from its store at the start, and kept since."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Self, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import NewMessage, Put, Store, StoreError, Unit
from lanemq.wire import ProtocolError, SystemGroup, SystemTopic
from lanemq.wire.message import Property, StoredMessage, decode_message

from ..context._context import BrokerContext
from ..state._topics import Topics
from ..writing._writer import Writer
from ._rules import QUEUE_ID, check_times, offsets_in, op_message, origin_of
from ._state import HalfMessages

LOGGER = get_logger("lanemq.proxy.broker.transactions", by_peers=True)

HALF: Final = SystemTopic.TRANSACTION_HALF
OP: Final = SystemTopic.TRANSACTION_OP_HALF
GROUP: Final = SystemGroup.TRANSACTION
BATCH: Final = 64
"""Most messages of one turn of the loop."""
BATCH_BYTES: Final = 1 << 20
"""Bytes after which no other message is read in a turn."""
READ_AGAIN: Final = 1 << 14
"""Messages of either queue that a start reads though the last broker was done with them: so an
end that comes a second time after it is recognised."""
_SHARED: Final = (Property.UNIQ_KEY, Property.PGROUP, Property.REAL_TOPIC)
"""Properties that a half message and its copies have in common."""


@final
@define(eq=False, kw_only=True, repr=False)
class HalfTable:
    """The table of half messages; ``loaded`` is set once it says what the store says."""

    _now_ms: Callable[[], int]
    _store: Store
    _store_host: bytes
    _topics: Topics
    _writer: Writer
    halves: HalfMessages = field(init=False)
    _first: int = field(init=False)
    loaded: trio.Event = field(init=False, factory=trio.Event)
    under_way: set[int] = field(init=False, factory=set)
    """Half messages whose transactions end now; their op messages are not in the log yet."""

    def __attrs_post_init__(self) -> None:
        begin, self._first = self._begin(HALF)
        op_begin, op_first = self._begin(OP)
        self.halves = HalfMessages(begin, op_begin, first=self._first, op_first=op_first)

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return the table of the half messages of ``broker``."""
        return cls(
            now_ms=broker.now_ms,
            store=broker.store,
            store_host=broker.store_host,
            topics=broker.topics,
            writer=broker.writer,
        )

    def _begin(self, topic: str) -> tuple[int, int]:
        """Return where the last broker was, as far as the queue reaches, and where to read from."""
        least, end = self._store.bounds(topic, QUEUE_ID)
        kept = self._store.tables.consumer_offsets.get(GROUP, topic, QUEUE_ID)
        begin = min(max(least if kept is None else kept, least), end)
        return begin, max(least, begin - READ_AGAIN)

    async def load(self) -> None:
        """Read the queues from the last broker's progress on, and a part of what was before."""
        await self._load_ops()
        await self._load_copies()
        await self._load_ops()  # transactions that ended meanwhile
        self.loaded.set()

    async def _load_ops(self) -> None:
        store, halves = self._store, self.halves
        offset = halves.op_next
        while units := store.units(OP, QUEUE_ID, offset, BATCH):
            end = store.bounds(HALF, QUEUE_ID)[1]
            for unit in _of_a_turn(units):
                op = self.read(unit)
                halves.ended(offset, [] if op is None else offsets_in(op, end))
                offset += 1
            await trio.lowlevel.checkpoint()

    async def _load_copies(self) -> None:
        store, offset = self._store, self._first
        places: dict[tuple[str | None, ...], int] = {}  # what copies share -> the first place
        over: set[int] = set()
        while units := store.units(HALF, QUEUE_ID, offset, BATCH):
            for unit in _of_a_turn(units):
                half = self.read(unit)
                if half is not None:
                    origin = origin_of(half)
                    shared = tuple(map(half.properties.get, _SHARED))
                    if origin == offset and shared[0] is not None:
                        # Apache's brokers do not say where the message was before, and a client
                        # chooses its unique key: a copy has the same owners, too.
                        first = places.setdefault(shared, offset)
                        origin = first if check_times(half) else offset
                    if origin != offset:
                        self.halves.found_copy(origin, offset, over)
                offset += 1
            await trio.lowlevel.checkpoint()

    def read(self, unit: Unit) -> StoredMessage | None:
        """Return the message of a unit; None where it is damaged, or no longer in the log."""
        return self._found(unit.log_position, unit.has)

    def message_at(self, log_position: int) -> StoredMessage | None:
        """Return the message that a queue has at a position, which a client may have named."""
        return self._found(log_position, lambda _: True)

    def _found(self, log_position: int, is_meant: Callable[[bytes], bool]) -> StoredMessage | None:
        try:
            record = self._store.record_at(log_position, queued=True)
            return decode_message(record) if record is not None and is_meant(record) else None
        except (ProtocolError, StoreError) as error:
            LOGGER.warning("the message at %d cannot be read: %s", log_position, error)
            return None

    def append_op(self, offset: int, origin: int, given_up: NewMessage | None = None) -> Put:
        """Append the op message for a half message, and note it once that is in the log.

        ``given_up`` is the message that consumers would have got, if they will not. Raises
        ``Refused``.
        """
        self._topics.ensure(OP, queues=1)
        op = op_message([offset], host=self._store_host, now_ms=self._now_ms())
        put = self._writer.append(op)
        self.under_way.add(offset)
        self._writer.when_finished(self._note_once_stored(put, offset, origin, given_up))
        return put

    def _note_once_stored(
        self, put: Put, offset: int, origin: int, given_up: NewMessage | None
    ) -> Callable[[], None]:
        def note() -> None:
            self.under_way.discard(offset)
            if self._store.max_position >= put.end:  # else it could not be written
                self.halves.ended(put.queue_offset, [offset], origin=origin)
                if given_up is not None:
                    self._writer.give_up_half(given_up.topic, given_up.properties, origin)

        return note

    def keep(self) -> None:
        """Store the table's progress, for the next broker on the store."""
        offsets = self._store.tables.consumer_offsets
        for topic, offset in ((HALF, self.halves.begin), (OP, self.halves.op_begin)):
            if offset != (offsets.get(GROUP, topic, QUEUE_ID) or 0):
                offsets.put(GROUP, topic, QUEUE_ID, offset)


def _of_a_turn(units: Sequence[Unit]) -> Iterator[Unit]:
    """Iterate over the units that one turn reads: the first, and more up to ``BATCH_BYTES``."""
    taken_bytes = 0
    for unit in units:
        if taken_bytes > BATCH_BYTES:
            return
        taken_bytes += unit.size_bytes
        yield unit
